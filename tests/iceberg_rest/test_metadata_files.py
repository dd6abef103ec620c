"""Location and content of metadata files: gzip, `write.metadata.path`, and deletion after commits."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Tabular, TabularMetadata
from catalog.services.commit import revisions
from storage.errors import StoreUnavailable
from storage.io.local import LocalStore
from storage.models import Warehouse
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]
T = "/namespaces/ns/tables/t"
CODEC, FOLDER = "write.metadata.compression-codec", "write.metadata.path"
KEPT, DELETE = "write.metadata.previous-versions-max", "write.metadata.delete-after-commit.enabled"


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def commit_properties(catalog: ApiClient, updates: dict[str, str]) -> Response:
    return catalog.post(T, {"requirements": [], "updates": [{"action": "set-properties", "updates": updates}]})


@pytest.mark.parametrize("codec", ["gzip", "GZIP"])
def test_metadata_may_be_compressed(codec: str, catalog: ApiClient, create_table: CreateTable) -> None:
    created = create_table(properties={CODEC: codec})
    assert created["metadata-location"].endswith(".gz.metadata.json")
    stored = gzip.decompress(path_of(created["metadata-location"]).read_bytes())
    assert json.loads(stored) == created["metadata"]
    assert bytes(TabularMetadata.objects.get().document) == stored, "the database stores the served document"
    assert catalog.get(T).json() == created
    plain = commit_properties(catalog, {CODEC: "none"}).json()
    assert plain["metadata-location"].endswith(".metadata.json")
    assert ".gz." not in plain["metadata-location"]
    assert json.loads(path_of(plain["metadata-location"]).read_bytes()) == plain["metadata"]
    assert "/00001-" in plain["metadata-location"]


def test_a_compressed_file_can_be_registered(catalog: ApiClient, create_table: CreateTable) -> None:
    created = create_table(properties={CODEC: "gzip"})
    catalog.delete(T)
    renamed = path_of(created["metadata-location"]).with_name("any.name.json")
    path_of(created["metadata-location"]).rename(renamed)
    body = {"name": "t", "metadata-location": f"file://{renamed}"}
    assert catalog.post("/namespaces/ns/register", body).json()["metadata"] == created["metadata"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\x1f\x8b", "ends in the midst"),
        (b"\x1f\x8bnonsense, not gzip at all", "not gzip"),
        (gzip.compress(b"{}", mtime=0)[:-4], "ends in the midst"),
        (gzip.compress(b" " * 200_000_000, 9, mtime=0), "unfolds to more than"),
    ],
)
def test_a_broken_or_explosive_file_is_refused(
    content: bytes, text: str, catalog: ApiClient, warehouse: Warehouse, namespace: str
) -> None:
    location = f"{warehouse.location}/x/metadata/00000-a.gz.metadata.json"
    path_of(location).parent.mkdir(parents=True)
    path_of(location).write_bytes(content)
    body = {"name": "t", "metadata-location": location}
    assert catalog.post("/namespaces/ns/register", body).refused(400, "BadRequestException", text)
    assert catalog.head(T).status == 404


@pytest.mark.parametrize("codec", ["zstd", "nonsense", " gzip"])
def test_an_unknown_codec_is_refused(codec: str, catalog: ApiClient, create_table: CreateTable, files: Files) -> None:
    body = {"name": "u", "schema": SCHEMA, "properties": {CODEC: codec}}
    create_table()
    before = files()
    assert catalog.post("/namespaces/ns/tables", body).refused(400, "BadRequestException", CODEC)
    assert commit_properties(catalog, {CODEC: codec}).refused(400, "BadRequestException", CODEC)
    assert files() == before


def test_metadata_files_are_written_where_the_property_says(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse
) -> None:
    folder = f"{warehouse.location}/elsewhere/md"
    created = create_table(properties={FOLDER: f"{folder}/"})
    assert created["metadata-location"].startswith(f"{folder}/00000-")
    assert LocationClaim.objects.get().location == folder
    assert catalog.get(T).json() == created
    next_one = commit_properties(catalog, {"a": "b"}).json()
    assert next_one["metadata-location"].startswith(f"{folder}/00001-")
    assert LocationClaim.objects.count() == 1
    inside = f"{created['metadata']['location']}/deep/md"
    back = commit_properties(catalog, {FOLDER: inside}).json()
    assert back["metadata-location"].startswith(f"{inside}/00002-")
    assert LocationClaim.objects.get().location == folder, "the folder still has files of the table"


def test_no_other_table_is_created_in_a_metadata_folder(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse
) -> None:
    folder = f"{warehouse.location}/elsewhere/md"
    first = create_table(properties={FOLDER: folder})
    create_table("u")
    for location in (folder, f"{folder}/below", f"{warehouse.location}/elsewhere"):
        body = {"name": "x", "schema": SCHEMA, "location": location}
        assert catalog.post("/namespaces/ns/tables", body).refused(409, "LocationAlreadyTaken")
        body = {"name": "x", "schema": SCHEMA, "properties": {FOLDER: location}}
        assert catalog.post("/namespaces/ns/tables", body).refused(409, "LocationAlreadyTaken")
    update = {"action": "set-properties", "updates": {FOLDER: first["metadata"]["location"]}}
    response = catalog.post("/namespaces/ns/tables/u", {"requirements": [], "updates": [update]})
    assert response.refused(409, "LocationAlreadyTaken")


@pytest.mark.parametrize("is_free", [True, False])
def test_a_metadata_folder_chosen_in_an_earlier_version_is_claimed(
    is_free: bool, catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse
) -> None:
    """Earlier versions ignored the property: the pointer is in the table's folder, the chosen folder is unclaimed."""
    folder = f"{warehouse.location}/elsewhere/md"
    created = create_table(properties={FOLDER: folder})
    inside = f"{created['metadata']['location']}/metadata/00000-x.metadata.json"
    path_of(inside).parent.mkdir(parents=True)
    path_of(created["metadata-location"]).rename(path_of(inside))
    Tabular.objects.update(metadata_location=inside)
    LocationClaim.objects.all().delete()
    if is_free:
        assert commit_properties(catalog, {"a": "b"}).json()["metadata-location"].startswith(f"{folder}/00001-")
        assert LocationClaim.objects.get().location == folder
    else:
        body = {"name": "x", "schema": SCHEMA, "location": folder}
        assert catalog.post("/namespaces/ns/tables", body).status == 200
        assert commit_properties(catalog, {"a": "b"}).refused(409, "LocationAlreadyTaken")


@pytest.mark.parametrize("folder", ["file:///etc", "s3://other/x", "{base}", "{base}/../out", "{base}/a//b", "x"])
def test_a_metadata_folder_outside_of_the_warehouse_is_refused(
    folder: str, catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse, files: Files
) -> None:
    create_table()
    before = files()
    chosen = folder.replace("{base}", warehouse.location)
    body = {"name": "u", "schema": SCHEMA, "properties": {FOLDER: chosen}}
    assert catalog.post("/namespaces/ns/tables", body).refused(400, "InvalidLocation")
    assert commit_properties(catalog, {FOLDER: chosen}).refused(400, "InvalidLocation")
    assert files() == before


def test_old_metadata_files_are_deleted_if_the_table_enables_it(
    catalog: ApiClient, create_table: CreateTable, files: Files
) -> None:
    create_table(properties={KEPT: "2", DELETE: "true"})
    *_, last = [commit_properties(catalog, {"n": str(number)}).json() for number in range(5)]
    log = [entry["metadata-file"] for entry in last["metadata"]["metadata-log"]]
    assert len(log) == 2
    kept = {path_of(location).name for location in (*log, last["metadata-location"])}
    assert {Path(file).name for file in files()} == kept


def test_old_metadata_files_stay_otherwise(catalog: ApiClient, create_table: CreateTable, files: Files) -> None:
    create_table(properties={KEPT: "1"})
    *_, last = [commit_properties(catalog, {"n": str(number)}).json() for number in range(3)]
    assert len(last["metadata"]["metadata-log"]) == 1
    assert len(files()) == 4


def test_only_own_metadata_files_are_deleted(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse, namespace: str
) -> None:
    """A registered file may list any file in the warehouse as its former version."""
    victim = create_table("victim")
    mine = create_table("t", properties={KEPT: "1", DELETE: "true"})
    catalog.delete(T)
    path = path_of(mine["metadata-location"])
    metadata = json.loads(path.read_bytes())
    outside = f"{warehouse.location}/loose.json"
    path_of(outside).write_text("precious")
    metadata["metadata-log"] = [
        {"metadata-file": location, "timestamp-ms": metadata["last-updated-ms"]}
        for location in (victim["metadata-location"], outside, "file:///etc/hostname", f"{path}.missing")
    ]
    path.write_text(json.dumps(metadata))
    body = {"name": "t", "metadata-location": mine["metadata-location"]}
    assert catalog.post("/namespaces/ns/register", body).status == 200
    assert commit_properties(catalog, {"a": "b"}).status == 200
    assert path_of(victim["metadata-location"]).exists()
    assert path_of(outside).exists()
    assert Path("/etc/hostname").exists()
    assert catalog.get("/namespaces/ns/tables/victim").json() == victim


@pytest.fixture
def deletions(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The files of each delete request to the store."""
    seen: list[list[str]] = []
    delete_many = LocalStore.delete_many

    def count(self: LocalStore, locations: list[str]) -> None:
        seen.append(list(locations))
        delete_many(self, locations)

    monkeypatch.setattr(LocalStore, "delete_many", count)
    return seen


@pytest.fixture
def with_log(catalog: ApiClient, create_table: CreateTable) -> Callable[[Callable[[str], list[str]]], str]:
    """Register `t` with the log `files_of(its metadata file)`, of which it keeps one; return its metadata file."""

    def register(files_of: Callable[[str], list[str]]) -> str:
        created = create_table("t", properties={KEPT: "1", DELETE: "true"})
        catalog.delete(T)
        own: str = created["metadata-location"]
        at = created["metadata"]["last-updated-ms"]
        log = [{"metadata-file": each, "timestamp-ms": at} for each in files_of(own)]
        path_of(own).write_text(json.dumps(created["metadata"] | {"metadata-log": log}))
        assert catalog.post("/namespaces/ns/register", {"name": "t", "metadata-location": own}).status == 200
        return own

    return register


def test_a_metadata_log_with_unusual_paths_deletes_nothing(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse, with_log: Any, files: Files, deletions: Any
) -> None:
    """Other spellings of other tables' files, of files that are no metadata, and of the current file."""
    victim = create_table("victim")["metadata-location"]
    others = ("data.parquet", "x.json", "metadata.json", "00001-x.metadata.json.bak")

    def files_of(own: str) -> list[str]:
        folder = own.rpartition("/")[0]
        location = folder.rpartition("/")[0]
        way = victim.removeprefix(warehouse.location)
        for name in others:
            path_of(f"{folder}/{name}").write_text("x")
        return [
            f"{location}/..{way}", f"{location}//..{way}", f"{location}/%2e%2e{way}", f"{location}/./a.metadata.json",
            f"{location}2/a.metadata.json", f"{location}.metadata.json", victim, victim.replace("file://", "file:"),
            victim.replace("file:///", "file:////"), victim.upper(), *(f"{folder}/{name}" for name in others),
            folder, f"{folder}/", location, warehouse.location, "", "*", f"{folder}/*", "s3://bucket/a.metadata.json",
            own, own.replace("file://", "file:"), f"{own}/", f"{folder}/00000-\x00.metadata.json",
        ]  # fmt: skip

    own = with_log(files_of)
    before = files()
    committed = commit_properties(catalog, {"a": "b"})
    assert committed.status == 200
    assert [entry["metadata-file"] for entry in committed.json()["metadata"]["metadata-log"]] == [own]
    assert deletions == []
    new = committed.json()["metadata-location"].removeprefix(f"{warehouse.location}/")
    assert [file for file in files() if not file.endswith(new)] == before


def test_own_files_of_a_registered_log_go(
    catalog: ApiClient, with_log: Any, deletions: list[list[str]], files: Files
) -> None:
    older: list[str] = []

    def files_of(own: str) -> list[str]:
        older.extend(f"{own.rpartition('/')[0]}/0000{n}-x.metadata.json" for n in range(3))
        for location in older:
            path_of(location).write_text("{}")
        older.append(older[0].replace("00000-x", "missing.gz"))
        return [*older, older[0].replace("file://", "file:")]

    with_log(files_of)
    assert commit_properties(catalog, {"a": "b"}).status == 200
    assert deletions == [older]
    assert len(files()) == 2


def test_one_request_deletes_the_expired_files_of_a_transaction(
    catalog: ApiClient, create_table: CreateTable, deletions: list[list[str]]
) -> None:
    for name in ("t", "u"):
        create_table(name, properties={KEPT: "1", DELETE: "true"})
    changes = [
        {
            "identifier": {"namespace": ["ns"], "name": name},
            "requirements": [],
            "updates": [{"action": "set-properties", "updates": {"n": "{n}"}}],
        }
        for name in ("t", "u")
    ]
    for number in range(3):
        body = json.loads(json.dumps({"table-changes": changes}).replace("{n}", str(number)))
        assert catalog.post("/transactions/commit", body).status == 204
    assert [len(each) for each in deletions] == [2, 2], "nothing expires with the first commit"


def test_one_commit_deletes_only_so_many(
    catalog: ApiClient, create_table: CreateTable, deletions: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert revisions.MAX_FILES_PER_DELETE == 1000, "the maximum of S3 for one request"
    monkeypatch.setattr("catalog.services.commit.revisions.MAX_FILES_PER_DELETE", 3)
    create_table(properties={DELETE: "true"})
    for number in range(6):
        commit_properties(catalog, {"n": str(number)})
    assert commit_properties(catalog, {KEPT: "1"}).status == 200
    assert [len(each) for each in deletions] == [3]


@pytest.mark.parametrize(
    "failure", [StoreUnavailable("The local store failed: Input/output error"), ZeroDivisionError()]
)
def test_failed_deletions_are_logged(
    catalog: ApiClient, create_table: CreateTable, files: Files, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, failure: Exception,
) -> None:  # fmt: skip
    create_table(properties={KEPT: "1", DELETE: "true"})
    commit_properties(catalog, {"n": "1"})

    def fail(*_: Any) -> None:
        raise failure

    monkeypatch.setattr(LocalStore, "delete_many", fail)
    with caplog.at_level(logging.WARNING, "icekeeper.catalog"):
        assert commit_properties(catalog, {"n": "2"}).status == 200
    assert catalog.get(T).json()["metadata"]["properties"]["n"] == "2"
    assert len(files()) == 3
    assert [record.message.partition(":")[0] for record in caplog.records] == ["orphaned metadata files remain"]


def test_files_in_the_metadata_folder_are_purged_too(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse, files: Files
) -> None:
    folder = f"{warehouse.location}/elsewhere/md"
    create_table(properties={KEPT: "1", DELETE: "true", FOLDER: folder})
    for number in range(3):
        assert commit_properties(catalog, {"n": str(number)}).status == 200
    assert len(list(path_of(folder).iterdir())) == len(files()) == 2
