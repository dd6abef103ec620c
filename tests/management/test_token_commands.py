"""The commands create_token, list_tokens and revoke_token."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from icekeeper.kernel.clock import now
from tenancy.authn.own_tokens.stored_tokens import read_token, token_digest
from tenancy.authn.requests import identify
from tenancy.models import AccessToken, ServiceAccount, User
from tests.token_fixtures import TokenClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_first_token_of_a_deployment(access_tokens: None) -> None:
    out, err = run("create_token", "--user", "local~alice", "--create-user")
    token = out.removesuffix("\n")
    assert read_token(token) is not None
    row = AccessToken.objects.get()
    assert row.digest == token_digest(token)
    assert (row.created_by, row.scopes, row.user.name, row.user.user_type) == (
        "internal", "catalog management", "alice", "human",
    )  # fmt: skip
    assert row.expires_at - row.created_at == timedelta(days=90)
    assert "Created the user local~alice." in err
    assert f"Token {row.pk} of local~alice is valid until" in err
    assert "refuses" not in err
    assert token not in err
    assert TokenClient(token).get("/token").json()["tokens"][0]["created-by"] == "internal"
    assert "Created" not in run("create_token", "--user", "local~alice", "--create-user")[1]


def test_a_hint_where_servers_would_refuse_it(db: None) -> None:
    assert "ICEKEEPER__ACCESS_TOKENS=true" in run("create_token", "--user", "local~a", "--create-user")[1]


def test_a_token_of_a_service_account_as_json(access_tokens: None) -> None:
    arguments = ["create_token", "--service-account", "spark", "--scope", "catalog", "--scope", "management:read"]
    out, err = run(*arguments, "--expires-in", "36h", "--name", "nightly", "--json")
    reported = json.loads(out)
    account = ServiceAccount.objects.get()
    assert (reported["user-id"], reported["name"], reported["scopes"]) == (
        account.user_id, "nightly", ["catalog", "management:read"],
    )  # fmt: skip
    assert identify(reported["token"]).user_id == account.user_id
    assert f"Created the service account spark, {account.user_id}." in err
    row = AccessToken.objects.get()
    assert row.expires_at - row.created_at == timedelta(hours=36)
    out, err = run("create_token", "--service-account", "SPARK")
    assert "Created" not in err
    assert out.startswith("iks_")
    assert AccessToken.objects.filter(user=account.user_id).count() == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--user", "local~unknown"], "User does not exist: local~unknown"),
        (["--user", "oidc~x", "--create-user"], "local user is local~<name>"),
        (["--user", "local~", "--create-user"], "local user is local~<name>"),
        (["--user", "local~a b", "--create-user"], "local user is local~<name>"),
        (["--user", "local~a\n", "--create-user"], "local user is local~<name>"),
        (["--user", "local~" + "a" * 121, "--create-user"], "local user is local~<name>"),
        (["--service-account", "s", "--create-user"], "--create-user requires --user"),
        (["--service-account", "a\tb"], "Invalid service account name"),
        ([], "one of the arguments"),
        (["--user", "local~a", "--service-account", "s"], "not allowed with"),
        (["--user", "local~a", "--create-user", "--scope", "admin"], "invalid choice"),
        (["--user", "local~a", "--create-user", "--expires-in", "soon"], "a duration such as"),
        (["--user", "local~a", "--create-user", "--expires-in", "366d"], "1 to 31536000 seconds"),
        (["--user", "local~a", "--create-user", "--name", ""], "Invalid token name"),
    ],
)
def test_arguments_that_are_refused(db: None, arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run("create_token", *arguments)
    assert not AccessToken.objects.exists()
    assert not User.objects.exists()


def test_a_deleted_user_is_restored_without_tokens(access_tokens: None) -> None:
    old = run("create_token", "--user", "local~alice", "--create-user")[0].strip()
    AccessToken.objects.update(revoked_at=now())
    User.objects.update(deleted_at=now())
    with pytest.raises(CommandError, match="User does not exist"):
        run("create_token", "--user", "local~alice")
    new = run("create_token", "--user", "local~alice", "--create-user")[0].strip()
    assert [TokenClient(token).get("/token").status for token in (old, new)] == [401, 200]


def test_tokens_are_listed_and_revoked(access_tokens: None) -> None:
    first, second, other = (
        run("create_token", "--user", f"local~{name}", "--create-user", "--name", f"of {name}")[0].strip()
        for name in ("ann", "ann", "bob")
    )
    rows = list(AccessToken.objects.order_by("pk"))
    out, _ = run("list_tokens")
    lines = out.splitlines()
    assert lines[0].split("\t") == ["id", "user-id", "name", "status", "expires-at", "last-used-at", "scopes"]
    assert [line.split("\t")[:4] for line in lines[1:]] == [
        [str(row.pk), row.user_id, row.name, "active"] for row in rows
    ]
    assert lines[1].split("\t")[5:] == ["never", "catalog management"]
    listed = run("list_tokens", "--user", "local~ann", "--json")[0].splitlines()
    assert [json.loads(line)["id"] for line in listed] == [str(row.pk) for row in rows[:2]]
    for token in (first, second, other):
        assert token not in out + "".join(listed)
    assert run("revoke_token", str(rows[0].pk))[0] == "Revoked 1 access token.\n"
    assert run("revoke_token", rows[2].prefix)[0] == "Revoked 1 access token.\n"
    assert [TokenClient(token).get("/token").status for token in (first, second, other)] == [401, 200, 401]
    assert len(run("list_tokens")[0].splitlines()) == 2
    assert len(run("list_tokens", "--all")[0].splitlines()) == 4
    assert run("revoke_token", "--user", "local~ann")[0] == "Revoked 1 access token.\n"
    assert run("revoke_token", "--user", "local~ann")[0] == "Revoked 0 access tokens.\n"
    assert TokenClient(second).get("/token").status == 401


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no"], "Not the id or the prefix of a token"),
        (["0198e0f4-3f6e-7c31-8c7d-000000000000"], "does not exist"),
        (["ikp_" + "0" * 22], "does not exist"),
        ([], "one of the arguments"),
    ],
)
def test_tokens_that_cannot_be_revoked(access_tokens: None, arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run("revoke_token", *arguments)
