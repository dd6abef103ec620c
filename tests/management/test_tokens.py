"""Access tokens in the management API: create, list, get, rotate and revoke them, and errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import connection

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import INTERNAL, Actor, Identity
from tenancy.authn.own_tokens.stored_tokens import TokenKind, read_token, token_digest, token_prefix
from tenancy.authn.requests import identify
from tenancy.authz.actions import Can
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import AccessToken, ServiceAccount, User
from tenancy.services import access_tokens as service
from tenancy.services.access_tokens import create_token, delete_old_tokens, revoke_tokens_of
from tenancy.services.users import create_service_account
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import Response, call
from tests.management.token_response_fixtures import created, lifetime, works
from tests.management.warehouse_request_fixtures import refuse
from tests.token_fixtures import TokenClient, new_token

pytestmark = pytest.mark.django_db

MEMBERS = {
    "id", "user-id", "name", "prefix", "scopes", "status", "created-at", "created-by", "created-with", "expires-at",
    "not-after", "last-used-at", "revoked-at", "replaced-by",
}  # fmt: skip
NOWHERE = "0198e0f4-3f6e-7c31-8c7d-000000000000"


@pytest.fixture
def robot(access_tokens: None) -> str:
    """The user id of a service account."""
    return create_service_account(actor=INTERNAL, name="robot").user_id


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Can, str]]:
    """Deny every permission; return the checked ones."""
    return refuse(monkeypatch).asked


# --- create and list --------------------------------------------------------------------------------------------------


def test_an_own_token_is_shown_once(alice: TokenClient) -> None:
    response = alice.post("/token", {"name": "laptop"})
    token = created(response)
    assert response.headers["Cache-Control"] == "no-store"
    assert token.keys() == MEMBERS | {"token"}
    text = read_token(token["token"])
    assert text is not None
    assert str(text.token_id) == token["id"]
    own = read_token(alice.token)
    assert own is not None
    expected = {
        "user-id": "local~alice",
        "name": "laptop",
        "prefix": token["token"][:26],
        "scopes": ["catalog", "management"],
        "status": "active",
        "created-by": "local~alice",
        "created-with": str(own.token_id),
        "not-after": AccessToken.objects.get(pk=own.token_id).expires_at.isoformat(),
        "last-used-at": None,
        "revoked-at": None,
        "replaced-by": None,
    }
    assert {name: token[name] for name in expected} == expected
    assert works(token["token"])
    reported = {name: token[name] for name in MEMBERS}
    assert alice.get(f"/token/{token['id']}").json() == reported
    assert reported in alice.get("/token").json()["tokens"]
    row = AccessToken.objects.get(pk=token["id"])
    assert row.digest == token_digest(token["token"])


def test_a_token_of_a_service_account(alice: TokenClient, robot: str) -> None:
    token = created(alice.post("/token", {"name": "spark", "user-id": robot, "scopes": ["catalog"]}))
    assert token["token"].startswith("iks_")
    assert (token["user-id"], token["created-by"], token["scopes"]) == (robot, "local~alice", ["catalog"])
    assert lifetime(token) == pytest.approx(90 * 86_400)
    identity = identify(token["token"])
    assert identity == Identity(
        user_id=robot,
        provider_id="icekeeper",
        user_type="application",
        name="robot",
        scopes=frozenset({"catalog"}),
        access_token_id=UUID(token["id"]),
    )
    assert [each["id"] for each in alice.get(f"/token?userId={robot}").json()["tokens"]] == [token["id"]]


def test_the_listing_has_pages_and_they_are_of_one_user(alice: TokenClient, robot: str) -> None:
    ids = [created(alice.post("/token", {"name": f"t{n}", "user-id": robot}))["id"] for n in range(5)]
    found: list[str] = []
    target = f"/token?userId={robot}&pageSize=2"
    token = ""
    sizes = []
    while True:
        page = alice.get(f"{target}&pageToken={token}").json()
        sizes.append(len(page["tokens"]))
        found += [each["id"] for each in page["tokens"]]
        if "next-page-token" not in page:
            break
        token = page["next-page-token"]
    assert (found, sizes) == (ids, [2, 2, 1])
    assert len(alice.get("/token").json()["tokens"]) == 1
    of_robot = alice.get(target).json()["next-page-token"]
    for other in ("/token?", "/token?userId=local~bob&"):
        assert alice.get(f"{other}pageToken={of_robot}").refused(400, "InvalidPaginationToken")
    for forged in ("x", "WzEsInNlcnZpY2UtYWNjb3VudHMiLCJ4Il0", "%F0", token[:-3]):
        assert alice.get(f"{target}&pageToken={forged}").refused(400, "InvalidPaginationToken")
    for size in ("0", "-1", "a", "1e3", "9999999999"):
        assert alice.get(f"{target}&pageSize={size}").refused(400, "BadRequestException", "pageSize")
    assert alice.get("/token?userId=unknown").json() == {"tokens": []}


def test_the_life_of_a_token(alice: TokenClient, robot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def life(**body: Any) -> Response:
        return alice.post("/token", {"name": "t", "user-id": robot, **body})

    assert lifetime(created(life(**{"expires-in-seconds": 1}))) == 1
    assert lifetime(created(life(**{"expires-in-seconds": 365 * 86_400}))) == 365 * 86_400
    end = (now() + timedelta(days=3)).replace(microsecond=0)
    assert created(life(**{"expires-at": end.isoformat()}))["expires-at"] == end.isoformat()
    assert lifetime(created(life(**{"expires-at": None, "expires-in-seconds": None}))) == pytest.approx(90 * 86_400)
    for body in (
        {"expires-in-seconds": 365 * 86_400 + 1},
        {"expires-in-seconds": 2**63 - 1},
        {"expires-at": "9999-12-31T23:59:59Z"},
        {"expires-at": "2020-01-01T00:00:00Z"},
        {"expires-in-seconds": 60, "expires-at": end.isoformat()},
    ):
        assert life(**body).refused(400, "BadRequestException")
    shorter = {"access_token_max_lifetime": 3600.0}
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=shorter))
    assert lifetime(created(life())) == 3600
    assert life(**{"expires-in-seconds": 3601}).refused(400, "BadRequestException", "1 to 3600 seconds")


def test_a_token_cannot_grant_more_than_it_has(access_tokens: None, robot: str) -> None:
    end = now() + timedelta(hours=1)
    narrow = TokenClient(new_token(scopes=["management", "catalog:read"], expires_at=end))
    own = created(narrow.post("/token", {"name": "t"}))
    assert own["scopes"] == ["catalog:read", "management"]
    assert own["expires-at"] == end.isoformat()
    of_robot = created(narrow.post("/token", {"name": "t", "user-id": robot, "scopes": ["catalog:read"]}))
    assert lifetime(of_robot) == pytest.approx(90 * 86_400)
    assert created(narrow.post("/token", {"name": "t", "scopes": ["management:read"]}))["scopes"] == ["management:read"]
    before = AccessToken.objects.count()
    for user_id in (None, robot):
        for scopes in (["catalog"], ["catalog:read", "catalog"]):
            response = narrow.post("/token", {"name": "t", "user-id": user_id, "scopes": scopes})
            assert response.refused(403, "InsufficientScope", "cannot grant others")
    assert narrow.post("/token", {"name": "t", "expires-in-seconds": 7200}).refused(
        400, "BadRequestException", "outlive"
    )
    assert AccessToken.objects.count() == before


@pytest.mark.parametrize(
    ("body", "wire_type"),
    [
        (None, "BadRequestException"),
        ([], "BadRequestException"),
        ({}, "BadRequestException"),
        ({"name": None}, "BadRequestException"),
        ({"name": ""}, "BadRequestException"),
        ({"name": "  "}, "BadRequestException"),
        ({"name": 7}, "BadRequestException"),
        ({"name": "n" * 256}, "BadRequestException"),
        ({"name": "n" * 10_000}, "BadRequestException"),
        ({"name": "a\nb"}, "BadRequestException"),
        ({"name": "a\x00b"}, "BadRequestException"),
        ({"name": "a\u202eb"}, "BadRequestException"),
        ({"name": "t", "scopes": []}, "InvalidScope"),
        ({"name": "t", "scopes": ["admin"]}, "InvalidScope"),
        ({"name": "t", "scopes": ["catalog management"]}, "InvalidScope"),
        ({"name": "t", "scopes": ["catalog", ""]}, "BadRequestException"),
        ({"name": "t", "scopes": "catalog"}, "BadRequestException"),
        ({"name": "t", "scopes": [1]}, "BadRequestException"),
        ({"name": "t", "expires-in-seconds": 0}, "BadRequestException"),
        ({"name": "t", "expires-in-seconds": -5}, "BadRequestException"),
        ({"name": "t", "expires-in-seconds": 1.5}, "BadRequestException"),
        ({"name": "t", "expires-in-seconds": "60"}, "BadRequestException"),
        ({"name": "t", "expires-in-seconds": True}, "BadRequestException"),
        ({"name": "t", "expires-at": "tomorrow"}, "BadRequestException"),
        ({"name": "t", "expires-at": 7}, "BadRequestException"),
        ({"name": "t", "user-id": ""}, "BadRequestException"),
        ({"name": "t", "user-id": ["x"]}, "BadRequestException"),
        ({"name": "t", "user-id": "icekeeper~"}, "UserNotFound"),
        ({"name": "t", "user-id": f"icekeeper~{NOWHERE}"}, "UserNotFound"),
        ({"name": "t", "user-id": "icekeeper~" + "x" * 10_000}, "UserNotFound"),
        ({"name": "t", "user-id": "local~bob"}, "ForbiddenException"),
        ({"name": "t", "user-id": "local~unknown"}, "ForbiddenException"),
    ],
)
def test_bodies_that_are_refused(
    alice: TokenClient, everything: Callable[[], Fingerprint], body: Any, wire_type: str
) -> None:
    new_token("local~bob")
    before = everything()
    status = {"UserNotFound": 404, "ForbiddenException": 403}.get(wire_type, 400)
    response = alice.post("/token", body)
    assert response.refused(status, wire_type)
    assert len(response.body) < 1000
    assert everything() == before


def test_a_user_with_the_id_of_a_service_account_is_none(
    alice: TokenClient, robot: str, everything: Callable[[], Fingerprint]
) -> None:
    phantom = f"icekeeper~{NOWHERE}"
    User.objects.create(pk=phantom, user_type="application")
    token = created(alice.post("/token", {"name": "t", "user-id": robot}))
    ServiceAccount.objects.filter(user_id=robot).delete()
    before = everything()
    for user_id in (phantom, robot):
        assert alice.post("/token", {"name": "t", "user-id": user_id}).refused(404, "UserNotFound")
        with pytest.raises(CatalogError, match="does not exist"):
            create_token(actor=INTERNAL, user_id=user_id, name="t")
    assert alice.post(f"/token/{token['id']}/rotate", {}).refused(404, "UserNotFound")
    assert everything() == before


def test_members_that_only_the_server_sets_are_ignored(alice: TokenClient) -> None:
    wish = {"id": NOWHERE, "token": "ikp_mine", "prefix": "p", "created-by": "local~root", "last-used-at": "2020-01-01"}
    token = created(alice.post("/token", {"name": "t", **wish}))
    for name, value in wish.items():
        assert token[name] != value
    assert alice.send("POST", "/token", b'{"name": "a", "name": "b"}').refused(400, "BadRequestException", "twice")


def test_a_user_has_so_many_tokens(alice: TokenClient, robot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_LIVE_TOKENS", 2)
    tokens = [created(alice.post("/token", {"name": "t", "user-id": robot})) for _ in range(2)]
    assert alice.post("/token", {"name": "t", "user-id": robot}).refused(409, "TooManyAccessTokens", robot)
    assert alice.delete(f"/token/{tokens[0]['id']}").status == 204
    created(alice.post("/token", {"name": "t", "user-id": robot}))


def test_a_user_of_another_provider_is_registered_with_the_first_token(access_tokens: None) -> None:
    identity = Identity("oidc~carol", "oidc", "human", name="Carol", email="carol@example.com", roles=("r",))
    issued = create_token(actor=Actor(user_id="oidc~carol", identity=identity), name="t")
    carol = User.objects.get(pk="oidc~carol")
    assert (carol.name, carol.email, carol.user_type) == ("Carol", "carol@example.com", "human")
    assert not carol.has_usable_password()
    claimed = identify(issued.text)
    assert (claimed.user_id, claimed.provider_id, claimed.roles) == ("oidc~carol", "oidc", ())


def test_a_first_request_for_a_token_registers_the_user() -> None:
    identity = Identity("oidc~carol", "oidc", "human", name="Ca\x00rol\u2028", email="c" * 10_000)
    actor = Actor(user_id="oidc~carol", identity=identity)
    create_token(actor=actor, name="t")
    carol = User.objects.get(pk="oidc~carol")
    assert (carol.name, carol.email) == ("Carol", "c" * 320)
    User.objects.update(deleted_at=now())
    create_token(actor=actor, name="t")
    assert User.objects.get(pk="oidc~carol").deleted_at is None, "registered again, as by any other call"
    nameless = Actor(user_id="oidc~dave", identity=Identity("oidc~dave", "oidc", "human"))
    create_token(actor=nameless, name="t")
    assert User.objects.get(pk="oidc~dave").name == "Nameless App with ID oidc~dave"


# --- revoke -----------------------------------------------------------------------------------------------------------


def test_a_revoked_token_is_dead_at_once(alice: TokenClient) -> None:
    token = created(alice.post("/token", {"name": "t"}))
    assert works(token["token"])
    for _ in range(2):
        response = alice.delete(f"/token/{token['id']}")
        assert (response.status, response.body) == (204, b"")
        assert not works(token["token"])
    reported = alice.get(f"/token/{token['id']}").json()
    assert reported["status"] == "revoked"
    revoked_at = reported["revoked-at"]
    assert alice.get(f"/token/{token['id']}").json()["revoked-at"] == revoked_at
    assert works(alice.token)


def test_a_token_revokes_itself(alice: TokenClient) -> None:
    own = read_token(alice.token)
    assert own is not None
    assert alice.delete(f"/token/{own.token_id}").status == 204
    assert alice.get("/token").refused(401, "AuthenticationFailed")


def test_an_expired_token_is_refused(alice: TokenClient) -> None:
    token = created(alice.post("/token", {"name": "t"}))
    AccessToken.objects.filter(pk=token["id"]).update(expires_at=now())
    assert not works(token["token"])
    assert alice.get(f"/token/{token['id']}").json()["status"] == "expired"


@pytest.mark.parametrize("change", [{"is_active": False}, {"deleted_at": datetime(2026, 1, 1, tzinfo=UTC)}])
def test_tokens_of_a_deleted_user_are_refused(alice: TokenClient, change: dict[str, Any]) -> None:
    token = new_token("local~bob")
    User.objects.filter(pk="local~bob").update(**change)
    assert not works(token)


def test_tokens_of_a_user_end_together(alice: TokenClient) -> None:
    tokens = [new_token("local~bob") for _ in range(3)]
    assert all(works(token) for token in tokens)
    with change(INTERNAL) as tx:
        assert revoke_tokens_of(user_id="local~bob") == 3
        tx.record(Change.USER_DELETED, subject="local~bob")
    assert not any(works(token) for token in tokens)
    assert works(alice.token)
    assert revoke_tokens_of(user_id="local~bob") == 0


def test_unknown_tokens(alice: TokenClient, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    for token_id in (NOWHERE, "no", "..%2F", alice.token, NOWHERE.replace("-", ""), "%7B" + NOWHERE + "%7D", "*"):
        for response in (
            alice.get(f"/token/{token_id}"),
            alice.delete(f"/token/{token_id}"),
            alice.post(f"/token/{token_id}/rotate", {}),
        ):
            assert response.refused(404, "AccessTokenNotFound")
            assert alice.token not in response.body.decode()
    assert alice.send("PUT", "/token").refused(405, "MethodNotAllowedException")
    assert everything() == before


def test_old_rows_are_deleted(alice: TokenClient, robot: str) -> None:
    long_ago, lately = now() - timedelta(days=91), now() - timedelta(days=89)
    tokens = [created(alice.post("/token", {"name": str(n), "user-id": robot}))["id"] for n in range(5)]
    changes = [{"expires_at": long_ago}, {"revoked_at": long_ago}, {"expires_at": lately}, {"revoked_at": lately}, {}]
    for token_id, columns in zip(tokens, changes, strict=True):
        AccessToken.objects.filter(pk=token_id).update(**columns)
    AccessToken.objects.filter(pk=tokens[0]).update(replaced_by=tokens[4])
    assert delete_old_tokens(actor=INTERNAL, batch=1) == 2
    assert set(AccessToken.objects.filter(user_id=robot).values_list("name", flat=True)) == {"2", "3", "4"}


# --- permissions ------------------------------------------------------------------------------------------------------


def test_own_tokens_need_no_permission(alice: TokenClient, refusing: list[tuple[Can, str]]) -> None:
    token = created(alice.post("/token", {"name": "t"}))
    new = created(alice.post(f"/token/{token['id']}/rotate", {}))
    assert alice.get("/token").status == alice.get(f"/token/{token['id']}").status == 200
    assert alice.get("/token?userId=local~alice").status == 200
    assert alice.delete(f"/token/{new['id']}").status == 204
    assert refusing == []


def test_tokens_of_others_need_permission_on_the_server(
    alice: TokenClient, robot: str, refusing: list[tuple[Can, str]], everything: Callable[[], Fingerprint]
) -> None:
    row = AccessToken.objects.create(
        user_id=robot, name="t", prefix="p", digest="d", scopes="catalog", created_at=now(), created_by="x",
        expires_at=now() + timedelta(days=1),
    )  # fmt: skip
    before = everything()
    expected = (
        (alice.post("/token", {"name": "t", "user-id": robot}), Can.PROVISION_USERS),
        (alice.post(f"/token/{row.pk}/rotate", {}), Can.PROVISION_USERS),
        (alice.get(f"/token?userId={robot}"), Can.UPDATE_USERS),
        (alice.get("/token?userId=local~bob"), Can.UPDATE_USERS),
        (alice.get(f"/token/{row.pk}"), Can.UPDATE_USERS),
        (alice.delete(f"/token/{row.pk}"), Can.UPDATE_USERS),
        (alice.post("/service-account", {"name": "x"}), Can.PROVISION_USERS),
        (alice.get("/service-account"), Can.LIST_USERS),
        (alice.delete(f"/service-account/{robot}"), Can.DELETE_USERS),
    )
    assert all(response.refused(403, "ServerActionForbidden", action) for response, action in expected)
    assert refusing == [(action, "server") for _, action in expected]
    assert everything() == before


def test_tokens_of_others_can_be_revoked_but_not_rotated(alice: TokenClient) -> None:
    of_bob = new_token("local~bob")
    bob = read_token(of_bob)
    assert bob is not None
    assert alice.post(f"/token/{bob.token_id}/rotate", {}).refused(403, "ForbiddenException", "create their own tokens")
    assert works(of_bob)
    assert [each["id"] for each in alice.get("/token?userId=local~bob").json()["tokens"]] == [str(bob.token_id)]
    assert alice.delete(f"/token/{bob.token_id}").status == 204
    assert not works(of_bob)


def test_no_tokens_where_authentication_is_off(bootstrapped: None, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    for method, target, body in (
        ("GET", "/token", b""),
        ("POST", "/token", b'{"name": "t"}'),
        ("POST", "/token", b'{"name": "t", "user-id": "local~alice"}'),
        ("GET", f"/token/{uuid4()}", b""),
        ("DELETE", f"/token/{uuid4()}", b""),
        ("POST", f"/token/{uuid4()}/rotate", b"{}"),
        ("POST", "/service-account", b'{"name": "x"}'),
        ("GET", "/service-account", b""),
        ("DELETE", f"/service-account/{uuid4()}", b""),
    ):
        response = call(method, f"/management/v1{target}", body=body)
        assert response.refused(401, "AuthenticationRequired")
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert everything() == before


def test_an_expired_token_creates_no_other(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request began before the revocation was committed."""
    own = read_token(alice.token)
    assert own is not None
    real = service._lock_user

    def revoked_meanwhile(user_id: str) -> None:
        real(user_id)
        AccessToken.objects.filter(pk=own.token_id).update(revoked_at=now())

    monkeypatch.setattr(service, "_lock_user", revoked_meanwhile)
    assert alice.post("/token", {"name": "t"}).refused(401, "AuthenticationFailed")
    assert AccessToken.objects.count() == 1


# --- secrets -----------------------------------------------------------------------------------------------------


def test_no_token_is_written_anywhere(alice: TokenClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        first = created(alice.post("/token", {"name": "t"}))
        second = created(alice.post(f"/token/{first['id']}/rotate", {"overlap-seconds": 0}))
        issued = create_token(actor=INTERNAL, user_id="local~alice", name="t")
        responses = [
            alice.get("/token"),
            alice.get(f"/token/{first['id']}"),
            TokenClient(first["token"]).get("/token"),
            TokenClient(second["token"][:-1]).get("/token"),
        ]
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM tenancy_accesstoken")
        rows = repr(cursor.fetchall())
    written = (
        rows + caplog.text + repr(issued) + str(issued.row) + "".join(str(response.body) for response in responses)
    )
    written += "".join(repr(record.__dict__) for record in caplog.records)
    for text in (alice.token, first["token"], second["token"], issued.text):
        secret = text[27:]
        assert secret not in written
        assert text[:26] in written
        known = read_token(text)
        assert known is not None
        assert text[:26] == token_prefix(TokenKind.PERSONAL, known.token_id)
