"""The permissions that follow from each privilege, by the built-in evaluator over rows in the database."""

from __future__ import annotations

import pytest

from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give, role

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]

ALICE = user("alice")


def may(tree: dict[str, ObjectRef], name: str, *actions: Can, who: Actor = ALICE) -> list[bool]:
    return [is_allowed(who, action, *tree[name]) for action in actions]


def test_no_user_may_do_anything_unchecked(tree: dict[str, ObjectRef]) -> None:
    assert not any(may(tree, "table", Can.GET_METADATA, Can.DROP, Can.READ_DATA))
    assert not any(may(tree, "wh", Can.USE, Can.GET_CONFIG, Can.CREATE_NAMESPACE))
    assert not any(may(tree, "server", Can.CREATE_PROJECT))


def test_select_on_a_table_shows_its_parents_and_no_siblings(tree: dict[str, ObjectRef]) -> None:
    give("select", tree["table"], ALICE)
    assert may(tree, "table", Can.GET_METADATA, Can.READ_DATA, Can.WRITE_DATA, Can.DROP) == [True, True, False, False]
    for above in ("inner", "outer"):
        assert may(tree, above, Can.GET_METADATA, Can.LIST_TABLES, Can.LIST_EVERYTHING) == [True, True, False]
    assert may(tree, "wh", Can.USE, Can.GET_CONFIG, Can.LIST_EVERYTHING) == [True, True, False]
    assert may(tree, "project", Can.GET_METADATA, Can.LIST_ROLES, Can.CREATE_WAREHOUSE) == [True, True, False]
    assert may(tree, "role", Can.READ) == [True]
    assert may(tree, "other", Can.GET_METADATA) == may(tree, "view", Can.GET_METADATA) == [False]


def test_an_owner_below_managed_access_does_not_grant(tree: dict[str, ObjectRef]) -> None:
    give("ownership", tree["inner"], ALICE)
    assert may(tree, "inner", Can.GRANT_SELECT, Can.CHANGE_OWNERSHIP) == [True, True]
    Securable.objects.filter(pk=f"namespace:{tree['outer'][1]}").update(managed_access=True)
    assert may(tree, "inner", Can.GRANT_SELECT, Can.CHANGE_OWNERSHIP, Can.DELETE) == [False, False, True]
    assert may(tree, "table", Can.GRANT_SELECT, Can.DROP) == [False, True]
    give("ownership", tree["outer"], ALICE)
    assert may(tree, "inner", Can.GRANT_SELECT) == may(tree, "table", Can.GRANT_SELECT) == [True]


def test_members_of_a_role_and_its_owners_may_assume_it(tree: dict[str, ObjectRef]) -> None:
    team, wider = role("team"), role("wider", source="wider")
    bert, carl = user("bert"), user("carl", "wider")
    give("assignee", ObjectRef(T.ROLE, team.pk), ALICE)
    give("ownership", ObjectRef(T.ROLE, team.pk), bert)
    give("assignee", ObjectRef(T.ROLE, wider.pk), ALICE, to=team)
    for who, expected in (
        (ALICE, [True, True]),
        (bert, [True, True]),
        (carl, [False, True]),
        (user("dora"), [False] * 2),
    ):
        assert [is_allowed(who, Can.ASSUME, T.ROLE, each.pk) for each in (team, wider)] == expected
    assert not is_allowed(ALICE, Can.UPDATE, T.ROLE, team.pk)


IN_WAREHOUSES = ("wh", "outer", "inner", "table", "generic", "other", "view")
EVERYWHERE = ("server", "project", *IN_WAREHOUSES)


@pytest.mark.parametrize(
    ("privilege", "on", "managed", "overridden"),
    [
        ("operator", "server", EVERYWHERE, EVERYWHERE),
        ("admin", "server", ("server",), ("server",)),
        *((each, "project", EVERYWHERE[1:], EVERYWHERE[1:]) for each in ("project_admin", "security_admin")),
        ("manage_rules", "project", EVERYWHERE[1:], EVERYWHERE[1:]),
        ("override_rules", "project", (), EVERYWHERE[1:]),
        ("manage_rules", "wh", IN_WAREHOUSES, IN_WAREHOUSES),
        ("override_rules", "wh", (), IN_WAREHOUSES),
        *((each, "project", (), ()) for each in ("data_admin", "modify", "create", "read_events")),
        *((each, "wh", (), ()) for each in ("ownership", "manage_grants", "modify", "manage_tags", "read_events")),
        *(
            (each, on, (), ())
            for each in ("ownership", "manage_grants")
            for on in ("outer", "table", "view", "generic")
        ),
    ],
)
def test_who_manages_and_overrides_rules(
    tree: dict[str, ObjectRef], privilege: str, on: str, managed: tuple[str, ...], overridden: tuple[str, ...]
) -> None:
    give(privilege, tree[on], ALICE)
    assert tuple(name for name in EVERYWHERE if may(tree, name, Can.MANAGE_RULES) == [True]) == managed
    assert tuple(name for name in EVERYWHERE if may(tree, name, Can.OVERRIDE_RULES) == [True]) == overridden


@pytest.mark.parametrize(
    ("privilege", "on", "readable"),
    [
        ("operator", "server", ["server", "project", "wh"]),
        ("admin", "server", ["server", "project", "wh"]),
        ("project_admin", "project", ["project", "wh"]),
        ("security_admin", "project", ["project", "wh"]),
        ("read_events", "project", ["project", "wh"]),
        ("read_events", "wh", ["wh"]),
        *((each, "project", []) for each in ("data_admin", "modify", "describe", "manage_rules")),
        *((each, "wh", []) for each in ("ownership", "manage_grants", "modify", "manage_rules")),
    ],
)
def test_who_reads_events(tree: dict[str, ObjectRef], privilege: str, on: str, readable: list[str]) -> None:
    give(privilege, tree[on], ALICE)
    assert [name for name in ("server", "project", "wh") if may(tree, name, Can.READ_EVENTS) == [True]] == readable
    assert may(tree, "server", Can.MANAGE_EVENT_SINKS) == [on == "server"]


def test_owners_of_a_warehouse_grant_its_events(tree: dict[str, ObjectRef]) -> None:
    give("ownership", tree["wh"], ALICE)
    granting = (Can.GRANT_READ_EVENTS, Can.GRANT_MANAGE_RULES, Can.GRANT_OVERRIDE_RULES)
    assert may(tree, "wh", *granting) == [True, False, False]
    assert may(tree, "project", *granting) == [False, False, False]


@pytest.mark.parametrize(("privilege", "on"), [("security_admin", "project"), ("admin", "server")])
def test_who_grants_events_and_rules_of_a_project(tree: dict[str, ObjectRef], privilege: str, on: str) -> None:
    give(privilege, tree[on], ALICE)
    granting = (Can.GRANT_READ_EVENTS, Can.GRANT_MANAGE_RULES, Can.GRANT_OVERRIDE_RULES)
    assert may(tree, "project", *granting) == [True, True, True]
    assert may(tree, "wh", *granting) == [on == "project"] * 3


def test_privileges_on_events_and_rules_show_nothing(tree: dict[str, ObjectRef]) -> None:
    for privilege in ("read_events", "manage_rules", "override_rules"):
        for name in ("project", "wh"):
            give(privilege, tree[name], ALICE)
    assert may(tree, "project", Can.GET_METADATA) == may(tree, "wh", Can.USE) == [False]
    for name in IN_WAREHOUSES[1:]:
        assert may(tree, name, Can.GET_METADATA) == [False], name
