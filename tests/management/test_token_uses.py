"""The time of a token's last use: cached, and stored later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from icekeeper.kernel.ids import new_id
from tenancy.authn.own_tokens import stored_tokens
from tenancy.authn.own_tokens.stored_tokens import TokenUses, read_token, record_uses, write_token_uses
from tenancy.models import AccessToken
from tests.token_fixtures import TokenClient, new_token

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def uses() -> Iterator[TokenUses]:
    """The cached uses of this process, cleared before and after."""
    stored_tokens.token_uses.take()
    yield stored_tokens.token_uses
    stored_tokens.token_uses.take()


def used_at() -> list[datetime | None]:
    return list(AccessToken.objects.order_by("pk").values_list("last_used_at", flat=True))


def test_a_use_is_written_down_later(alice: TokenClient, uses: TokenUses) -> None:
    unused = new_token("local~bob")
    before = datetime.now(UTC)
    for _ in range(3):
        assert alice.get("/token").status == 200
    assert used_at() == [None, None]
    write_token_uses()
    first, second = used_at()
    assert first is not None
    assert before <= first <= datetime.now(UTC)
    assert second is None
    assert alice.get("/token").json()["tokens"][0]["last-used-at"] == first.isoformat()
    assert TokenClient(unused[:-1]).get("/token").status == 401
    write_token_uses()
    assert used_at() == [first, None]


def test_a_later_use_stays(alice: TokenClient) -> None:
    text = read_token(alice.token)
    assert text is not None
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for seconds in (10, 5, 20, 20, 1):
        record_uses({text.token_id: (at + timedelta(seconds=seconds)).timestamp(), new_id(): 1.0})
    assert used_at() == [at + timedelta(seconds=20)]


def test_uses_that_cannot_be_written_are_kept(
    alice: TokenClient, uses: TokenUses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("the database is away")

    alice.get("/token")
    with monkeypatch.context() as patched:
        patched.setattr(stored_tokens, "record_uses", fail)
        with pytest.raises(RuntimeError, match="away"):
            write_token_uses()
    assert used_at() == [None]
    write_token_uses()
    assert used_at() != [None]


def test_later_uses_are_newer_than_returned_ones() -> None:
    uses, token_id = TokenUses(), UUID(int=1)
    uses.note(token_id)
    newest = uses.take()[token_id]
    uses.note(token_id)
    uses.put_back({token_id: 1.0, UUID(int=2): 2.0})
    taken = uses.take()
    assert taken[token_id] >= newest
    assert taken[UUID(int=2)] == 2.0


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_tokens, "MAX_NOTED_USES", 2)
    uses = TokenUses()
    for number in (1, 2, 3, 1):
        uses.note(UUID(int=number))
    assert set(uses.take()) == {UUID(int=1), UUID(int=2)}
