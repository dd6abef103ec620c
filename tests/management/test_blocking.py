"""Block and unblock users."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from icekeeper.kernel.errors.types import Forbidden
from tenancy.actor import Actor
from tenancy.models import User
from tenancy.services.users import block_user
from tests.management.warehouse_request_fixtures import refuse
from tests.token_fixtures import TokenClient, new_token

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_a_blocked_user_is_refused_at_once_and_let_in_again_with_the_same_token(alice: TokenClient) -> None:
    bob = TokenClient(new_token("local~bob"))
    assert bob.get("/token").status == 200
    assert run("block_user", "local~bob") == "local~bob is blocked.\n"
    assert bob.get("/token").refused(401, "AuthenticationFailed")
    assert alice.get("/token").status == 200
    assert run("block_user", "local~bob") == "local~bob is already blocked.\n"
    assert run("unblock_user", "local~bob") == "local~bob is unblocked.\n"
    assert bob.get("/token").status == 200
    assert run("unblock_user", "local~bob") == "local~bob is not blocked.\n"


def test_in_json(alice: TokenClient) -> None:
    new_token("local~bob")
    assert json.loads(run("block_user", "local~bob", "--json")) == {
        "user-id": "local~bob", "is-active": False, "changed": True
    }  # fmt: skip
    assert json.loads(run("unblock_user", "local~bob", "--json"))["is-active"] is True


@pytest.mark.parametrize(
    ("user_id", "text"),
    [
        ("local~unknown", "does not exist"),
        ("local~Bob", "does not exist"),
        ("", "A user id must not be empty"),
        ("bob", "A user id is"),
        ("local~" + "x" * 10_000, "longer than"),
        ("local~a\u0000b", "must not contain"),
    ],
)
def test_no_user_of_that_name(alice: TokenClient, user_id: str, text: str) -> None:
    new_token("local~bob")
    for command in ("block_user", "unblock_user"):
        with pytest.raises(CommandError, match=text):
            run(command, user_id)
    assert User.objects.filter(is_active=False).count() == 0


def test_blocking_needs_permission_to_delete_users(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    new_token("local~bob")
    refuse(monkeypatch)
    with pytest.raises(Forbidden):
        block_user(actor=Actor(user_id="local~alice"), user_id="local~bob")
    assert User.objects.get(pk="local~bob").is_active
