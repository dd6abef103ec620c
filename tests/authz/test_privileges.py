"""What follows from each privilege, asked of the built-in evaluator over rows in the database."""

from __future__ import annotations

import pytest

from icekeeper.kernel.errors import NotFound
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import is_allowed
from tenancy.authz.securables import Ref, add_securable
from tenancy.models import Securable, Server, User
from tenancy.selectors.projects import get_project
from tenancy.services.grants import Difference, Grantee, GrantSpec, apply_grants
from tests.authz.conftest import person

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]

ALICE = person("alice")
T = Securable.Type


def give(privilege: str, ref: Ref, to: Actor = ALICE) -> None:
    User.objects.get_or_create(id=to.user_id, defaults={"name": "n"})
    difference = Difference(writes=[GrantSpec(privilege, Grantee(user_id=to.user_id))])
    apply_grants(actor=INTERNAL, ref=ref, difference=difference, missing=NotFound("there is no such thing"))


@pytest.fixture
def tree(warehouse: Warehouse) -> dict[str, Ref]:
    """server > project > wh > outer > inner > table; beside it in wh > other > view."""
    made: dict[str, Ref] = {
        "server": (T.SERVER, Server.objects.get().server_id),
        "project": (T.PROJECT, get_project(None).pk),
        "wh": (T.WAREHOUSE, warehouse.pk),
    }
    for name, securable_type, parent in (
        ("outer", T.NAMESPACE, "wh"), ("inner", T.NAMESPACE, "outer"), ("table", T.TABLE, "inner"),
        ("other", T.NAMESPACE, "wh"), ("view", T.VIEW, "other"), ("role", T.ROLE, "project"),
    ):  # fmt: skip
        made[name] = (securable_type, new_id())
        add_securable(*made[name], parent=made[parent])
    return made


def may(tree: dict[str, Ref], name: str, *actions: Can, who: Actor = ALICE) -> list[bool]:
    return [is_allowed(who, action, *tree[name]) for action in actions]


def test_nobody_may_do_anything_unasked(tree: dict[str, Ref]) -> None:
    assert not any(may(tree, "table", Can.GET_METADATA, Can.DROP, Can.READ_DATA))
    assert not any(may(tree, "wh", Can.USE, Can.GET_CONFIG, Can.CREATE_NAMESPACE))
    assert not any(may(tree, "server", Can.CREATE_PROJECT))


def test_select_on_a_table_shows_all_above_it_and_nothing_beside_it(tree: dict[str, Ref]) -> None:
    give("select", tree["table"])
    assert may(tree, "table", Can.GET_METADATA, Can.READ_DATA, Can.WRITE_DATA, Can.DROP) == [True, True, False, False]
    for above in ("inner", "outer"):
        assert may(tree, above, Can.GET_METADATA, Can.LIST_TABLES, Can.LIST_EVERYTHING) == [True, True, False]
    assert may(tree, "wh", Can.USE, Can.GET_CONFIG, Can.LIST_EVERYTHING) == [True, True, False]
    assert may(tree, "project", Can.GET_METADATA, Can.LIST_ROLES, Can.CREATE_WAREHOUSE) == [True, True, False]
    assert may(tree, "role", Can.READ) == [True]
    assert may(tree, "other", Can.GET_METADATA) == may(tree, "view", Can.GET_METADATA) == [False]


def test_an_owner_below_managed_access_does_not_grant(tree: dict[str, Ref]) -> None:
    give("ownership", tree["inner"])
    assert may(tree, "inner", Can.GRANT_SELECT, Can.CHANGE_OWNERSHIP) == [True, True]
    Securable.objects.filter(pk=f"namespace:{tree['outer'][1]}").update(managed_access=True)
    assert may(tree, "inner", Can.GRANT_SELECT, Can.CHANGE_OWNERSHIP, Can.DELETE) == [False, False, True]
    assert may(tree, "table", Can.GRANT_SELECT, Can.DROP) == [False, True]
    give("ownership", tree["outer"])
    assert may(tree, "inner", Can.GRANT_SELECT) == may(tree, "table", Can.GRANT_SELECT) == [True]
