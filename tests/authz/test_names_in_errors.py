"""Errors about tables, views and generic tables name the object as the caller did, never by its securable id."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.authz.actions import Can
from tenancy.authz.permissions import TableActionForbidden, require_permission
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import good, user
from tests.authz.object_path_fixtures import path_of
from tests.authz.test_hiding import COMMIT
from tests.authz.test_rights_revoked_concurrently import losing_everything
from tests.authz.tree_fixtures import T, give
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = pytest.mark.django_db

Client = Callable[[str], CallerClient]
ALICE, BOB = user("alice"), user("bob")
NAMES = {T.TABLE: "a", T.VIEW: "v", T.GENERIC_TABLE: "g"}


def row_of(ref: ObjectRef) -> Tabular:
    return Tabular.objects.get(pk=str(ref[1]))


def says(response: Response, text: str, ref: ObjectRef, status: int = 403) -> None:
    assert response.status == status, response.body
    assert text in response.error["message"]
    own_id, uuid = str(ref[1]), str(row_of(ref).uuid)
    assert own_id == uuid or own_id not in response.body.decode()  # generic tables are created with one id for both


def catalog_of(client: Client, name: str, kind: Securable.Type) -> CallerClient:
    caller = client(name)
    return CallerClient(caller.base.replace("/catalog", "/lakekeeper"), name) if kind is T.GENERIC_TABLE else caller


@pytest.mark.parametrize("kind", NAMES)
def test_by_its_name_where_that_was_given(client: Client, lake: dict[str, ObjectRef], kind: Securable.Type) -> None:
    ref = lake[f"closed.deep.{NAMES[kind]}"]
    give("describe", ref, BOB)
    bob, route = catalog_of(client, "bob", kind), f"{kind.value}s"
    named = f"on {kind.value} closed.deep.{NAMES[kind]}"
    says(bob.delete(f"/namespaces/closed%1Fdeep/{route}/{NAMES[kind]}"), f"may not drop {named}", ref)
    moved = {
        "source": {"namespace": ["Closed", "deep"], "name": NAMES[kind]},
        "destination": {"namespace": ["open"], "name": "mine"},
    }
    spelled = f"on {kind.value} Closed.deep.{NAMES[kind]}"
    says(bob.post(f"/{route}/rename", moved), f"may not rename {spelled}", ref)
    if kind is T.TABLE:
        says(bob.post("/namespaces/closed%1Fdeep/tables/A", COMMIT), "may not commit on table closed.deep.A", ref)


@pytest.mark.parametrize("kind", NAMES)
def test_by_the_uuid_of_clients_where_that_was_given(
    refs: dict[Securable.Type, ObjectRef], manage: Client, kind: Securable.Type
) -> None:
    ref = refs[kind]
    give("describe", ref, BOB)
    bob, path = manage("bob"), path_of(ref)
    named = f"on {kind.value} {row_of(ref).uuid}"
    says(bob.post(f"{path}/protection", {"protected": True}), f"may not set_protection {named}", ref)
    change = {"writes": [{"privilege": "select", "principal": {"user": "oidc~bob"}}]}
    says(bob.post(f"{path}/grants", change), f"may not grant {named}: select", ref)
    says(bob.get(f"{path}/actions?principalUser=oidc~ann"), f"may not read_grants {named}", ref)
    says(bob.get(f"{path}/grants"), f"may not read the grants on this {kind.value}", ref)


def test_dropped_objects_are_named_by_uuid(
    refs: dict[Securable.Type, ObjectRef], root: CallerClient, manage: Client, warehouse: Warehouse
) -> None:
    ref = refs[T.TABLE]
    Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 600})
    good(root.delete("/namespaces/open/tables/a"))
    give("describe", ref, BOB)
    give("describe", refs[T.WAREHOUSE], BOB)
    target = {"targets": [{"type": "table", "id": str(row_of(ref).uuid)}]}
    response = manage("bob").post(f"/warehouse/{warehouse.pk}/deleted-tabulars/undrop", target)
    says(response, f"may not undrop on table {row_of(ref).uuid}", ref)


def test_assignments_name_it_by_its_uuid(refs: dict[Securable.Type, ObjectRef], manage: Client) -> None:
    ref = refs[T.TABLE]
    root, path = manage("root"), f"/permissions{path_of(ref)}/assignments"
    entry = {"type": "select", "user": "oidc~bob"}
    good(root.post(path, {"writes": [entry]}))
    for change, status in (({"writes": [entry]}, 409), ({"deletes": [entry | {"type": "modify"}]}, 404)):
        says(root.post(path, change), f"on table {row_of(ref).uuid} is ", ref, status)


def test_rights_that_were_lost_meanwhile_are_missed_by_name(client: Client, lake: dict[str, ObjectRef]) -> None:
    alice = client("alice")
    give("ownership", lake["closed.a"], ALICE)
    with losing_everything():
        response = alice.post("/namespaces/closed/tables/a", COMMIT)
    says(response, "may not commit on table closed.a", lake["closed.a"])


def test_an_unnamed_cluster_is_called_this_one(lake: dict[str, ObjectRef], root: CallerClient) -> None:
    with pytest.raises(TableActionForbidden, match=r"oidc~bob may not read_data on this table$"):
        require_permission(BOB, Can.READ_DATA, *lake["closed.a"])


def test_namespaces_have_their_names_and_warehouses_their_ids(
    client: Client, lake: dict[str, ObjectRef], warehouse: Warehouse
) -> None:
    bob = client("bob")
    give("describe", ObjectRef(T.WAREHOUSE, warehouse.pk), BOB)
    response = bob.post("/namespaces/closed%1Fdeep/properties", {"updates": {"k": "v"}})
    assert response.refused(403, "NamespaceActionForbidden", "may not update_properties on namespace closed.deep")
    response = bob.post("/namespaces", {"namespace": ["mine"]})
    assert response.refused(403, "WarehouseActionForbidden", f"may not create_namespace on warehouse {warehouse.pk}")
