"""Where metadata files lie and what is in them: gzip, `write.metadata.path`, what is deleted after a commit."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Tabular, TabularMetadata
from storage.models import Warehouse
from tests.catalog_fixtures import SCHEMA
from tests.wsgi_client import Answer, ApiClient

pytestmark = pytest.mark.django_db

MakeTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]
T = "/namespaces/ns/tables/t"
CODEC, FOLDER = "write.metadata.compression-codec", "write.metadata.path"
KEPT, DELETE = "write.metadata.previous-versions-max", "write.metadata.delete-after-commit.enabled"


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def commit_properties(catalog: ApiClient, updates: dict[str, str]) -> Answer:
    return catalog.post(T, {"requirements": [], "updates": [{"action": "set-properties", "updates": updates}]})


@pytest.mark.parametrize("codec", ["gzip", "GZIP"])
def test_metadata_may_be_compressed(codec: str, catalog: ApiClient, make_table: MakeTable) -> None:
    made = make_table(properties={CODEC: codec})
    assert made["metadata-location"].endswith(".gz.metadata.json")
    stored = gzip.decompress(path_of(made["metadata-location"]).read_bytes())
    assert json.loads(stored) == made["metadata"]
    assert bytes(TabularMetadata.objects.get().document) == stored, "the database keeps what is served"
    assert catalog.get(T).json() == made
    plain = commit_properties(catalog, {CODEC: "none"}).json()
    assert plain["metadata-location"].endswith(".metadata.json")
    assert ".gz." not in plain["metadata-location"]
    assert json.loads(path_of(plain["metadata-location"]).read_bytes()) == plain["metadata"]
    assert "/00001-" in plain["metadata-location"]


def test_a_compressed_file_can_be_registered(catalog: ApiClient, make_table: MakeTable) -> None:
    made = make_table(properties={CODEC: "gzip"})
    catalog.delete(T)
    renamed = path_of(made["metadata-location"]).with_name("any.name.json")
    path_of(made["metadata-location"]).rename(renamed)
    body = {"name": "t", "metadata-location": f"file://{renamed}"}
    assert catalog.post("/namespaces/ns/register", body).json()["metadata"] == made["metadata"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\x1f\x8b", "ends in the midst"),
        (b"\x1f\x8bnonsense, not gzip at all", "not gzip"),
        (gzip.compress(b"{}")[:-4], "ends in the midst"),
        (gzip.compress(b" " * 200_000_000, 9), "unfolds to more than"),
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
def test_an_unknown_codec_is_refused(codec: str, catalog: ApiClient, make_table: MakeTable, files: Files) -> None:
    body = {"name": "u", "schema": SCHEMA, "properties": {CODEC: codec}}
    make_table()
    before = files()
    assert catalog.post("/namespaces/ns/tables", body).refused(400, "BadRequestException", CODEC)
    assert commit_properties(catalog, {CODEC: codec}).refused(400, "BadRequestException", CODEC)
    assert files() == before


def test_metadata_files_go_where_the_property_says(
    catalog: ApiClient, make_table: MakeTable, warehouse: Warehouse
) -> None:
    folder = f"{warehouse.location}/elsewhere/md"
    made = make_table(properties={FOLDER: f"{folder}/"})
    assert made["metadata-location"].startswith(f"{folder}/00000-")
    assert LocationClaim.objects.get().location == folder
    assert catalog.get(T).json() == made
    next_one = commit_properties(catalog, {"a": "b"}).json()
    assert next_one["metadata-location"].startswith(f"{folder}/00001-")
    assert LocationClaim.objects.count() == 1
    inside = f"{made['metadata']['location']}/deep/md"
    back = commit_properties(catalog, {FOLDER: inside}).json()
    assert back["metadata-location"].startswith(f"{inside}/00002-")
    assert LocationClaim.objects.get().location == folder, "files of it still lie there"


def test_nobody_else_lies_in_a_metadata_folder(catalog: ApiClient, make_table: MakeTable, warehouse: Warehouse) -> None:
    folder = f"{warehouse.location}/elsewhere/md"
    first = make_table(properties={FOLDER: folder})
    make_table("u")
    for location in (folder, f"{folder}/below", f"{warehouse.location}/elsewhere"):
        body = {"name": "x", "schema": SCHEMA, "location": location}
        assert catalog.post("/namespaces/ns/tables", body).refused(409, "LocationAlreadyTaken")
        body = {"name": "x", "schema": SCHEMA, "properties": {FOLDER: location}}
        assert catalog.post("/namespaces/ns/tables", body).refused(409, "LocationAlreadyTaken")
    update = {"action": "set-properties", "updates": {FOLDER: first["metadata"]["location"]}}
    answer = catalog.post("/namespaces/ns/tables/u", {"requirements": [], "updates": [update]})
    assert answer.refused(409, "LocationAlreadyTaken")


@pytest.mark.parametrize("is_free", [True, False])
def test_a_folder_that_was_chosen_before_it_was_honoured_is_claimed(
    is_free: bool, catalog: ApiClient, make_table: MakeTable, warehouse: Warehouse
) -> None:
    """Earlier versions passed over the property: the pointer is in the table's folder, and nobody holds the other."""
    folder = f"{warehouse.location}/elsewhere/md"
    made = make_table(properties={FOLDER: folder})
    inside = f"{made['metadata']['location']}/metadata/00000-x.metadata.json"
    path_of(inside).parent.mkdir(parents=True)
    path_of(made["metadata-location"]).rename(path_of(inside))
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
    folder: str, catalog: ApiClient, make_table: MakeTable, warehouse: Warehouse, files: Files
) -> None:
    make_table()
    before = files()
    chosen = folder.replace("{base}", warehouse.location)
    body = {"name": "u", "schema": SCHEMA, "properties": {FOLDER: chosen}}
    assert catalog.post("/namespaces/ns/tables", body).refused(400, "InvalidLocation")
    assert commit_properties(catalog, {FOLDER: chosen}).refused(400, "InvalidLocation")
    assert files() == before


def test_old_metadata_files_go_when_the_table_says_so(catalog: ApiClient, make_table: MakeTable, files: Files) -> None:
    make_table(properties={KEPT: "2", DELETE: "true"})
    for number in range(5):
        last = commit_properties(catalog, {"n": str(number)}).json()
    log = [entry["metadata-file"] for entry in last["metadata"]["metadata-log"]]
    assert len(log) == 2
    kept = {path_of(location).name for location in (*log, last["metadata-location"])}
    assert {Path(file).name for file in files()} == kept


def test_old_metadata_files_stay_otherwise(catalog: ApiClient, make_table: MakeTable, files: Files) -> None:
    make_table(properties={KEPT: "1"})
    for number in range(3):
        last = commit_properties(catalog, {"n": str(number)}).json()
    assert len(last["metadata"]["metadata-log"]) == 1
    assert len(files()) == 4


def test_only_own_metadata_files_are_deleted(
    catalog: ApiClient, make_table: MakeTable, warehouse: Warehouse, namespace: str
) -> None:
    """A registered file may say that any file in the warehouse was its former version."""
    victim = make_table("victim")
    mine = make_table("t", properties={KEPT: "1", DELETE: "true"})
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
