"""`manage.py register_tables` for names that exist: newer commits are kept, `--overwrite` replaces the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import Tabular
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient
from tests.management.register_tables_fixtures import CreateTable, entry, listed, orphans, register, rows

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]

__all__ = ["listed", "orphans", "register"]


def commit(catalog: ApiClient, table: str, **properties: str) -> str:
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": properties}]}
    location: str = catalog.post(f"/namespaces/ns/tables/{table}", body).json()["metadata-location"]
    return location


def test_a_table_with_newer_commits_is_never_reverted(
    catalog: ApiClient, create_table: CreateTable, listed: Any, register: Any
) -> None:
    first = create_table("t")["metadata-location"]
    newest = commit(catalog, "t", a="1")
    for options in ((), ("--overwrite",), ("--dry-run", "--overwrite")):
        done = register(listed(entry("t", first, "ns")), *options)
        assert (done.failure, done.counts("tables")) == (None, "0 new, 0 replaced, 1 unchanged, 0 failed")
    assert catalog.get("/namespaces/ns/tables/t").json()["metadata-location"] == newest


def test_a_table_that_is_newer_than_its_log_is_not_reverted(
    catalog: ApiClient, create_table: CreateTable, listed: Any, register: Any, everything: Callable[[], Fingerprint]
) -> None:
    first = create_table("t", properties={"write.metadata.previous-versions-max": "1"})["metadata-location"]
    *_, newest = [commit(catalog, "t", a=str(number)) for number in range(3)]
    before = everything()
    for options, message in (
        ((), "with other metadata"),
        (("--overwrite",), f"{first} is not newer than {newest}"),
        (("--overwrite", "--dry-run"), f"{first} is not newer than {newest}"),
    ):
        done = register(listed(entry("t", first, "ns")), *options)
        assert [found["error"]["type"] for found in done.report] == ["AlreadyExistsException"]
        assert message in done.err
        assert everything() == before


def test_files_of_a_table_with_newer_commits_are_recognised_in_any_spelling(
    catalog: ApiClient, create_table: CreateTable, listed: Any, register: Any, everything: Callable[[], Fingerprint]
) -> None:
    first = create_table("t")["metadata-location"]
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    short = first.replace("file:///", "file:/")
    assert register(listed(entry("t", short, "ns"))).counts("tables").startswith("1 new")
    second = commit(catalog, "t", a="1")
    commit(catalog, "t", a="2")
    log = catalog.get("/namespaces/ns/tables/t").json()["metadata"]["metadata-log"]
    assert [each["metadata-file"] for each in log] == [short, second]
    before = everything()
    for spelled in (first, short, second, second.replace("file:///", "file:/")):
        for options in ((), ("--overwrite",)):
            done = register(listed(entry("t", spelled, "ns")), *options)
            assert (done.failure, done.counts("tables")) == (None, "0 new, 0 replaced, 1 unchanged, 0 failed")
            assert everything() == before


def test_a_log_that_names_files_outside_the_warehouse_is_no_hindrance(
    catalog: ApiClient, create_table: CreateTable, listed: Any, register: Any
) -> None:
    created = create_table("t")
    path = Path(created["metadata-location"].removeprefix("file://"))
    moved = {
        "timestamp-ms": created["metadata"]["last-updated-ms"],
        "metadata-file": "s3://before/t/00000.metadata.json",
    }
    path.write_text(json.dumps(created["metadata"] | {"metadata-log": [moved]}))
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    register(listed(entry("t", created["metadata-location"], "ns")))
    newest = commit(catalog, "t", a="1")
    for options in ((), ("--overwrite",)):
        done = register(listed(entry("t", created["metadata-location"], "ns")), *options)
        assert (done.failure, done.counts("tables")) == (None, "0 new, 0 replaced, 1 unchanged, 0 failed")
    assert catalog.get("/namespaces/ns/tables/t").json()["metadata-location"] == newest


@pytest.mark.parametrize("change", ["version", "properties"])
def test_a_view_is_replaced_by_a_newer_file_and_never_by_an_older_one(
    catalog: ApiClient, namespace: str, listed: Any, register: Any, everything: Callable[[], Fingerprint], change: str
) -> None:
    version = {
        "version-id": 1, "schema-id": 0, "timestamp-ms": 1_700_000_000_000, "summary": {}, "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    }  # fmt: skip
    created = catalog.post("/namespaces/ns/views", {"name": "v", "schema": SCHEMA, "view-version": version})
    first = created.json()["metadata-location"]
    other = version | {"timestamp-ms": 1_700_000_000_001, "summary": {"a": "b"}, "version-id": 2}
    other["representations"] = [{"type": "sql", "sql": "select 2", "dialect": "spark"}]
    updates = {
        "version": [
            {"action": "add-view-version", "view-version": other},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
        "properties": [{"action": "set-properties", "updates": {"a": "b"}}],
    }[change]
    newest = catalog.post("/namespaces/ns/views/v", {"updates": updates}).json()["metadata-location"]
    before = everything()
    older, newer = ({**entry("v", location, "ns"), "type": "view"} for location in (first, newest))
    errors = ""
    for options in ((), ("--overwrite",), ("--overwrite", "--dry-run")):
        done = register(listed(older), *options)
        assert [found["error"]["type"] for found in done.report] == ["AlreadyExistsException"]
        assert everything() == before
        errors = done.err
    assert f"{first} is not newer than {newest}" in errors
    assert catalog.delete("/namespaces/ns/views/v").status == 204
    assert register(listed(older)).counts("views").startswith("1 new")
    assert register(listed(newer)).counts("views").endswith("1 failed")
    assert register(listed(newer), "--overwrite").counts("views") == "0 new, 1 replaced, 0 unchanged, 0 failed"
    assert catalog.get("/namespaces/ns/views/v").json()["metadata-location"] == newest


def test_of_files_of_one_time_without_numbers_none_replaces_the_other(
    catalog: ApiClient, create_table: CreateTable, listed: Any, register: Any
) -> None:
    created = create_table("t")
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    first = Path(created["metadata-location"].removeprefix("file://"))
    one, two = (first.with_name(f"{name}.metadata.json") for name in ("one", "two"))
    one.write_text(json.dumps(created["metadata"]))
    two.write_text(json.dumps(created["metadata"] | {"properties": {"a": "b"}}))
    register(listed(entry("t", f"file://{one}", "ns")))
    done = register(listed(entry("t", f"file://{two}", "ns")), "--overwrite")
    assert f"file://{two} is not newer than file://{one}" in done.err
    two.write_text(json.dumps(created["metadata"] | {"last-updated-ms": created["metadata"]["last-updated-ms"] + 1}))
    done = register(listed(entry("t", f"file://{two}", "ns")), "--overwrite")
    assert done.counts("tables") == "0 new, 1 replaced, 0 unchanged, 0 failed"


def test_overwrite_replaces_a_table_with_other_metadata(
    catalog: ApiClient, create_table: CreateTable, listed: Any, register: Any
) -> None:
    first = create_table("t")["metadata-location"]
    newest = commit(catalog, "t", a="1")
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    assert register(listed(entry("t", first, "ns"))).failure is None
    refused = register(listed(entry("t", newest, "ns")))
    assert [found["error"]["type"] for found in refused.report] == ["AlreadyExistsException"]
    assert "with other metadata" in refused.err
    state = rows()
    checked = register(listed(entry("t", newest, "ns")), "--dry-run", "--overwrite")
    assert checked.counts("tables") == "0 new, 1 replaced, 0 unchanged, 0 failed"
    assert rows() == state
    replaced = register(listed(entry("t", newest, "ns")), "--overwrite")
    assert (replaced.failure, replaced.counts("tables")) == (None, "0 new, 1 replaced, 0 unchanged, 0 failed")
    assert catalog.get("/namespaces/ns/tables/t").json()["metadata-location"] == newest
    assert Tabular.objects.count() == 1


def test_overwrite_does_not_take_another_spelling_for_the_same_table(
    catalog: ApiClient, orphans: Any, listed: Any, register: Any
) -> None:
    lower, upper = orphans(2)
    done = register(listed({**lower, "name": "t"}, {**upper, "name": "T"}), "--overwrite")
    assert [(found["name"], found["error"]["type"]) for found in done.report] == [("T", "AlreadyExistsException")]
    loaded = catalog.get("/namespaces/sales%1Feu/tables/t").json()
    assert loaded["metadata-location"] == lower["metadata-location"]


def test_of_two_entries_with_one_name_the_first_counts_and_with_overwrite_the_last(
    catalog: ApiClient, orphans: Any, listed: Any, register: Any
) -> None:
    first, last = orphans(2)
    path = listed({**first, "name": "t"}, {**last, "name": "t"})
    assert [found["metadata-location"] for found in register(path).report] == [last["metadata-location"]]
    assert register(path, "--overwrite").failure is None
    loaded = catalog.get("/namespaces/sales%1Feu/tables/t").json()
    assert loaded["metadata-location"] == last["metadata-location"]
