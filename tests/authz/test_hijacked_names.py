"""Names that are reused, moved, staged, registered or restored: no caller gets what belongs to another one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.models import Grant, Securable
from tenancy.models.securable import ObjectRef
from tenancy.services.users import delete_user
from tests.authz.conftest import good, user
from tests.authz.tree_fixtures import give, role
from tests.catalog_fixtures import SCHEMA, finishing_updates
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Client = Callable[[str], CallerClient]
ALICE, BOB = user("alice"), user("bob")


def test_a_staged_table_is_not_completed_without_create_permission(client: Client, lake: dict[str, ObjectRef]) -> None:
    alice, bob = client("alice"), client("bob")
    give("create", lake["open"], ALICE)
    give("describe", lake["open"], BOB)
    staged = good(alice.post("/namespaces/open/tables", {"name": "s", "schema": SCHEMA, "stage-create": True})).json()
    commit = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(staged["metadata"])}
    assert bob.post("/namespaces/open/tables/s", commit).refused(403, "NamespaceActionForbidden")
    assert not Tabular.objects.filter(name="s").exists()
    Grant.objects.filter(user_id=ALICE.user_id).delete()
    assert alice.post("/namespaces/open/tables/s", commit).refused(404, "NoSuchWarehouseException")


@pytest.mark.parametrize("privilege", ["create", "ownership"])
def test_a_staged_table_is_not_finished_by_another(
    client: Client,
    root: CallerClient,
    lake: dict[str, ObjectRef],
    everything: Callable[[], Fingerprint],
    privilege: str,
) -> None:
    """Whatever the user's permissions in the namespace are, and although the whole request is known."""
    alice, bob = client("alice"), client("bob")
    give("create", lake["open"], ALICE)
    give(privilege, lake["open"], BOB)
    give("ownership", lake["closed"], BOB)
    staged = good(alice.post("/namespaces/open/tables", {"name": "s", "schema": SCHEMA, "stage-create": True})).json()
    commit = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(staged["metadata"])}
    before = everything()
    for thief in (bob, root):
        for location in ("open/tables/s", "open/tables/other", "closed/tables/s"):
            assert thief.post(f"/namespaces/{location}", commit).refused(409, "LocationAlreadyTaken")
    assert everything() == before
    created = good(alice.post("/namespaces/open/tables/s", commit)).json()
    assert created["metadata"]["location"] == staged["metadata"]["location"]
    table = Tabular.objects.get(name="s")
    assert is_allowed(ALICE, Can.WRITE_DATA, Securable.Type.TABLE, table.pk)


def test_files_of_another_table_are_not_registered(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef], everything: Callable[[], Fingerprint]
) -> None:
    alice = client("alice")
    give("ownership", lake["open"], ALICE)
    location = good(root.get("/namespaces/closed/tables/a")).json()["metadata-location"]
    before = everything()
    body = {"name": "mine", "metadata-location": location}
    assert alice.post("/namespaces/open/register", body).status == 409
    assert everything() == before


def test_a_new_table_has_none_of_the_grants_of_one_that_had_its_name(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef]
) -> None:
    alice = client("alice")
    give("ownership", lake["open.a"], ALICE)
    good(root.delete("/namespaces/open/tables/a"))
    good(root.post("/namespaces/open/tables", {"name": "a", "schema": SCHEMA}))
    assert alice.get("/namespaces/open/tables/a").refused(404, "NoSuchWarehouseException")


def test_a_deleted_user_who_returns_has_no_grants(callers: NamedCallers, lake: dict[str, ObjectRef]) -> None:
    staff = role("staff")
    give("ownership", lake["closed.a"], ALICE)
    give("select", lake["closed.b"], ALICE, through=staff, to=staff)
    delete_user(actor=INTERNAL, user_id=str(ALICE.user_id))
    callers.user("alice")
    good(CallerClient("/management/v1", "alice").post("/user", {}))
    assert not is_allowed(ALICE, Can.GET_METADATA, *lake["closed.a"])
    assert not is_allowed(ALICE, Can.GET_METADATA, *lake["closed.b"])
    assert not Grant.objects.filter(user_id=ALICE.user_id).exists()


def test_a_table_cannot_be_moved_to_gain_grants_on_it(
    client: Client, lake: dict[str, ObjectRef], everything: Callable[[], Fingerprint]
) -> None:
    alice = client("alice")
    give("modify", lake["closed.a"], ALICE)
    give("ownership", lake["open"], ALICE)
    before = everything()
    renamed = {"source": {"namespace": ["closed"], "name": "a"}, "destination": {"namespace": ["open"], "name": "mine"}}
    assert alice.post("/tables/rename", renamed).refused(403, "TableActionForbidden")
    assert everything() == before
    renamed["destination"] = {"namespace": ["closed"], "name": "other"}
    assert alice.post("/tables/rename", renamed).refused(403, "NamespaceActionForbidden")
    give("manage_grants", lake["closed.a"], ALICE)
    give("manage_tags", lake["open"], BOB)
    good(alice.post("/tables/rename", renamed | {"destination": {"namespace": ["open"], "name": "mine"}}))


def test_a_table_is_not_undropped_with_the_rights_of_yesterday(
    client: Client, lake: dict[str, ObjectRef], warehouse: Warehouse, soft_delete: int
) -> None:
    alice = client("alice")
    give("modify", lake["closed.a"], ALICE)
    good(alice.delete("/namespaces/closed/tables/a"))
    management = CallerClient(f"/management/v1/warehouse/{warehouse.pk}", "alice")
    uuid = str(Tabular.objects.get(pk=lake["closed.a"][1]).uuid)
    wanted = {"targets": [{"type": "table", "id": uuid}]}
    Grant.objects.filter(user_id=ALICE.user_id).update(privilege="describe")
    assert management.post("/deleted-tabulars/undrop", wanted).refused(403, "TableActionForbidden")
    Grant.objects.filter(user_id=ALICE.user_id).delete()
    give("describe", lake["open"], ALICE)
    hidden = management.post("/deleted-tabulars/undrop", wanted)
    assert hidden.refused(404, "NoSuchTableException")
    unknown = wanted["targets"][0]["id"][:-1] + ("0" if uuid[-1] != "0" else "1")
    missing = management.post("/deleted-tabulars/undrop", {"targets": [{"type": "table", "id": unknown}]})
    assert missing.error["message"].replace(unknown, uuid) == hidden.error["message"]
    assert Tabular.objects.get(pk=lake["closed.a"][1]).deleted_at is not None
