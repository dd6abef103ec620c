"""Tables: create, load, rename, register and drop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from catalog.models import Tabular, TabularMetadata
from catalog.selectors.tables.targets import find_target
from storage.models import Warehouse
from tasks.models import Task
from tenancy.models import Securable
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]


def nothing_was_created(files: Files) -> bool:
    return not Tabular.objects.exists() and not TabularMetadata.objects.exists() and files() == []


def test_a_created_table_loads_as_it_was_returned(
    catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable, files: Files, storage_root: Path
) -> None:
    created = create_table(properties={"a": "b"})
    metadata = created["metadata"]
    assert [field["id"] for field in metadata["schemas"][0]["fields"]] == [1, 2]
    assert metadata["format-version"] == 2
    assert metadata["location"] == f"{warehouse.location}/{metadata['table-uuid']}"
    assert created["metadata-location"].startswith(f"{metadata['location']}/metadata/00000-")
    assert created["config"] == {}
    assert catalog.get("/namespaces/ns/tables/t").json() == created
    assert catalog.get("/namespaces/NS/tables/T").json() == created
    assert catalog.head("/namespaces/ns/tables/t").status == 204
    assert catalog.get("/namespaces/ns/tables").json() == {"identifiers": [{"namespace": ["ns"], "name": "t"}]}
    (file,) = files()
    assert (storage_root / file).read_bytes() == bytes(TabularMetadata.objects.get().document)
    assert Securable.objects.get(type="table").path.count("/") == 5


def test_a_table_is_created_once(catalog: ApiClient, create_table: CreateTable, files: Files) -> None:
    create_table()
    before = files()
    again = catalog.post("/namespaces/ns/tables", {"name": "T", "schema": SCHEMA})
    assert again.refused(409, "AlreadyExistsException", "Table already exists: ns.T")
    assert files() == before
    assert Tabular.objects.count() == 1


def test_create_in_a_missing_namespace(catalog: ApiClient, files: Files) -> None:
    response = catalog.post("/namespaces/no/tables", {"name": "t", "schema": SCHEMA})
    assert response.refused(404, "NoSuchNamespaceException", "Namespace does not exist: no")
    assert nothing_was_created(files)


def test_a_missing_table_is_404_also_in_a_missing_namespace(catalog: ApiClient, namespace: str) -> None:
    for target, text in (
        ("/namespaces/ns/tables/no", "Table does not exist: ns.no"),
        ("/namespaces/no/tables/t", "Table does not exist: no.t"),
        ("/namespaces//tables/t", "Table does not exist: .t"),
        ("/namespaces/ns%1Ft/tables/files", "Table does not exist: ns.t.files"),
        ("/namespaces/a%1Fb%1Fc%1Fd%1Fe%1Ff/tables/branch_x", "Table does not exist: a.b.c.d.e.f.branch_x"),
    ):
        assert catalog.get(target).refused(404, "NoSuchTableException", text)
        assert catalog.head(target).status == 404
        assert catalog.delete(target).refused(404, "NoSuchTableException", text)
        assert catalog.post(target, {"requirements": [], "updates": []}).refused(404, "NoSuchTableException", text)


def test_a_staged_table_is_nowhere_until_its_commit(catalog: ApiClient, namespace: str, files: Files) -> None:
    staged = catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, "stage-create": True}).json()
    assert staged["metadata-location"] is None
    assert nothing_was_created(files)
    metadata = staged["metadata"]
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0], "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        {"action": "set-properties", "updates": {"x": "y"}},
    ]
    commit = {"requirements": [{"type": "assert-create"}], "updates": updates}
    done = catalog.post("/namespaces/ns/tables/t", commit)
    assert done.status == 200, done.body
    assert done.json()["metadata"]["metadata-log"] == []
    assert done.json()["metadata"]["table-uuid"] == metadata["table-uuid"]
    assert catalog.get("/namespaces/ns/tables/t").json()["metadata"] == done.json()["metadata"]
    again = catalog.post("/namespaces/ns/tables/t", commit)
    assert again.refused(409, "CommitFailedException", "Requirement failed: table already exists")


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"name": ""},
        {"name": 7},
        {"name": ".."},
        {"name": "a\x1fb"},
        {"name": "a\x07"},
        {"name": "n" * 2000},
        {"schema": None},
        {"schema": []},
        {"schema": {"type": "struct"}},
        {"schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "nonsense", "required": True}]}},
        {"partition-spec": 1},
        {"write-order": "x"},
        {"properties": {"a": 1}},
        {"properties": {"format-version": "9"}},
        {"stage-create": "yes"},
    ],
)
def test_bad_create_requests_change_nothing(
    catalog: ApiClient, namespace: str, files: Files, change: dict[str, Any]
) -> None:
    response = catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, **change})
    assert response.status == 400, response.body
    assert response.error["type"] in {"BadRequestException", "FormatVersionNotAllowed"}
    assert nothing_was_created(files)


@pytest.mark.parametrize(
    "spelled",
    [
        "s3://bucket/t",
        "file:///etc/t",
        "{base}",
        "{base}/",
        "{base}2/t",
        "{base}/../../t",
        "{base}/a/./t",
        "{base}//t",
        "{base}/a%2Ft",
        "{base}/t?x",
        "file://host{path}/t",
        "{base}/link/t",
        "{base}/" + "x" * 3000,
        "{base}/a\x00b",
        7,
    ],
)
def test_locations_outside_the_warehouse_are_refused(
    catalog: ApiClient, warehouse: Warehouse, namespace: str, files: Files, storage_root: Path, spelled: Any
) -> None:
    (storage_root / "wh").mkdir(exist_ok=True)
    (storage_root / "wh" / "link").symlink_to("/tmp")
    if isinstance(spelled, str):
        path = warehouse.location.removeprefix("file://")
        spelled = spelled.replace("{base}", warehouse.location).replace("{path}", path)
    response = catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, "location": spelled})
    assert response.refused(400, "InvalidLocation")
    assert not Tabular.objects.exists()
    assert files() == []


def test_a_chosen_location_is_exclusive(catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable) -> None:
    create_table("t", location=f"{warehouse.location}/deep/t/")
    taken = {
        f"{warehouse.location}/deep": "LocationAlreadyTaken",
        f"{warehouse.location}/deep/t": "LocationAlreadyTaken",
        f"{warehouse.location}/deep/t/inner": "LocationAlreadyTaken",
        f"{warehouse.location}/deep/t10": None,  # a sibling with a common name prefix
    }
    for number, (location, wire_type) in enumerate(taken.items()):
        response = catalog.post("/namespaces/ns/tables", {"name": f"x{number}", "schema": SCHEMA, "location": location})
        assert (response.json().get("error") or {"type": None})["type"] == wire_type
    assert Tabular.objects.count() == 2


def test_rename(catalog: ApiClient, create_table: CreateTable) -> None:
    created = create_table("a")
    create_table("b")
    catalog.post("/namespaces", {"namespace": ["to"]})

    def rename(source: list[str], destination: list[str]) -> Any:
        body = {
            "source": {"namespace": source[:-1], "name": source[-1]},
            "destination": {"namespace": destination[:-1], "name": destination[-1]},
        }
        return catalog.post("/tables/rename", body)

    assert rename(["ns", "no"], ["ns", "c"]).refused(404, "NoSuchTableException", "Table does not exist: ns.no")
    assert rename(["ns", "a"], ["no", "a"]).refused(404, "NoSuchNamespaceException", "Namespace does not exist: no")
    assert rename(["ns", "a"], ["ns", "b"]).refused(409, "AlreadyExistsException", "Table already exists: ns.b")
    assert rename(["ns", "a"], ["ns", "x\x07"]).refused(400, "BadRequestException")
    assert rename(["ns", "a"], ["ns", "a"]).status == 204
    assert rename(["ns", "a"], ["ns", "A"]).status == 204
    assert catalog.get("/namespaces/ns/tables").json()["identifiers"][0]["name"] == "A"
    assert rename(["ns", "a"], ["to", "moved"]).status == 204
    assert catalog.get("/namespaces/ns/tables/a").status == 404
    assert catalog.get("/namespaces/to/tables/moved").json() == created
    moved = Tabular.objects.get(name="moved")
    securable = Securable.objects.get(type="table", object_id=str(moved.pk))
    assert securable.parent_id == f"namespace:{moved.namespace_id}"
    assert securable.path == f"{securable.parent.path}table:{moved.pk}/"  # type: ignore[union-attr]
    assert moved.updated_at > moved.created_at


def test_register_brings_a_dropped_table_back(catalog: ApiClient, create_table: CreateTable, files: Files) -> None:
    created = create_table()
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    assert len(files()) == 1
    body = {"name": "back", "metadata-location": created["metadata-location"]}
    registered = catalog.post("/namespaces/ns/register", body)
    assert registered.json() == created
    assert catalog.get("/namespaces/ns/tables/back").json() == created
    assert catalog.post("/namespaces/ns/register", body).refused(
        409, "AlreadyExistsException", "already exists: ns.back"
    )
    body["name"] = "twice"
    assert catalog.post("/namespaces/ns/register", body).refused(409, "LocationAlreadyTaken")
    assert len(files()) == 1


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (None, 404),
        (b"", 400),
        (b"not json", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b"\xff\xfe", 400),
        (b'{"format-version": 2, "format-version": 3}', 400),
        (b'{"format-version": 99}', 400),
        (b"[" * 1_000_000, 400),
        (b'{"a":' * 100_000, 400),
    ],
)
def test_register_of_files_that_are_not_metadata(
    catalog: ApiClient, warehouse: Warehouse, namespace: str, storage_root: Path, content: bytes | None, status: int
) -> None:
    if content is not None:
        (storage_root / "wh" / "x.metadata.json").write_bytes(content)
    body = {"name": "t", "metadata-location": f"{warehouse.location}/x.metadata.json"}
    response = catalog.post("/namespaces/ns/register", body)
    assert response.status == status, response.body
    assert not Tabular.objects.exists()


@pytest.mark.parametrize("location", [None, 7, "", "file:///etc/passwd", "s3://x/y.json", "{base}/../../../etc/passwd"])
def test_register_reads_nothing_outside_the_warehouse(
    catalog: ApiClient, warehouse: Warehouse, namespace: str, location: Any
) -> None:
    if isinstance(location, str):
        location = location.replace("{base}", warehouse.location)
    response = catalog.post("/namespaces/ns/register", {"name": "t", "metadata-location": location})
    assert response.refused(400, "InvalidLocation")


def test_drop_keeps_files_and_queues_a_purge_only_if_requested(
    catalog: ApiClient, create_table: CreateTable, files: Files
) -> None:
    create_table("keep")
    create_table("purge")
    before = files()
    assert catalog.delete("/namespaces/ns/tables/keep").status == 204
    assert not Task.objects.live().exists()
    dropped = Tabular.objects.get(name="purge")
    assert catalog.delete("/namespaces/ns/tables/purge?purgeRequested=True").status == 204
    payload = {
        "tabular_location": dropped.location, "former_locations": [], "metadata_location": dropped.metadata_location,
    }  # fmt: skip
    assert Task.objects.live().get().payload == payload
    assert files() == before
    assert not Securable.objects.filter(type="table").exists()
    assert catalog.delete("/namespaces/ns/tables/keep").refused(404, "NoSuchTableException")


def test_a_bad_purge_flag_drops_nothing(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=perhaps").refused(400, "BadRequestException")
    assert Tabular.objects.exists()


def test_a_protected_table_is_not_dropped(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    Tabular.objects.update(protected=True)
    assert catalog.delete("/namespaces/ns/tables/t").refused(409, "ProtectedTabularDeletionWithoutForce")
    assert catalog.delete("/namespaces/ns/tables/t?force=true").status == 204


def test_metadata_above_the_inline_limit_is_read_from_the_store(
    catalog: ApiClient, create_table: CreateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = settings.ICEKEEPER.model_copy(update={"metadata_inline_limit": 10})
    monkeypatch.setattr(settings, "ICEKEEPER", small)
    created = create_table()
    assert TabularMetadata.objects.get().document is None
    clear_served_requests(monkeypatch)
    assert catalog.get("/namespaces/ns/tables/t").json() == created
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert catalog.post("/namespaces/ns/tables/t", commit).json()["metadata"]["properties"]["a"] == "b"


@pytest.mark.parametrize("inline_limit", [10, 1_000_000])
def test_a_version_1_file_of_old_is_registered_and_committed_to(
    catalog: ApiClient,
    warehouse: Warehouse,
    namespace: str,
    storage_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    inline_limit: int,
) -> None:
    """A file of the first Iceberg releases: no UUID, one schema, one spec, no refs."""
    limited = settings.ICEKEEPER.model_copy(update={"metadata_inline_limit": inline_limit})
    monkeypatch.setattr(settings, "ICEKEEPER", limited)
    old = {
        "format-version": 1,
        "location": f"{warehouse.location}/old",
        "last-updated-ms": 1515100955770,
        "last-column-id": 1,
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "long", "required": True}]},
        "partition-spec": [],
        "properties": {},
        "current-snapshot-id": -1,
        "snapshots": [],
    }
    (storage_root / "wh" / "old.metadata.json").write_text(json.dumps(old))
    body = {"name": "old", "metadata-location": f"{warehouse.location}/old.metadata.json"}
    registered = catalog.post("/namespaces/ns/register", body)
    assert registered.status == 200, registered.body
    assert registered.json()["metadata"]["current-schema-id"] == 0
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    committed = catalog.post("/namespaces/ns/tables/old", commit)
    assert committed.status == 200, committed.body
    assert committed.json()["metadata"]["schema"]["fields"] == old["schema"]["fields"]  # type: ignore[index]
    assert committed.json()["metadata"]["metadata-log"][0]["metadata-file"] == body["metadata-location"]


def test_unreadable_metadata_is_refused(
    catalog: ApiClient, create_table: CreateTable, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = create_table()
    before = files()
    limited = settings.ICEKEEPER.model_copy(update={"metadata_file_limit": 4096})
    monkeypatch.setattr(settings, "ICEKEEPER", limited)
    large = [{"action": "set-properties", "updates": {"a": "x" * 5000}}]
    response = catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": large})
    assert response.refused(400, "BadRequestException", "4096")
    body = {"name": "u", "schema": SCHEMA, "properties": {"a": "x" * 5000}}
    assert catalog.post("/namespaces/ns/tables", body).refused(400, "BadRequestException", "4096")
    assert files() == before
    assert catalog.get("/namespaces/ns/tables/t").json() == created


def test_a_table_whose_file_is_lost_can_still_be_renamed_and_dropped(
    catalog: ApiClient, create_table: CreateTable, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"metadata_inline_limit": 10}))
    created = create_table()
    Path(created["metadata-location"].removeprefix("file://")).unlink()
    clear_served_requests(monkeypatch)
    assert catalog.get("/namespaces/ns/tables/t").refused(
        404, "NotFoundException", "Failed to open input stream for file"
    )
    source, destination = {"namespace": ["ns"], "name": "t"}, {"namespace": ["ns"], "name": "u"}
    assert catalog.post("/tables/rename", {"source": source, "destination": destination}).status == 204
    assert catalog.delete("/namespaces/ns/tables/u").status == 204


def test_a_file_that_was_edited_and_registered_again_is_served_as_it_is_now(
    catalog: ApiClient, create_table: CreateTable
) -> None:
    from catalog.selectors.tables.metadata_cache import metadata_cache

    created = create_table()
    first = Tabular.objects.get()
    old_version, old_bytes = metadata_cache.last_seen((first.warehouse_id, "ns", "t"))
    catalog.delete("/namespaces/ns/tables/t")
    file = Path(created["metadata-location"].removeprefix("file://"))
    edited = created["metadata"] | {"properties": {"edited": "yes"}}
    file.write_text(json.dumps(edited))
    body = {"name": "t", "metadata-location": created["metadata-location"]}
    assert catalog.post("/namespaces/ns/register", body).json()["metadata"] == edited
    # Another process may still have the former response in its cache.
    assert old_version is not None
    assert old_bytes is not None
    metadata_cache.put(old_version, old_bytes, address=(first.warehouse_id, "ns", "t"))
    assert catalog.get("/namespaces/ns/tables/t").json()["metadata"] == edited
    metadata_cache.put(old_version, old_bytes, address=(first.warehouse_id, "ns", "t"))
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    committed = catalog.post("/namespaces/ns/tables/t", commit).json()
    assert committed["metadata"]["properties"] == {"edited": "yes", "a": "b"}


def test_a_drop_does_not_follow_a_rename(
    catalog: ApiClient, create_table: CreateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is renamed between the look-up and the lock of the drop."""
    from catalog.services.tables import drop

    create_table("a")
    found = find_target

    def found_then_renamed(**options: Any) -> Any:
        target = found(**options)
        monkeypatch.setattr(drop, "find_target", found)
        Tabular.objects.update(name="precious", name_key="precious")
        return target

    monkeypatch.setattr(drop, "find_target", found_then_renamed)
    assert catalog.delete("/namespaces/ns/tables/a?purgeRequested=true").refused(404, "NoSuchTableException")
    assert Tabular.objects.get().name == "precious"
    assert not Task.objects.live().exists()


def test_a_staged_create_distinguishes_a_taken_name_from_a_taken_uuid(
    catalog: ApiClient, create_table: CreateTable
) -> None:
    taken = create_table("the same name")["metadata"]
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": taken["table-uuid"]},
        {"action": "add-schema", "schema": taken["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-location", "location": f"{taken['location']}-2"},
    ]
    commit = {"requirements": [{"type": "assert-create"}], "updates": updates}
    again = catalog.post("/namespaces/ns/tables/the+same+name", commit)
    assert again.refused(409, "CommitFailedException", "Requirement failed: table already exists")
    other = catalog.post("/namespaces/ns/tables/other", commit)
    assert other.refused(409, "AlreadyExistsException", "UUID")


@pytest.mark.parametrize("overwrite", ["no", [], {}, 1, 0, 0.0])
def test_overwrite_is_true_or_false(catalog: ApiClient, create_table: CreateTable, overwrite: Any) -> None:
    body = {"name": "x", "metadata-location": create_table()["metadata-location"], "overwrite": overwrite}
    assert catalog.post("/namespaces/ns/register", body).refused(400, "BadRequestException", "overwrite")


def clear_served_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the caches, as in a new process."""
    from catalog.selectors.tables import load, metadata_cache, targets

    for module in (load, targets, metadata_cache):
        monkeypatch.setattr(module, "metadata_cache", metadata_cache.MetadataCache(max_bytes=0))


def test_version_4_is_for_warehouses_that_allow_it(
    catalog: ApiClient, warehouse: Warehouse, namespace: str, files: Files
) -> None:
    body = {"name": "t", "schema": SCHEMA, "properties": {"format-version": "4"}}
    assert catalog.post("/namespaces/ns/tables", body).refused(400, "FormatVersionNotAllowed")
    assert nothing_was_created(files)
    warehouse.allowed_format_versions = [2, 4]
    warehouse.save()
    created = catalog.post("/namespaces/ns/tables", body)
    assert created.status == 200, created.body
    metadata = created.json()["metadata"]
    assert (metadata["format-version"], metadata["next-row-id"], metadata["current-snapshot-id"]) == (4, 0, None)
    old = catalog.post("/namespaces/ns/tables", {"name": "u", "schema": SCHEMA}).json()["metadata"]
    assert old["format-version"] == 2
    upgrade = {"requirements": [], "updates": [{"action": "upgrade-format-version", "format-version": 4}]}
    assert catalog.post("/namespaces/ns/tables/u", upgrade).json()["metadata"]["format-version"] == 4
