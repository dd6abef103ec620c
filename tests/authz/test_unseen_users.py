"""Grants, assignments and memberships of users of an identity provider who have not called yet."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, connections
from pydantic import AnyHttpUrl

from icekeeper.conf.authentication import ProviderSettings
from icekeeper.kernel.errors.types import NotFound
from tenancy.actor import INTERNAL, Grantee, Identity
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.models import Grant, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_server
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tenancy.services.registration import registered_users
from tenancy.services.users import create_service_account, delete_user, register_user
from tests.authz.conftest import user
from tests.authz.permission_fixtures import Everything, Things, to_user
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

T = Securable.Type
MORE = {"x-icekeeper-extensions": "true"}
ISSUER = AnyHttpUrl("https://idp.example.com/realms/lake")


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`oidc`, `corp-idp` and `kubernetes` are configured."""
    use_settings(
        monkeypatch,
        openid_provider_uri=ISSUER,
        openid_providers={"corp-idp": ProviderSettings(uri=ISSUER)},
        enable_kubernetes_authentication=True,
    )


@pytest.fixture
def manager(things: Things, providers: None) -> CallerClient:
    """A user with `manage_grants` on the table and permission to change the members of the role."""
    things.with_right("manager", ("ownership", T.ROLE))
    things.with_right("manager", ("describe", T.PROJECT))
    client = things.with_right("manager", ("manage_grants", T.TABLE))
    client.base = "/management/v1"
    return client


def grants_path(things: Things) -> str:
    return f"/warehouse/{things.warehouse.pk}/table/{things.public_id(T.TABLE)}/grants"


def select_for(user_id: str) -> dict[str, Any]:
    return {"privilege": "select", "principal": {"user": user_id}}


UNSEEN = ["oidc~newcomer", "corp-idp~a~b/c@example.com", "kubernetes~0198e0f4-3f6e-7c31", "oidc~" + "é" * 63]


@pytest.mark.parametrize("user_id", UNSEEN)
def test_a_user_who_never_called_can_be_granted_privileges(things: Things, manager: CallerClient, user_id: str) -> None:
    path = grants_path(things)
    assert manager.post(path, {"writes": [select_for(user_id)]}).status == 204
    assert manager.post(path, {"writes": [select_for(user_id)]}).status == 204, "again"
    (held,) = manager.get(f"{path}?principalUser={user_id.replace('/', '%2F')}").json()["grants"]
    assert held["principal"] == {"user": user_id}
    assert "seen" not in held
    user = User.objects.get(pk=user_id)
    assert (user.has_called, user.is_active, user.has_usable_password()) == (False, True, False)
    assert manager.post(path, {"deletes": [select_for(user_id)]}).status == 204
    assert not Grant.objects.filter(user=user).exists()


def test_grants_are_effective_from_the_first_call(things: Things, manager: CallerClient, callers: NamedCallers) -> None:
    registered_users.clear()
    assert manager.post(grants_path(things), {"writes": [select_for("oidc~newcomer")]}).status == 204
    assert is_allowed(user("newcomer"), Can.READ_DATA, *things.refs[T.TABLE])
    assert not is_allowed(user("newcomer"), Can.WRITE_DATA, *things.refs[T.TABLE])
    callers.add("newcomer", Identity("oidc~newcomer", "oidc", "application", "New Comer", "new@example.com"))
    newcomer = CallerClient("/management/v1", "newcomer")
    assert newcomer.get("/whoami").refused(404, "UserNotFound"), "not registered yet"
    assert manager.get("/user/oidc~newcomer", **MORE).json()["seen"] is False
    CallerClient("/catalog/v1", "newcomer").get("/config?warehouse=wh")
    me = newcomer.get("/whoami").json()
    assert (me["name"], me["email"], me["user-type"]) == ("New Comer", "new@example.com", "application")
    assert me["last-updated-with"] == "config-call-creation"
    assert manager.get("/user/oidc~newcomer", **MORE).json()["seen"] is True
    assert is_allowed(user("newcomer"), Can.READ_DATA, *things.refs[T.TABLE])


def test_a_user_registered_by_the_api_is_new(things: Things, manager: CallerClient, callers: NamedCallers) -> None:
    assert manager.post(grants_path(things), {"writes": [select_for("oidc~newcomer")]}).status == 204
    callers.user("newcomer")
    newcomer = CallerClient("/management/v1", "newcomer")
    created = newcomer.post("/user", {})
    assert (created.status, created.json()["name"]) == (201, "Newcomer")
    assert newcomer.post("/user", {}).refused(409, "UserAlreadyExists")
    assert is_allowed(user("newcomer"), Can.READ_DATA, *things.refs[T.TABLE])


def test_assignments_and_members_likewise(things: Things, manager: CallerClient) -> None:
    table, role = things.path(T.TABLE), things.role.pk
    assert manager.post(f"/permissions{table}/assignments", {"writes": [to_user("select", "newcomer")]}).status == 204
    assert to_user("select", "newcomer") in manager.get(f"/permissions{table}/assignments").json()["assignments"]
    entries = manager.get(f"/permissions{table}/assignments", **MORE).json()["assignments"]
    seen = {each["user"]: each["seen"] for each in entries}
    assert (seen["oidc~newcomer"], seen["oidc~manager"]) == (False, True)
    members = [{"type": "user", "id": each} for each in ("kubernetes~robot", "oidc~newcomer", "oidc~manager")]
    assert manager.post(f"/role/{role}/members", {"members": members}).status == 200
    found = {each["id"]: each["name"] for each in manager.get(f"/role/{role}/members").json()["members"]}
    assert found == {"kubernetes~robot": None, "oidc~newcomer": None, "oidc~manager": "manager"}
    assigned = {"writes": [{"type": "assignee", "user": "oidc~third"}]}
    assert manager.post(f"/permissions/role/{role}/assignments", assigned).status == 204
    assert RoleMember.objects.filter(role=role, user="oidc~third").exists()


def test_they_are_listed_as_not_seen_yet(things: Things, manager: CallerClient) -> None:
    apply_grants(
        actor=INTERNAL,
        ref=ObjectRef(T.SERVER, get_server().server_id),
        difference=Difference([GrantSpec("admin", Grantee(user_id="oidc~manager"))]),
        missing=NotFound("not found"),
    )
    path = grants_path(things)
    writes = [select_for("oidc~newcomer"), {"privilege": "select", "principal": {"role": str(things.role.pk)}}]
    assert manager.post(path, {"writes": writes}).status == 204
    seen = {str(each["principal"]): each.get("seen") for each in manager.get(path, **MORE).json()["grants"]}
    assert seen[str({"user": "oidc~newcomer"})] is False
    assert seen[str({"user": "oidc~manager"})] is True
    assert seen[str(writes[1]["principal"])] is None
    own = manager.get("/grants?principalUser=oidc~newcomer", **MORE).json()["grants"]
    assert [each["seen"] for each in own] == [False]
    users = {each["id"]: each for each in manager.get("/user", **MORE).json()["users"]}
    assert users["oidc~newcomer"]["seen"] is False
    assert users["oidc~newcomer"]["name"] == "Nameless User with id oidc~newcomer"
    assert users["oidc~newcomer"]["last-updated-with"] == "role-provider"
    assert users["oidc~manager"]["seen"] is True
    (found,) = manager.post("/search/user", {"search": "oidc~newcomer"}, **MORE).json()["users"]
    assert found["seen"] is False
    for response in (
        manager.get("/user"),
        manager.post("/search/user", {"search": "oidc~newcomer"}),
        manager.get(path),
    ):
        assert b'"seen"' not in response.body


def test_a_deleted_user_starts_without_rights(things: Things, manager: CallerClient) -> None:
    register_user(actor=INTERNAL, user_id="oidc~deleted", name="Deleted", email="g@example.com", user_type="human")
    delete_user(actor=INTERNAL, user_id="oidc~deleted")
    assert manager.post(grants_path(things), {"writes": [select_for("oidc~deleted")]}).status == 204
    user = User.objects.get(pk="oidc~deleted")
    assert (user.name, user.name_key, user.email, user.deleted_at) == ("", "", "", None)


REFUSED = [
    ("icekeeper~0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44", "GrantUserNotFound"),
    ("local~alice", "GrantUserNotFound"),
    ("lakekeeper~x", "GrantUserNotFound"),
    ("system~x", "GrantUserNotFound"),
    ("elsewhere~x", "GrantUserNotFound"),
    ("oidc-2~x", "GrantUserNotFound"),
    ("oidc~x ", "InvalidUserIdError"),
    ("OIDC~x", "InvalidUserIdError"),
    ("oidc~", "EmptyUserIdError"),
    ("oidc~ ", "EmptyUserIdError"),
    ("oidc~a\x00b", "BadRequestException"),
    ("oidc~a\u202eb", "InvalidUserIdError"),
    ("oidc~a\u200bb", "InvalidUserIdError"),
    ("oidc~\ud800", "BadRequestException"),
    ("oidc~" + "x" * 128, "UserIdTooLongError"),
    ("oidc~" + "é" * 64, "UserIdTooLongError"),
]


@pytest.mark.parametrize(("user_id", "wire_type"), REFUSED, ids=[repr(each)[:40] for each, _ in REFUSED])
def test_ids_that_no_provider_can_have_are_refused(
    things: Things, manager: CallerClient, everything: Everything, user_id: str, wire_type: str
) -> None:
    role = things.role.pk
    before = everything()
    good = select_for("oidc~good")
    assert manager.post(grants_path(things), {"writes": [good, select_for(user_id)]}).refused(400, wire_type)
    entries = {"writes": [to_user("select", "good"), {"type": "select", "user": user_id}]}
    assert manager.post(f"/permissions{things.path(T.TABLE)}/assignments", entries).refused(400, wire_type)
    members = [{"type": "user", "id": "oidc~good"}, {"type": "user", "id": user_id}]
    is_missing = wire_type == "GrantUserNotFound"
    status, missing = (404, "RoleAssignmentUserNotFound") if is_missing else (400, wire_type)
    assert manager.post(f"/role/{role}/members", {"members": members}).refused(status, missing)
    assert everything() == before
    assert not User.objects.filter(pk="oidc~good").exists()


def test_users_of_this_server_are_granted_something_if_they_are_there(things: Things, manager: CallerClient) -> None:
    account = create_service_account(actor=INTERNAL, name="loader").user_id
    register_user(actor=INTERNAL, user_id="local~ada", name="Ada", user_type="human")
    for user_id in (account, "local~ada"):
        assert manager.post(grants_path(things), {"writes": [select_for(user_id)]}).status == 204


def test_without_a_provider_users_must_be_there(
    things: Things, manager: CallerClient, monkeypatch: pytest.MonkeyPatch, everything: Everything
) -> None:
    use_settings(monkeypatch, openid_provider_uri=None, openid_providers={}, enable_kubernetes_authentication=False)
    before = everything()
    for user_id in UNSEEN:
        response = manager.post(grants_path(things), {"writes": [select_for(user_id)]})
        assert response.refused(400, "GrantUserNotFound", "configured identity provider")
    assert everything() == before


def test_a_user_without_grant_rights_adds_no_user(
    things: Things, manager: CallerClient, everything: Everything
) -> None:
    things.with_right("reader", ("select", T.TABLE))
    stranger = CallerClient("/management/v1", things.client("stranger").token)
    reader = CallerClient("/management/v1", "reader")
    body = {"writes": [select_for("oidc~newcomer")]}
    before = everything()
    assert reader.post(grants_path(things), body).status == 403
    assert stranger.post(grants_path(things), body).status == 404
    nothing = {"deletes": [select_for("oidc~newcomer")]}
    assert manager.post(grants_path(things), nothing).status == 204
    assert everything() == before


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_many_grants_to_newcomers_at_once(things: Things, providers: None) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    failures: list[BaseException] = []
    start = threading.Barrier(4)

    def grant(numbers: list[int]) -> None:
        try:
            start.wait(10)
            for _ in range(5):
                specs = [GrantSpec("select", Grantee(user_id=f"oidc~n{number}")) for number in numbers]
                missing = NotFound("not found")
                apply_grants(actor=INTERNAL, ref=things.refs[T.TABLE], difference=Difference(specs), missing=missing)
        except BaseException as failure:  # noqa: BLE001 - shown below
            failures.append(failure)
        finally:
            connections.close_all()

    numbers = list(range(20))
    orders = [numbers, numbers[::-1], numbers[::2], numbers[1::2] + numbers[::2]]
    threads = [threading.Thread(target=grant, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert Grant.objects.filter(user__id__startswith="oidc~n", privilege="select").count() == 20
