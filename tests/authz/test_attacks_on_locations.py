"""Attacks by location, name and file of a table: each is denied, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import Namespace
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from storage.models import Warehouse
from tenancy.authz.actions import Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.permissions import is_allowed
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, securable_id
from tests.authz.conftest import good, user
from tests.authz.hidden_object_fixtures import reported
from tests.authz.tree_fixtures import give
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Client = Callable[[str], CallerClient]
Everything = Callable[[], Fingerprint]
ALICE, BOB = user("alice"), user("bob")
KINDS = {"tables": ("a", "TableActionForbidden"), "views": ("v", "ViewActionForbidden"),
         "generic-tables": ("g", "GenericTableActionForbidden")}  # fmt: skip


def manage_access(builtin: BuiltinAuthorizer, *locations: ObjectRef) -> None:
    Securable.objects.filter(pk__in=[securable_id(*each) for each in locations]).update(managed_access=True)
    builtin.clear_caches()


# --- managed access ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("privilege", ["ownership", "modify"])
def test_nothing_is_renamed_out_of_managed_access(
    client: Client,
    lake: dict[str, ObjectRef],
    builtin: BuiltinAuthorizer,
    everything: Everything,
    kind: str,
    privilege: str,
) -> None:
    """There its owners could grant again: the user who moved it, or the user it was moved for."""
    alice, (name, error) = client("alice"), KINDS[kind]
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
    assert alice.post(f"/{kind}/rename", out).refused(403, error)
    assert everything() == before
    within = {"source": source, "destination": {"namespace": ["closed"], "name": "mine"}}
    good(alice.post(f"/{kind}/rename", within))
    assert not is_allowed(BOB, Can.GRANT_SELECT, *moved)
    give("manage_grants", moved, ALICE)
    good(alice.post(f"/{kind}/rename", out | {"source": within["destination"]}))
    assert is_allowed(BOB, Can.GRANT_SELECT, *moved)


def test_a_table_is_renamed_from_one_managed_namespace_to_another(
    client: Client, lake: dict[str, ObjectRef], builtin: BuiltinAuthorizer
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
    lake: dict[str, ObjectRef],
    builtin: BuiltinAuthorizer,
    warehouse: Warehouse,
    everything: Everything,
) -> None:
    """A move requires `manage_grants`, which ownership does not include there, even if the user manages the target."""
    callers.user("alice")
    for location in ("closed.deep", "open"):
        give("ownership", lake[location], ALICE)
    manage_access(builtin, lake["closed"])
    management = CallerClient(f"/management/v1/warehouse/{warehouse.pk}", "alice")
    move, there = f"/namespace/{lake['closed.deep'][1]}/move", {"destination": ["open", "deep"]}
    before = everything()
    assert management.post(move, there).refused(403, "NamespaceActionForbidden")
    assert everything() == before
    give("manage_grants", lake["closed.deep"], ALICE)
    good(management.post(move, there))
    assert Namespace.objects.get(pk=lake["closed.deep"][1]).parent_id == lake["open"][1]


# --- registering ---------------------------------------------------------------------------------------------------


def metadata_of(root: CallerClient, table: str) -> str:
    location: str = good(root.get(table)).json()["metadata-location"]
    return location


def test_no_user_becomes_owner_by_registering_a_table_over_itself(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef], everything: Everything
) -> None:
    alice = client("alice")
    give("modify", lake["closed.a"], ALICE)
    give("create", lake["closed"], ALICE)
    give("ownership", lake["closed.a"], BOB)
    body = {"name": "a", "metadata-location": metadata_of(root, "/namespaces/closed/tables/a"), "overwrite": True}
    before = everything()
    assert alice.post("/namespaces/closed/register", body).refused(403, "TableActionForbidden")
    assert everything() == before
    give("manage_grants", lake["closed.a"], ALICE)
    good(alice.post("/namespaces/closed/register", body))


@pytest.mark.parametrize("named", ["location", "metadata-log", "manifest-list", "statistics", "uuid", "nothing"])
def test_nor_by_registering_its_files_under_another_uuid(
    client: Client,
    root: CallerClient,
    lake: dict[str, ObjectRef],
    storage_root: Path,
    everything: Everything,
    named: str,
) -> None:
    """Every location that its metadata names is protected. Unrelated objects may use the freed location."""
    alice, table = client("alice"), "/namespaces/closed/tables/a"
    give("modify", lake["closed.a"], ALICE)
    give("create", lake["closed"], ALICE)
    victim = good(root.get(table)).json()
    metadata = victim["metadata"]
    here = metadata["location"]
    location = f"{here.rsplit('/', 1)[0]}/sibling"
    own_uuid = metadata["table-uuid"]
    metadata |= {"location": location, "table-uuid": str(new_id())}
    metadata |= {
        "location": {"location": f"{here}/inside"},
        "metadata-log": {"metadata-log": [{"timestamp-ms": 1, "metadata-file": victim["metadata-location"]}]},
        "manifest-list": {"snapshots": [snapshot(f"{here}/metadata/snap.avro")], "last-sequence-number": 1},
        "statistics": {"statistics": [statistics(f"{here}/metadata/some.stats")]},
        "uuid": {"table-uuid": own_uuid.upper()},
        "nothing": {"snapshots": [snapshot(f"{location}/metadata/snap.avro")], "last-sequence-number": 1},
    }[named]
    file = storage_root.parent / location.removeprefix("file://") / "metadata" / "own.metadata.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(write_json(metadata))
    body = {"name": "a", "metadata-location": f"{location}/metadata/own.metadata.json", "overwrite": True}
    before = everything()
    if named == "nothing":
        good(alice.post("/namespaces/closed/register", body))
        return
    assert alice.post("/namespaces/closed/register", body).refused(403, "TableActionForbidden")
    assert everything() == before


def snapshot(manifest_list: str) -> dict[str, Any]:
    return {
        "snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "schema-id": 0, "manifest-list": manifest_list,
        "summary": {"operation": "append"},
    }  # fmt: skip


def statistics(path: str) -> dict[str, Any]:
    return {
        "snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }  # fmt: skip


def test_registering_reveals_nothing_of_the_files_of_a_hidden_table(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef], everything: Everything
) -> None:
    alice = client("alice")
    give("ownership", lake["open"], ALICE)
    there = metadata_of(root, "/namespaces/closed/tables/a")
    folder = there.rpartition("/")[0]
    before = everything()
    for location in (there, f"{folder}/nowhere.metadata.json", folder):
        response = alice.post("/namespaces/open/register", {"name": "mine", "metadata-location": location})
        reported = f"Location is already taken by another table or view, or by one that is staged: {location}"
        assert response.refused(409, "LocationAlreadyTaken")
        assert response.error["message"] == reported
    assert everything() == before


# --- finishing a staged table --------------------------------------------------------------------------------------

CREATE = {"requirements": [{"type": "assert-create"}], "updates": []}


@pytest.mark.parametrize(("sees", "error"), [(None, (404, "NoSuchNamespaceException")),
                                               ("closed.b", (403, "NamespaceActionForbidden"))])  # fmt: skip
def test_a_commit_that_asserts_a_new_table_reveals_no_names(
    client: Client,
    lake: dict[str, ObjectRef],
    sees: str | None,
    error: tuple[int, str],
    everything: Everything,
) -> None:
    """Neither in a hidden namespace, nor in one that is partly visible to the caller."""
    alice = client("alice")
    give("ownership", lake["open"], ALICE)
    if sees is not None:
        give("describe", lake[sees], ALICE)
    before = everything()
    all_reported = {
        reported(lambda name=name: alice.post(f"/namespaces/closed/tables/{name}", CREATE), f"closed.{name}")[:3]
        for name in ("nowhere", "a", "v", "g")
    }
    assert [each[:2] for each in all_reported] == [error]
    assert everything() == before


def test_viewers_of_a_table_see_that_it_exists(client: Client, lake: dict[str, ObjectRef]) -> None:
    alice = client("alice")
    give("modify", lake["closed.a"], ALICE)
    assert alice.post("/namespaces/closed/tables/a", CREATE).refused(409, "CommitFailedException")
    give("create", lake["closed"], ALICE)
    assert alice.post("/namespaces/closed/tables/v", CREATE).refused(409, "AlreadyExistsException")


# --- a location chosen by the caller
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["location", "metadata folder", "transaction", "view"])
def test_a_user_who_may_only_change_a_table_cannot_move_it(
    client: Client,
    root: CallerClient,
    lake: dict[str, ObjectRef],
    everything: Everything,
    warehouse: Warehouse,
    way: str,
) -> None:
    """Neither to the location of a hidden table with existing files, nor to one that overlaps a hidden namespace."""
    bob, is_view = client("bob"), way == "view"
    dropped = good(root.get("/namespaces/closed/tables/a")).json()["metadata"]["location"]
    good(root.delete("/namespaces/closed/tables/a"))
    give("modify", lake["open.v" if is_view else "open.a"], BOB)
    path = "/namespaces/open/views/v" if is_view else "/namespaces/open/tables/a"
    own = good(bob.get(path)).json()["metadata"]["location"]

    def go(update: dict[str, Any]) -> Response:
        change = {"requirements": [], "updates": [update]}
        if way != "transaction":
            return bob.post(path, change)
        identified = change | {"identifier": {"namespace": ["open"], "name": "a"}}
        return bob.post("/transactions/commit", {"table-changes": [identified]})

    def to(location: str) -> dict[str, Any]:
        if way != "metadata folder":
            return {"action": "set-location", "location": location}
        return {"action": "set-properties", "updates": {"write.metadata.path": location}}

    before = everything()
    for location in (dropped, f"{dropped}/metadata", f"{warehouse.location}/secret"):
        assert go(to(location)).refused(403, "NamespaceActionForbidden"), location
    assert everything() == before
    within = {"action": "set-properties", "updates": {"write.metadata.path": f"{own}/meta"}}
    good(go(within))
    good(go({"action": "set-location", "location": f"{own}/"}))
    give("create", lake["open"], BOB)
    good(go(to(f"{warehouse.location}/chosen")))
