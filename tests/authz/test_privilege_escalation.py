"""Privilege escalation by grants, roles, moves and lists: each attempt is denied, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from catalog.models import Namespace, Tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import NotFound
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Grantee
from tenancy.authz.actions import Can
from tenancy.authz.permissions import GrantActionForbidden, is_allowed
from tenancy.models import Grant, Role, RoleMember, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.services.administrators import LastAdministrator
from tenancy.services.grants import (
    Difference,
    GrantExpired,
    GrantRoleNotInProject,
    GrantSpec,
    InvalidGrantPrivilege,
    SelfAssignment,
    apply_grants,
)
from tenancy.services.users import delete_user
from tests.authz.conftest import VIEW, good, user
from tests.authz.test_hiding import COMMIT
from tests.authz.tree_fixtures import give, role
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Client = Callable[[str], CallerClient]
ALICE, BOB = user("alice"), user("bob")
NOT_FOUND = NotFound("there is no such thing")


def grant_as(actor_name: str, privilege: str, ref: ObjectRef, to: Grantee, *, revoke: bool = False) -> None:
    spec = [GrantSpec(privilege, to)]
    difference = Difference(deletes=spec) if revoke else Difference(writes=spec)
    apply_grants(actor=user(actor_name), ref=ref, difference=difference, missing=NOT_FOUND)


# --- granting ------------------------------------------------------------------------------------------------------


def test_pass_grants_allows_granting_only_own_privileges(lake: dict[str, ObjectRef]) -> None:
    table = lake["closed.a"]
    give("select", table, ALICE)
    give("pass_grants", table, ALICE)
    give("describe", lake["open"], BOB)
    bob = Grantee(user_id=BOB.user_id)
    grant_as("alice", "select", table, bob)
    assert is_allowed(BOB, Can.READ_DATA, *table)
    for privilege in ("modify", "ownership", "manage_grants", "pass_grants", "manage_tags"):
        with pytest.raises(GrantActionForbidden):
            grant_as("alice", privilege, table, bob)
    with pytest.raises(NotFound):
        grant_as("alice", "select", lake["closed.b"], bob)


def test_pass_grants_is_not_inherited(lake: dict[str, ObjectRef]) -> None:
    give("select", lake["closed"], ALICE)
    give("pass_grants", lake["closed"], ALICE)
    give("describe", lake["open"], BOB)
    with pytest.raises(GrantActionForbidden):
        grant_as("alice", "select", lake["closed.a"], Grantee(user_id=BOB.user_id))


def test_an_owner_does_not_grant_where_access_is_managed(lake: dict[str, ObjectRef], warehouse: Warehouse) -> None:
    give("ownership", lake["closed.deep"], ALICE)
    give("describe", lake["open"], BOB)
    Securable.objects.filter(pk=securable_id(Securable.Type.WAREHOUSE, warehouse.pk)).update(managed_access=True)
    for location in ("closed.deep", "closed.deep.a"):
        with pytest.raises(GrantActionForbidden):
            grant_as("alice", "select", lake[location], Grantee(user_id=BOB.user_id))


def test_managed_access_binds_roles_too(lake: dict[str, ObjectRef], warehouse: Warehouse) -> None:
    owners = role("owners")
    RoleMember.objects.create(role=owners, user_id="oidc~root")
    Grant.objects.create_on(securable_id=securable_id(*lake["closed"]), role=owners, privilege="ownership")
    acting = user("unknown")
    acting = type(acting)(user_id=acting.user_id, assumed_role=owners.pk, identity=acting.identity)
    assert is_allowed(acting, Can.GRANT_SELECT, *lake["closed"])
    Securable.objects.filter(pk=securable_id(Securable.Type.WAREHOUSE, warehouse.pk)).update(managed_access=True)
    assert not is_allowed(acting, Can.GRANT_SELECT, *lake["closed"])
    assert is_allowed(acting, Can.DELETE, *lake["closed"])


def test_a_role_is_not_climbed_from_below(root: CallerClient) -> None:
    """The owner of a role adds members to it.

    That neither adds the role to a more privileged one, nor removes it from one.
    """
    low, high = role("low"), role("high")
    give("ownership", ObjectRef(Securable.Type.ROLE, low.pk), ALICE)
    give("describe", ObjectRef(Securable.Type.PROJECT, low.project_id), ALICE)
    give("project_admin", ObjectRef(Securable.Type.PROJECT, low.project_id), user("x"), through=low, to=high)
    with pytest.raises(GrantActionForbidden):
        grant_as("alice", "assignee", ObjectRef(Securable.Type.ROLE, high.pk), Grantee(role_id=low.pk))
    with pytest.raises(GrantActionForbidden):
        grant_as("alice", "assignee", ObjectRef(Securable.Type.ROLE, high.pk), Grantee(user_id=ALICE.user_id))
    with pytest.raises(SelfAssignment):
        grant_as("alice", "ownership", ObjectRef(Securable.Type.ROLE, low.pk), Grantee(role_id=low.pk))


def test_a_role_of_another_project_is_not_granted_anything(lake: dict[str, ObjectRef], root: CallerClient) -> None:
    management = CallerClient("/management/v1", "root")
    give("admin", ObjectRef(Securable.Type.SERVER, _server_id()), user("root"))
    good(management.post("/project", {"project-id": "other", "project-name": "Other"}))
    created = good(management.post("/role", {"name": "theirs"}, **{"x-project-id": "other"})).json()
    with pytest.raises(GrantRoleNotInProject):
        grant_as("root", "select", lake["closed.a"], Grantee(role_id=UUID(created["id"])))


def test_a_grant_that_would_have_ended_is_refused_and_one_that_has_ended_counts_for_nothing(
    lake: dict[str, ObjectRef],
) -> None:
    give("describe", lake["open"], ALICE)
    past = GrantSpec("select", Grantee(user_id=ALICE.user_id), expires_at=now() - timedelta(seconds=1))
    with pytest.raises(GrantExpired):
        apply_grants(actor=INTERNAL, ref=lake["closed.a"], difference=Difference(writes=[past]), missing=NOT_FOUND)
    own_id = securable_id(*lake["closed.a"])
    Grant.objects.create_on(securable_id=own_id, user_id=ALICE.user_id, privilege="select", expires_at=past.expires_at)
    assert not is_allowed(ALICE, Can.READ_DATA, *lake["closed.a"])
    Grant.objects.filter(expires_at__isnull=False).update(expires_at=now() + timedelta(hours=1))
    assert is_allowed(ALICE, Can.READ_DATA, *lake["closed.a"])


@pytest.mark.parametrize("act", ["revoke", "delete", "expire"])
def test_the_last_administrator_stays(root: CallerClient, act: str, everything: Callable[[], Fingerprint]) -> None:
    project = ObjectRef(Securable.Type.PROJECT, _project_id())
    others = Grant.objects.filter(securable_id=securable_id(*project)).exclude(user_id="oidc~root")
    others.delete()
    before = everything()
    only = Grantee(user_id="oidc~root")
    ending = [GrantSpec("project_admin", only, expires_at=now() + timedelta(days=1))]
    acts: dict[str, Callable[[], None]] = {
        "revoke": lambda: grant_as("root", "project_admin", project, only, revoke=True),
        "delete": lambda: delete_user(actor=INTERNAL, user_id="oidc~root"),
        "expire": lambda: apply_grants(
            actor=INTERNAL, ref=project, difference=Difference(writes=ending), missing=NOT_FOUND
        ),
    }
    with pytest.raises(LastAdministrator):
        acts[act]()
    assert everything() == before
    give("project_admin", project, BOB)
    grant_as("root", "project_admin", project, only, revoke=True)
    assert not is_allowed(user("root"), Can.RENAME, *project)


# --- rules of change approval, which also restrict owners ------------------------------------------------------------

RULES = ("manage_rules", "override_rules")


@pytest.mark.parametrize("privilege", RULES)
def test_owners_of_a_warehouse_neither_grant_nor_revoke_privileges_on_its_rules(
    root: CallerClient,
    warehouse: Warehouse,
    client: Client,
    privilege: str,
    everything: Callable[[], Fingerprint],
) -> None:
    client("alice")
    target, alice = ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), Grantee(user_id=ALICE.user_id)
    for own in ("ownership", "manage_grants", "pass_grants"):
        give(own, target, ALICE)
    give(privilege, target, BOB)
    before = everything()
    for to, revoke in ((alice, False), (Grantee(user_id=BOB.user_id), True)):
        with pytest.raises(GrantActionForbidden, match=f"may not grant on .*: {privilege}$"):
            grant_as("alice", privilege, target, to, revoke=revoke)
    assert (
        CallerClient(f"/management/v1/warehouse/{warehouse.pk}", "alice")
        .post("/grants", {"writes": [{"privilege": privilege, "principal": {"user": ALICE.user_id}}]})
        .refused(403, "GrantActionForbidden", privilege)
    )
    assert everything() == before
    assert not is_allowed(ALICE, Can.OVERRIDE_RULES, *target)
    grant_as("root", privilege, target, alice)
    assert is_allowed(ALICE, Can.OVERRIDE_RULES, *target)


@pytest.mark.parametrize("privilege", RULES)
@pytest.mark.parametrize("kind", ["project", "warehouse"])
def test_privileges_on_rules_are_not_passed_on(
    root: CallerClient, warehouse: Warehouse, kind: str, privilege: str
) -> None:
    project = ObjectRef(Securable.Type.PROJECT, _project_id())
    target = project if kind == "project" else ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)
    bob = Grantee(user_id=BOB.user_id)
    give("describe", target, BOB)
    for own in ("describe", "manage_rules", "override_rules"):
        give(own, target, ALICE)
    for own in ("data_admin", "create", "modify", "role_creator", "tag_creator"):
        give(own, project, user("carol"))
    for name in ("alice", "carol"):
        with pytest.raises(GrantActionForbidden):
            grant_as(name, privilege, target, bob)
    give("security_admin", project, user("dora"))
    grant_as("dora", privilege, target, bob)
    assert is_allowed(BOB, Can.OVERRIDE_RULES, *target)
    grant_as("dora", privilege, target, bob, revoke=True)
    assert not is_allowed(BOB, Can.OVERRIDE_RULES, *target)


@pytest.mark.parametrize("privilege", [*RULES, "read_events"])
@pytest.mark.parametrize("location", ["open", "open.a", "open.v", "open.g"])
def test_privileges_on_rules_and_events_are_not_granted_below_a_warehouse(
    lake: dict[str, ObjectRef], location: str, privilege: str
) -> None:
    with pytest.raises(InvalidGrantPrivilege):
        grant_as("root", privilege, lake[location], Grantee(user_id="oidc~root"))


# --- moving --------------------------------------------------------------------------------------------------------


def test_a_namespace_is_not_moved_into_ones_own(
    callers: NamedCallers, client: Client, lake: dict[str, ObjectRef], warehouse: Warehouse
) -> None:
    client("alice")
    give("modify", lake["closed.deep"], ALICE)
    give("ownership", lake["open"], ALICE)
    management = CallerClient(f"/management/v1/warehouse/{warehouse.pk}", "alice")
    move = f"/namespace/{lake['closed.deep'][1]}/move"
    assert management.post(move, {"destination": ["open", "deep"]}).refused(403, "NamespaceActionForbidden")
    assert Namespace.objects.get(pk=lake["closed.deep"][1]).parent_id == lake["closed"][1]


# --- objects of other users ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("privilege", "error"), [(None, (404, "NoSuchTableException")),
                                                    ("select", (403, "TableActionForbidden"))])  # fmt: skip
def test_a_transaction_is_refused_as_a_whole(
    client: Client,
    lake: dict[str, ObjectRef],
    privilege: str | None,
    error: tuple[int, str],
    everything: Callable[[], Fingerprint],
) -> None:
    alice = client("alice")
    give("modify", lake["open"], ALICE)
    if privilege is not None:
        give(privilege, lake["closed.a"], ALICE)
    before = everything()
    changes = [{"identifier": {"namespace": [each], "name": "a"}, **COMMIT} for each in ("open", "closed")]
    assert alice.post("/transactions/commit", {"table-changes": changes}).refused(*error)
    assert everything() == before


def test_a_view_opens_nothing(client: Client, lake: dict[str, ObjectRef]) -> None:
    alice = client("alice")
    give("ownership", lake["open"], ALICE)
    over = VIEW | {"name": "peek"}
    over["view-version"] = VIEW["view-version"] | {
        "representations": [{"type": "sql", "sql": "SELECT * FROM closed.a", "dialect": "spark"}]
    }
    good(alice.post("/namespaces/open/views", over))
    for suffix in ("", "?referenced-by=open%1Fpeek"):
        assert alice.get(f"/namespaces/closed/tables/a{suffix}").refused(404, "NoSuchTableException")


# --- lists -----------------------------------------------------------------------------------------------------------


def test_a_role_that_goes_in_the_middle_of_a_list_shows_no_more(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef]
) -> None:
    alice, staff = client("alice"), role("staff")
    for number in range(4):
        created = good(root.post("/namespaces/open/tables", {"name": f"t{number}", "schema": SCHEMA})).json()
        table = Tabular.objects.get(uuid=created["metadata"]["table-uuid"])
        give("describe", ObjectRef(Securable.Type.TABLE, table.pk), ALICE, through=staff, to=staff)
    give("describe", lake["open.b"], ALICE)
    first = good(alice.get("/namespaces/open/tables?pageSize=2&pageToken=")).json()
    assert [each["name"] for each in first["identifiers"]] == ["b", "t0"]
    Role.objects.filter(pk=staff.pk).delete()
    rest = good(alice.get(f"/namespaces/open/tables?pageSize=2&pageToken={first['next-page-token']}")).json()
    assert rest["identifiers"] == []


def _project_id() -> str:
    return Securable.objects.get(type="project").object_id


def _server_id() -> str:
    return Securable.objects.get(type="server").object_id
