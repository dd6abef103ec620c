"""What people try who want more than they were given, by way of where a table lies, how it is named, and its files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.models import Namespace
from storage.models import Warehouse
from tenancy.authz.actions import Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.port import is_allowed
from tenancy.authz.securables import Ref, securable_id
from tenancy.models import Securable
from tests.authz.conftest import good, person
from tests.authz.trees import give
from tests.fingerprint import Fingerprint
from tests.named_callers import CallerClient, NamedCallers

pytestmark = [pytest.mark.django_db]

Client = Callable[[str], CallerClient]
Everything = Callable[[], Fingerprint]
ALICE, BOB = person("alice"), person("bob")
KINDS = {"tables": ("a", "TableActionForbidden"), "views": ("v", "ViewActionForbidden"),
         "generic-tables": ("g", "GenericTableActionForbidden")}  # fmt: skip


def manage_access(builtin: BuiltinAuthorizer, *places: Ref) -> None:
    Securable.objects.filter(pk__in=[securable_id(*each) for each in places]).update(managed_access=True)
    builtin.forget()


# --- managed access ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("privilege", ["ownership", "modify"])
def test_nothing_is_renamed_out_of_managed_access(
    client: Client, lake: dict[str, Ref], builtin: BuiltinAuthorizer, everything: Everything, kind: str, privilege: str
) -> None:
    """There its owners could grant again: who moved it, or who it was moved for."""
    alice, (name, refusal) = client("alice"), KINDS[kind]
    if kind == "generic-tables":
        alice = CallerClient(alice.base.replace("/catalog", "/lakekeeper"), "alice")
    moved = lake[f"closed.deep.{name}"]
    give(privilege, moved, ALICE)
    give("ownership", moved, BOB)
    give("create", lake["open"], ALICE)
    give("create", lake["closed"], ALICE)
    manage_access(builtin, lake["closed"])
    source = {"namespace": ["closed", "deep"], "name": name}
    out = {"source": source, "destination": {"namespace": ["open"], "name": "mine"}}
    before = everything()
    assert alice.post(f"/{kind}/rename", out).refused(403, refusal)
    assert everything() == before
    within = {"source": source, "destination": {"namespace": ["closed"], "name": "mine"}}
    good(alice.post(f"/{kind}/rename", within))
    assert not is_allowed(BOB, Can.GRANT_SELECT, *moved)
    give("manage_grants", moved, ALICE)
    good(alice.post(f"/{kind}/rename", out | {"source": within["destination"]}))
    assert is_allowed(BOB, Can.GRANT_SELECT, *moved)


def test_a_table_is_renamed_from_one_managed_place_to_another(
    client: Client, lake: dict[str, Ref], builtin: BuiltinAuthorizer
) -> None:
    alice = client("alice")
    give("ownership", lake["closed.a"], ALICE)
    give("create", lake["open"], ALICE)
    manage_access(builtin, lake["closed"], lake["open"])
    renamed = {"source": {"namespace": ["closed"], "name": "a"}, "destination": {"namespace": ["open"], "name": "mine"}}
    good(alice.post("/tables/rename", renamed))
    assert not is_allowed(ALICE, Can.GRANT_SELECT, *lake["closed.a"])


def test_a_namespace_is_not_moved_out_of_managed_access_by_its_owner(
    callers: NamedCallers,
    lake: dict[str, Ref],
    builtin: BuiltinAuthorizer,
    warehouse: Warehouse,
    everything: Everything,
) -> None:
    """To move takes `manage_grants`, which ownership is not there, whoever manages the place where it goes."""
    callers.person("alice")
    for place in ("closed.deep", "open"):
        give("ownership", lake[place], ALICE)
    manage_access(builtin, lake["closed"])
    management = CallerClient(f"/management/v1/warehouse/{warehouse.pk}", "alice")
    move, there = f"/namespace/{lake['closed.deep'][1]}/move", {"destination": ["open", "deep"]}
    before = everything()
    assert management.post(move, there).refused(403, "NamespaceActionForbidden")
    assert everything() == before
    give("manage_grants", lake["closed.deep"], ALICE)
    good(management.post(move, there))
    assert Namespace.objects.get(pk=lake["closed.deep"][1]).parent_id == lake["open"][1]
