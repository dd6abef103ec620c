"""Concurrent writes of tokens on PostgreSQL lock rows in one order."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from icekeeper.kernel.db.transactions import write_transaction
from tenancy.actor import INTERNAL, Actor
from tenancy.authn.own_tokens.stored_tokens import read_token
from tenancy.authn.requests import identify
from tenancy.models import AccessToken
from tenancy.services import access_tokens as service
from tenancy.services.access_tokens import create_token, revoke_tokens_of, rotate_token
from tenancy.services.users import create_service_account
from tests.harness.threads import at_once
from tests.token_fixtures import new_token

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.timeout(120),
    pytest.mark.both_databases,
]

TIMEOUT_SECONDS = 30


@pytest.fixture(autouse=True)
def several_connections(access_tokens: None) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite writers wait for each other as a whole")


def row_of(token: str) -> UUID:
    text = read_token(token)
    assert text is not None
    return text.token_id


def test_two_tokens_rotate_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has locked its owner's row before either locks a token, which used to deadlock."""
    robots = [create_service_account(actor=INTERNAL, name=name).user_id for name in ("one", "two")]
    tokens = [new_token(robot) for robot in robots]
    actors = [Actor(user_id=robot, identity=identify(token)) for robot, token in zip(robots, tokens, strict=True)]
    both_are_there, never = threading.Barrier(2), threading.Event()
    lock_user, bounds = service._lock_user, service._limits

    def lock_user_and_wait(user_id: str) -> None:
        lock_user(user_id)
        both_are_there.wait(TIMEOUT_SECONDS)

    def bounds_at_leisure(*args: Any) -> Any:
        found = bounds(*args)
        never.wait(0.5)  # so that the other one can lock its own token
        return found

    monkeypatch.setattr(service, "_lock_user", lock_user_and_wait)
    monkeypatch.setattr(service, "_limits", bounds_at_leisure)
    issued = at_once(
        lambda: rotate_token(actor=actors[0], token_id=row_of(tokens[1])),
        lambda: rotate_token(actor=actors[1], token_id=row_of(tokens[0])),
    )
    assert [each.row.user_id for each in issued] == list(reversed(robots))
    assert AccessToken.objects.exclude(replaced_by=None).count() == 2


def test_the_tokens_of_a_user_are_ended_in_the_order_of_their_ids() -> None:
    robot = create_service_account(actor=INTERNAL, name="one").user_id
    for _ in range(3):
        create_token(actor=INTERNAL, user_id=robot, name="t")
    with CaptureQueriesContext(connection) as asked, write_transaction():
        assert revoke_tokens_of(user_id=robot) == 3
    locking = [each["sql"] for each in asked.captured_queries if "FOR NO KEY UPDATE" in each["sql"]]
    assert len(locking) == 1
    assert 'SELECT "tenancy_accesstoken"."id"' in locking[0]
    assert locking[0].endswith(" ORDER BY 1 ASC FOR NO KEY UPDATE")
