"""Loads with smaller responses: 304 for an unchanged version, and `snapshots=refs` for referenced snapshots only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.catalog_fixtures import snapshot
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = pytest.mark.django_db

CreateTable = Callable[..., dict[str, Any]]
T = "/namespaces/ns/tables/t"


def set_property(catalog: ApiClient, value: str) -> Response:
    update = {"action": "set-properties", "updates": {"p": value}}
    return catalog.post(T, {"requirements": [], "updates": [update]})


def test_every_response_with_a_version_has_its_etag(
    catalog: ApiClient, namespace: str, create_table: CreateTable
) -> None:
    from tests.catalog_fixtures import SCHEMA

    created = catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
    loaded = catalog.get(T)
    assert created.headers["ETag"] == loaded.headers["ETag"]
    committed = set_property(catalog, "1")
    assert committed.headers["ETag"] == catalog.get(T).headers["ETag"] != loaded.headers["ETag"]
    location = catalog.get(T).json()["metadata-location"]
    catalog.delete(T)
    registered = catalog.post("/namespaces/ns/register", {"name": "t", "metadata-location": location})
    assert registered.headers["ETag"] == committed.headers["ETag"]
    staged = catalog.post("/namespaces/ns/tables", {"name": "s", "schema": SCHEMA, "stage-create": True})
    assert "ETag" not in staged.headers


def test_an_unchanged_version_gets_304(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    etag = catalog.get(T).headers["ETag"]
    for known in (etag, f"W/{etag}", f'"x", {etag}', f'W/"x",W/{etag}', "*"):
        response = catalog.get(T, if_none_match=known)
        assert (response.status, response.body) == (304, b"")
        assert response.headers["ETag"] == etag
        assert "Content-Type" not in response.headers
    for other in ('"x"', "x", "", etag[1:-1]):
        assert catalog.get(T, if_none_match=other).status == 200
    set_property(catalog, "1")
    assert catalog.get(T, if_none_match=etag).json() == catalog.get(T).json()


def test_no_304_unless_requested_and_none_for_deleted_objects(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    etag = catalog.get(T).headers["ETag"]
    assert catalog.get(T).status == 200
    catalog.delete(T)
    assert catalog.get(T, if_none_match=etag).refused(404, "NoSuchTableException")
    create_table()
    assert catalog.get(T, if_none_match=etag).status == 200, "another table of the same name"


def test_all_and_refs_are_different_responses(catalog: ApiClient, create_table: CreateTable) -> None:
    at = create_table()["metadata"]["last-updated-ms"]
    updates: list[dict[str, Any]] = []
    for number in (1, 2, 3):
        parent = number - 1 or None
        added = snapshot(number, parent=parent, sequence_number=number, at=at)
        updates.append({"action": "add-snapshot", "snapshot": added})
    for name, kind, number in (("main", "branch", 3), ("old", "tag", 1)):
        updates.append({"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": number})
    assert catalog.post(T, {"requirements": [], "updates": updates}).status == 200

    whole, refs = catalog.get(f"{T}?snapshots=all"), catalog.get(f"{T}?snapshots=refs")
    assert whole.body == catalog.get(T).body
    assert [each["snapshot-id"] for each in whole.json()["metadata"]["snapshots"]] == [1, 2, 3]
    assert [each["snapshot-id"] for each in refs.json()["metadata"]["snapshots"]] == [1, 3]
    without = [{**each.json()["metadata"], "snapshots": None} for each in (whole, refs)]
    assert without[0] == without[1], "all other members are included, the snapshot log too"
    assert whole.headers["ETag"] != refs.headers["ETag"]
    assert catalog.get(f"{T}?snapshots=refs", if_none_match=refs.headers["ETag"]).status == 304
    assert catalog.get(f"{T}?snapshots=refs", if_none_match=whole.headers["ETag"]).status == 200
    assert catalog.get(T, if_none_match=refs.headers["ETag"]).status == 200
    assert catalog.get(f"{T}?snapshots=refs").body == refs.body, "the same from the cache"
    assert catalog.get(f"{T}?snapshots=nonsense").body == whole.body


def test_a_deleted_metadata_file_is_noticed(catalog: ApiClient, create_table: CreateTable) -> None:
    location = create_table()["metadata-location"]
    etag = catalog.get(T).headers["ETag"]
    Path(location.removeprefix("file://")).unlink()
    text = f"Failed to open input stream for file: {location}"
    assert catalog.get(T).refused(404, "NotFoundException", text)
    assert catalog.get(T, if_none_match=etag).refused(404, "NotFoundException", text)
    assert catalog.head(T).status == 204


def test_a_location_in_the_short_spelling_is_found(catalog: ApiClient, namespace: str, warehouse: Any) -> None:
    from tests.catalog_fixtures import SCHEMA

    location = warehouse.location.replace("file://", "file:") + "/chosen"
    created = catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, "location": location}).json()
    assert created["metadata-location"].startswith(f"{location}/metadata/")
    assert catalog.get(T).json() == created
    Path(created["metadata-location"].removeprefix("file:")).unlink()
    assert catalog.get(T).refused(404, "NotFoundException")


def test_a_warehouse_may_do_without_that_look(catalog: ApiClient, create_table: CreateTable, warehouse: Any) -> None:
    created = create_table()
    warehouse.storage_profile |= {"verify-metadata-on-load": False}
    warehouse.save()
    Path(created["metadata-location"].removeprefix("file://")).unlink()
    assert catalog.get(T).json() == created
