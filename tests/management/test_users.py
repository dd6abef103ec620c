"""Users: registration, update, search and deletion."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings

from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor, Identity
from tenancy.authz.actions import Can
from tenancy.models import AccessToken, Grant, Project, RoleMember, Securable, Server, User
from tenancy.services.registration import ServiceAccountIsNamed, register_principal
from tenancy.services.role_members import Members, add_role_members
from tenancy.services.roles import create_role
from tenancy.services.users import create_service_account, delete_service_account, register_user
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import refuse
from tests.token_fixtures import TokenClient, new_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped"), pytest.mark.both_databases]

api = ApiClient("/management/v1")

NOWHERE = "01a2021f-e3e0-75c2-97d1-5919c2df1d2e"


@pytest.fixture
def alice(callers: NamedCallers) -> CallerClient:
    callers.user("alice")
    return CallerClient("/management/v1", "alice")


def provision(subject: str, **more: Any) -> Response:
    return api.post("/user", {"id": f"oidc~{subject}", "name": subject.title(), "user-type": "human", **more})


def address(user_id: str) -> str:
    return f"/user/{quote(user_id, safe='')}"


def untimed(user: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in user.items() if key not in {"created-at", "updated-at"}}


# --- registration -----------------------------------------------------------------------------------------------------


def test_users_register_themselves(alice: CallerClient) -> None:
    created = alice.post("/user", {})
    assert created.status == 201, created.body
    assert untimed(created.json()) == {
        "id": "oidc~alice",
        "name": "Alice",
        "email": "alice@example.com",
        "user-type": "human",
        "last-updated-with": "create-endpoint",
    }
    assert alice.get(address("oidc~alice")).json() == created.json()
    assert alice.post("/user", {}).refused(409, "UserAlreadyExists", "oidc~alice")
    assert alice.post("/user", {"id": "oidc~alice"}).refused(409, "UserAlreadyExists")
    from_token = alice.post("/user", {"update-if-exists": True}).json()
    assert untimed(from_token) == untimed(created.json())


CLAIMED = {"name": "Bob Builder", "email": "bob@example.com", "user-type": "human"}


def test_no_user_of_an_identity_provider_chooses_their_name(alice: CallerClient, asked: list[tuple[Can, str]]) -> None:
    """Otherwise a search by name or mail could find another user. Clients that send both keep working."""
    expected = {"name": "Alice", "email": "alice@example.com", "user-type": "human", "id": "oidc~alice"}
    calls: list[Callable[[], Response]] = [
        lambda: alice.post("/user", CLAIMED),
        lambda: alice.post("/user", CLAIMED | {"update-if-exists": True}),
        lambda: alice.post("/user", CLAIMED | {"id": "oidc~alice", "update-if-exists": True}),
        lambda: alice.put(address("oidc~alice"), CLAIMED),
        lambda: alice.put(address("oidc~alice"), {"name": "Bob Builder", "user-type": "human"}),
    ]
    for call in calls:
        assert call().status in {200, 201}
        assert alice.get(address("oidc~alice")).json().items() >= expected.items()
        assert User.objects.get().origin == "token"
    assert alice.post("/search/user", {"search": "bob"}).json()["users"] == []
    more = {"x-icekeeper-extensions": "true"}
    assert alice.post("/search/user", {"search": "ali"}, **more).json()["users"][0]["origin"] == "token"
    assert alice.get(address("oidc~alice"), **more).json()["origin"] == "token"
    assert "origin" not in alice.post("/search/user", {"search": "ali"}).json()["users"][0]
    for body in ({"name": ""}, {"name": "n" * 256}, {"email": "e" * 400}):
        assert alice.put(address("oidc~alice"), CLAIMED | body).status == 400


def test_values_missing_in_the_token_are_kept(callers: NamedCallers, asked: list[tuple[Can, str]]) -> None:
    callers.add("quiet", Identity("oidc~quiet", "oidc", "human"))
    quiet = CallerClient("/management/v1", "quiet")
    assert quiet.post("/user", CLAIMED).status == 201
    user = User.objects.get()
    assert (user.name, user.email, user.origin) == ("Nameless App with ID oidc~quiet", "", "token")
    User.objects.update(name="Quinn", email="q@example.com", origin="administrator")
    for response in (quiet.put(address(user.pk), CLAIMED), quiet.post("/user", CLAIMED | {"update-if-exists": True})):
        assert response.status == 200
    user.refresh_from_db()
    assert (user.name, user.email, user.origin) == ("Quinn", "q@example.com", "administrator")


def test_administrators_name_themselves_and_others(alice: CallerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, Can.UPDATE_USERS, Can.PROVISION_USERS)
    assert alice.post("/user", {}).status == 201
    assert alice.put(address("oidc~alice"), CLAIMED).status == 200
    assert alice.post("/user", CLAIMED | {"id": "oidc~carl"}).status == 201
    assert set(User.objects.values_list("id", "name", "origin")) == {
        ("oidc~alice", "Bob Builder", "administrator"),
        ("oidc~carl", "Bob Builder", "administrator"),
    }


def test_local_users_name_themselves(access_tokens: None) -> None:
    assert TokenClient(new_token("local~alice")).post("/user", CLAIMED | {"update-if-exists": True}).status == 200
    user = User.objects.get(pk="local~alice")
    assert (user.name, user.origin) == ("Bob Builder", "user")


def test_unregistered_users_register_no_user() -> None:
    for body in ({}, {"id": None, "name": "X", "user-type": "human"}):
        assert api.post("/user", body).refused(400, "MissingUserId")
    assert not User.objects.exists()


def test_others_are_provisioned(alice: CallerClient) -> None:
    body = {"id": "kubernetes~system:serviceaccount:ns:spark", "name": "Spark", "user-type": "application"}
    created = alice.post("/user", body)
    assert created.status == 201
    assert untimed(created.json()) == {**body, "last-updated-with": "create-endpoint"}
    assert alice.post("/user", body).refused(409, "UserAlreadyExists")
    changed = alice.post("/user", {**body, "email": "s@example.com", "update-if-exists": True})
    assert (changed.status, changed.json()["email"]) == (200, "s@example.com")
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "wire_type"),
    [
        ({"name": None}, "MissingUserName"),
        ({"user-type": None}, "MissingUserType"),
        ({"name": ""}, "EmptyName"),
        ({"name": " \t"}, "EmptyName"),
        ({"name": "n" * 256}, "BadRequestException"),
        ({"name": "n" * 10_000}, "BadRequestException"),
        ({"name": "a\nb"}, "BadRequestException"),
        ({"name": "a\x00b"}, "BadRequestException"),
        ({"name": 7}, "BadRequestException"),
        ({"name": ["a"]}, "BadRequestException"),
        ({"email": "e" * 321}, "BadRequestException"),
        ({"email": "e\r\nBcc: x"}, "BadRequestException"),
        ({"email": {"a": 1}}, "BadRequestException"),
        ({"user-type": "robot"}, "BadRequestException"),
        ({"user-type": 1}, "BadRequestException"),
        ({"update-if-exists": "true"}, "BadRequestException"),
        ({"update-if-exists": None}, "BadRequestException"),
        ({"id": ""}, "EmptyUserIdError"),
        ({"id": "oidc~"}, "EmptyUserIdError"),
        ({"id": "oidc~  "}, "EmptyUserIdError"),
        ({"id": "alice"}, "InvalidUserIdError"),
        ({"id": "~alice"}, "InvalidUserIdError"),
        ({"id": "OIDC~alice"}, "InvalidUserIdError"),
        ({"id": "oi dc~alice"}, "InvalidUserIdError"),
        ({"id": "p" * 128 + "~alice"}, "InvalidUserIdError"),
        ({"id": "oidc~al\u2028ice"}, "InvalidUserIdError"),
        ({"id": "oidc~al\x07ice"}, "InvalidUserIdError"),
        ({"id": "oidc~" + "x" * 128}, "UserIdTooLongError"),
        ({"id": "oidc~" + "é" * 64}, "UserIdTooLongError"),
        ({"id": "oidc~" + "x" * 10_000}, "UserIdTooLongError"),
        ({"id": 7}, "BadRequestException"),
        ({"id": f"icekeeper~{NOWHERE}"}, "InvalidUserIdError"),
        ({"id": "icekeeper~x"}, "InvalidUserIdError"),
        ({"id": "system~x"}, "InvalidUserIdError"),
        ({"id": "lakekeeper~x"}, "InvalidUserIdError"),
        ({"id": "local~bad name!"}, "InvalidUserIdError"),
        ({"id": "local~-x"}, "InvalidUserIdError"),
        ({"id": "local~x\n"}, "InvalidUserIdError"),
        ({"id": "local~x~y"}, "InvalidUserIdError"),
        ({"id": "local~\u00e4nne"}, "InvalidUserIdError"),
        ({"id": "local~" + "x" * 121}, "InvalidUserIdError"),
    ],
)
def test_bad_users_are_refused(everything: Callable[[], Fingerprint], change: dict[str, Any], wire_type: str) -> None:
    provision("bob")
    before = everything()
    body = {"id": "oidc~bob", "name": "Bob", "user-type": "human", "update-if-exists": True} | change
    assert api.post("/user", body).refused(400, wire_type)
    if "id" not in change and "update-if-exists" not in change and None not in change.values():
        assert api.put(address("oidc~bob"), body).refused(400, wire_type)
    assert everything() == before


def test_users_without_an_identity_provider_are_provisioned() -> None:
    body = {"id": "local~ann.lee@example-1.com", "name": "Ann", "user-type": "human"}
    assert api.post("/user", body).status == 201
    assert api.get(address(body["id"])).json()["id"] == body["id"]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_service_accounts_are_not_provisioned(everything: Callable[[], Fingerprint], is_deleted: bool) -> None:
    account = create_service_account(actor=INTERNAL, name="robot")
    if is_deleted:
        delete_service_account(actor=INTERNAL, account_id=account.pk)
    before = everything()
    body = {"id": account.user_id, "name": "Robot", "user-type": "application"}
    assert api.post("/user", body).refused(400, "InvalidUserIdError", "icekeeper")
    assert api.post("/user", {**body, "update-if-exists": True}).refused(400, "InvalidUserIdError", "icekeeper")
    assert everything() == before


@pytest.mark.parametrize("body", [[], "text", None, 7, [{"id": "oidc~x"}]])
def test_bodies_that_are_no_objects(body: Any) -> None:
    assert api.post("/user", body).refused(400, "BadRequestException")
    assert not User.objects.exists()


def test_read_only_members_are_ignored(alice: CallerClient) -> None:
    body = {
        "last-updated-with": "role-provider",
        "created-at": "1999-01-01T00:00:00Z",
        "updated-at": None,
        "deleted-at": "1999-01-01T00:00:00Z",
        "is-instance-admin": True,
        "is_active": False,
        "password": "secret",
    }
    created = alice.post("/user", body).json()
    assert created["last-updated-with"] == "create-endpoint"
    assert not created["created-at"].startswith("1999")
    user = User.objects.get()
    assert (user.deleted_at, user.is_active, user.has_usable_password()) == (None, True, False)


@pytest.mark.parametrize(
    "subject", ["a/b", "a~b~c", "a b+c", "ü/ß?#%2F", "http://issuer/users/7", "🦉" * 31, "x" * 127, "..", "a.b", "%"]
)
def test_ids_of_any_spelling(subject: str) -> None:
    user_id = f"oidc~{subject}"
    assert api.post("/user", {"id": user_id, "name": "X", "user-type": "human"}).status == 201
    assert api.get(address(user_id)).json()["id"] == user_id
    assert api.put(address(user_id), {"name": "Y", "user-type": "human"}).status == 200
    assert api.get(address(user_id) + "/roles").json() == {"roles": []}
    assert api.delete(address(user_id)).status == 204
    assert api.get(address(user_id)).refused(404, "UserNotFound")


@pytest.mark.parametrize(
    "user_id",
    ["oidc~bob ", "oidc~\u3164", "oidc~bob\u2800", "oidc~b\u115fob", "oidc~bob\u034f", "local~Bob", "local~bOb"],
)
def test_ambiguous_ids_are_refused(user_id: str, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    body = {"id": user_id, "name": "Bob", "user-type": "human"}
    assert api.post("/user", body).refused(400, "InvalidUserIdError")
    assert everything() == before


def test_a_service_account_cannot_impersonate_another_user(everything: Callable[[], Fingerprint]) -> None:
    account = create_service_account(actor=INTERNAL, name="robot").user_id
    before = everything()
    for body in (
        {"name": "Ann", "user-type": "application"},
        {"name": "robot", "user-type": "human"},
        {"name": "Ann", "user-type": "human", "email": "ann@example.com"},
    ):
        assert api.put(address(account), body).refused(400, "ServiceAccountIsNamed")
        own = Actor(user_id=account)
        with pytest.raises(ServiceAccountIsNamed):
            register_user(actor=own, update_if_exists=True, name=body["name"], user_type=body["user-type"])
        with pytest.raises(ServiceAccountIsNamed):
            register_principal(actor=own, name=body["name"], user_type=body["user-type"])
    assert everything() == before
    assert api.put(address(account), {"name": "robot", "user-type": "application"}).status == 200


def test_ids_that_look_alike_are_different_users() -> None:
    for user_id in ("oidc~Bob", "oidc~bob", "oidc~\uff42\uff4f\uff42", "kc~bob"):
        assert api.post("/user", {"id": user_id, "name": "Bob", "user-type": "human"}).status == 201
    assert len(api.get("/user").json()["users"]) == 4
    assert api.delete(address("oidc~Bob")).status == 204
    assert api.get(address("oidc~bob")).status == 200


# --- read and update --------------------------------------------------------------------------------------------------


def test_an_update_replaces_all_values_of_a_user() -> None:
    before = provision("bob", email="bob@example.com").json()
    response = api.put(address("oidc~bob"), {"name": "Robert", "user-type": "application", "id": "oidc~eve"})
    assert (response.status, response.body) == (200, b"")
    assert "Content-Type" not in response.headers
    after = api.get(address("oidc~bob")).json()
    assert untimed(after) == {
        "id": "oidc~bob",
        "name": "Robert",
        "user-type": "application",
        "last-updated-with": "update-endpoint",
    }
    assert after["created-at"] == before["created-at"]
    assert after["updated-at"] > before["updated-at"]


@pytest.mark.parametrize("body", [{}, {"name": "X"}, {"user-type": "human"}, {"name": None, "user-type": "human"}])
def test_name_and_type_are_needed_to_replace(body: dict[str, Any]) -> None:
    before = provision("bob").json()
    assert api.put(address("oidc~bob"), body).refused(400, "BadRequestException")
    assert api.get(address("oidc~bob")).json() == before


def test_unknown_users() -> None:
    for user_id in ("oidc~unknown", "oidc~' OR 1=1 --", "oidc~*"):
        target = address(user_id)
        for response in (
            api.get(target),
            api.put(target, {"name": "X", "user-type": "human"}),
            api.delete(target),
            api.get(f"{target}/roles"),
            api.get(f"{target}/roles/transitive"),
        ):
            assert response.refused(404, "UserNotFound", user_id)
    for user_id, wire_type in (("unknown", "InvalidUserIdError"), ("oidc~" + "x" * 200, "UserIdTooLongError")):
        assert api.get(address(user_id)).refused(400, wire_type)
    assert api.get("/user/oidc~%00").refused(400, "BadRequestException", "NUL")
    assert api.get("/user/oidc~%ff").refused(400, "BadRequestException")
    assert not User.objects.exists()


# --- deletion ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def rights_of_bob(bootstrapped: None) -> None:
    """Bob is in a role and has a grant and two tokens, one of them revoked long ago; Carol has the same."""
    project, server = Project.objects.get(), Server.objects.get()
    role = create_role(actor=INTERNAL, project=project, name="staff")
    for name in ("bob", "carol"):
        user_id = provision(name).json()["id"]
        add_role_members(actor=INTERNAL, project=project, role_id=role.pk, members=Members([user_id]))
        Grant.objects.create_on(securable_id=f"server:{server.server_id}", user_id=user_id, privilege="admin")
        for which, revoked_at in (("new", None), ("old", server.bootstrapped_at)):
            AccessToken.objects.create(
                user_id=user_id,
                name=which,
                prefix="ik",
                digest=f"{name} {which}",
                scopes=[],
                revoked_at=revoked_at,
                created_at=now(),
                expires_at=now() + timedelta(days=1),
            )


@pytest.mark.usefixtures("rights_of_bob")
def test_a_deleted_user_has_no_grants() -> None:
    assert api.delete(address("oidc~bob")).status == 204
    assert User.objects.get(pk="oidc~bob").deleted_at is not None
    assert User.objects.get(pk="oidc~bob").name == "Bob", "other objects refer to the user"
    assert list(RoleMember.objects.values_list("user_id", flat=True)) == ["oidc~carol"]
    assert list(Grant.objects.values_list("user_id", flat=True)) == ["oidc~carol"]
    revoked = AccessToken.objects.filter(revoked_at__isnull=False).order_by("digest")
    assert list(revoked.values_list("digest", flat=True)) == ["bob new", "bob old", "carol old"]
    long_ago = Server.objects.get().bootstrapped_at
    assert AccessToken.objects.get(digest="bob old").revoked_at == long_ago


@pytest.mark.usefixtures("rights_of_bob")
def test_a_deleted_user_is_nowhere() -> None:
    api.delete(address("oidc~bob"))
    target = address("oidc~bob")
    for response in (
        api.get(target),
        api.delete(target),
        api.put(target, {"name": "X", "user-type": "human"}),
        api.get(f"{target}/roles"),
    ):
        assert response.refused(404, "UserNotFound")
    assert [user["id"] for user in api.get("/user").json()["users"]] == ["oidc~carol"]
    assert api.post("/search/user", {"search": "bob"}).json() == {"users": []}
    [role] = api.get("/role").json()["roles"]
    body = {"members": [{"type": "user", "id": "oidc~bob"}]}
    assert api.post(f"/role/{role['id']}/members", body).refused(404, "RoleAssignmentUserNotFound")
    assert [each["id"] for each in api.get(f"/role/{role['id']}/members").json()["members"]] == ["oidc~carol"]


@pytest.mark.usefixtures("rights_of_bob")
def test_a_deleted_user_is_created_again_without_grants() -> None:
    before = api.get(address("oidc~bob")).json()
    User.objects.filter(pk="oidc~bob").update(last_login=now())
    api.delete(address("oidc~bob"))
    again = provision("bob", name="Bobby")
    assert again.status == 201, "not 200, nor 409"
    assert again.json()["name"] == "Bobby"
    assert again.json()["created-at"] > before["created-at"]
    assert api.get(address("oidc~bob") + "/roles").json() == {"roles": []}
    assert not Grant.objects.filter(user_id="oidc~bob").exists()
    assert not AccessToken.objects.filter(user_id="oidc~bob", revoked_at=None).exists()
    user = User.objects.get(pk="oidc~bob")
    assert (user.last_login, user.has_usable_password()) == (None, False)


# --- permissions ------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Can, str]]:
    """The checked permissions; the authorizer denies everything."""
    return refuse(monkeypatch).asked_of


def test_permissions_are_checked_for_other_users(
    alice: CallerClient, asked: list[tuple[Can, str]], everything: Callable[[], Fingerprint]
) -> None:
    User.objects.create(id="oidc~bob", name="Bob")
    server = f"server:{Server.objects.get().server_id}"
    before = everything()
    for user_id in ("oidc~bob", "oidc~unknown"):
        target = address(user_id)
        body = {"id": user_id, "name": "X", "user-type": "human", "update-if-exists": True}
        for response in (alice.get("/user"), alice.post("/user", body)):
            assert response.refused(403, "ServerActionForbidden")
        for response in (
            alice.put(target, body),
            alice.delete(target),
            alice.get(f"{target}/roles"),
            alice.get(f"{target}/roles/transitive"),
        ):
            assert response.refused(403, "UserActionForbidden")
        rights = [Can.LIST_USERS, Can.PROVISION_USERS, Can.UPDATE_USERS, Can.DELETE_USERS, *[Can.LIST_USERS] * 2]
        assert asked == [(right, server) for right in rights]
        asked.clear()
    assert everything() == before


def test_every_caller_may_read_users(alice: CallerClient, asked: list[tuple[Can, str]]) -> None:
    """Many responses contain ids of users."""
    User.objects.create(id="oidc~bob", name="Bob")
    assert alice.get(address("oidc~bob")).json()["name"] == "Bob"
    assert alice.get(address("oidc~unknown")).refused(404, "UserNotFound")
    assert asked == []


def test_users_have_every_permission_on_themselves(alice: CallerClient, asked: list[tuple[Can, str]]) -> None:
    assert alice.post("/user", {}).status == 201
    me = address("oidc~alice")
    assert alice.post("/user", {"id": "oidc~alice", "update-if-exists": True}).status == 200
    assert alice.get(me).status == 200
    assert alice.put(me, {"name": "Alice", "email": "alice@example.com", "user-type": "human"}).status == 200
    assert alice.get(f"{me}/roles").json() == {"roles": []}
    assert alice.get(f"{me}/roles/transitive").json() == {"roles": []}
    assert alice.post("/search/user", {"search": "al"}).json()["users"][0]["id"] == "oidc~alice"
    assert asked.pop() == (Can.LIST_USERS, f"server:{Server.objects.get().server_id}"), (
        "callers with the permission find more"
    )
    assert alice.delete(me).status == 204
    assert asked == []


def test_methods_that_users_do_not_have(warehouse: Warehouse) -> None:
    assert api.delete("/user").refused(405, "MethodNotAllowedException")
    assert api.post(address("oidc~x"), {}).refused(405, "MethodNotAllowedException")
    assert api.get("/search/user").refused(405, "MethodNotAllowedException")
    assert Securable.objects.filter(type="user").count() == 0


def test_maintenance_rejects_changes(alice: CallerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    alice.post("/user", {})
    quiet = settings.ICEKEEPER.model_copy(update={"maintenance_mode": "read-only"})
    monkeypatch.setattr(settings, "ICEKEEPER", quiet)
    me, body = address("oidc~alice"), {"name": "Al", "user-type": "human"}
    for response in (alice.post("/user", {}), alice.put(me, body), alice.delete(me), alice.post("/role", body)):
        assert response.refused(503, "MaintenanceModeError")
    for kind in ("user", "role"):
        assert alice.post(f"/search/{kind}", {"search": "al"}).status == 200
    assert alice.get("/whoami").json()["name"] == "Alice"
