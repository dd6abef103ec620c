"""Statements and object-store calls of each catalog endpoint equal the recorded counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.selectors.tables import load, metadata_cache, targets
from catalog.selectors.tables.metadata_cache import MetadataCache
from catalog.services import metrics_reports
from tests.catalog_fixtures import SCAN_REPORT, SCHEMA, snapshot
from tests.harness.statement_counts import counting, recorded, require_as_recorded
from tests.harness.wsgi_client import ApiClient, Response, call

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


Operations = dict[str, Callable[[], Response]]

COLUMNS = {"schema": SCHEMA}
HERE = {"namespace": ["ns"], "name": "u"}
THERE = HERE | {"name": "w"}
SET_PROPERTY = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}


def operations(catalog: ApiClient, table: dict[str, Any]) -> Operations:
    """Return every endpoint once, in a working order. `table` is the response to the creation of `ns.t`."""
    return {
        "config": lambda: call("GET", "/catalog/v1/config?warehouse=wh"),
        **of_namespaces(catalog, table["metadata"]["location"].rsplit("/", 1)[0]),
        **of_tables(catalog, table["metadata"]["location"]),
        **of_commits(catalog, table["metadata"]),
        **of_views(catalog, table["metadata"]["last-updated-ms"]),
        **of_tables_that_go(catalog, table["metadata-location"]),
        **of_generic_tables(ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))),
        "namespaces.drop_recursively": lambda: catalog.delete("/namespaces/n?recursive=true&purge=true"),
    }


def of_namespaces(catalog: ApiClient, at_warehouse: str) -> Operations:
    at_location = {"namespace": ["o"], "properties": {"location": f"{at_warehouse}/o"}}
    return {
        "namespaces.create": lambda: catalog.post("/namespaces", {"namespace": ["n"]}),
        "namespaces.create_nested": lambda: catalog.post("/namespaces", {"namespace": ["n", "m"]}),
        "namespaces.create_at_location": lambda: catalog.post("/namespaces", at_location),
        "namespaces.list_with_ids": lambda: catalog.get("/namespaces?returnUuids=true&returnProtectionStatus=true"),
        "namespaces.list": lambda: catalog.get("/namespaces"),
        "namespaces.list_children": lambda: catalog.get("/namespaces?parent=n"),
        "namespaces.load": lambda: catalog.get("/namespaces/n"),
        "namespaces.exists": lambda: catalog.head("/namespaces/n"),
        "namespaces.update_properties": lambda: catalog.post("/namespaces/n/properties", {"updates": {"a": "b"}}),
        "namespaces.drop": lambda: catalog.delete("/namespaces/n%1Fm"),
    }


def of_tables(catalog: ApiClient, location: str) -> Operations:
    at_location = {"name": "l", "location": f"{location}-chosen", **COLUMNS}
    staged = {"name": "v", "stage-create": True, **COLUMNS}
    return {
        "tables.list": lambda: catalog.get("/namespaces/ns/tables"),
        "tables.load": lambda: catalog.get("/namespaces/ns/tables/t"),
        "tables.load_again": lambda: catalog.get("/namespaces/ns/tables/t"),
        "tables.credentials": lambda: catalog.get("/namespaces/ns/tables/t/credentials"),
        "tables.exists": lambda: catalog.head("/namespaces/ns/tables/t"),
        "tables.create": lambda: catalog.post("/namespaces/ns/tables", {"name": "u", **COLUMNS}),
        "tables.create_at_location": lambda: catalog.post("/namespaces/n/tables", at_location),
        "tables.create_staged": lambda: catalog.post("/namespaces/ns/tables", staged),
    }


def of_commits(catalog: ApiClient, metadata: dict[str, Any]) -> Operations:
    """Return the endpoints of commits and of their results."""
    at = "/namespaces/ns/tables/t"
    requirements = [{"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}]
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    append = [{"action": "add-snapshot", "snapshot": snapshot(1, at=metadata["last-updated-ms"])}, main]
    once = {"updates": [{"action": "set-properties", "updates": {"c": "d"}}], "requirements": []}
    changed = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"e": "f"}}]}
    both = {"table-changes": [{"identifier": HERE | {"name": name}, **changed} for name in ("t", "u")]}
    key = "01a1ff95-e3cc-7831-a59b-b91c90243b4f"
    return {
        "tables.commit_properties": lambda: catalog.post(at, {"requirements": requirements, **SET_PROPERTY}),
        "tables.commit_snapshot": lambda: catalog.post(at, {"requirements": requirements, "updates": append}),
        "tables.commit_nothing": lambda: catalog.post(at, {"requirements": requirements, "updates": []}),
        "tables.metrics": lambda: catalog.post(f"{at}/metrics", SCAN_REPORT),
        "tables.load_refs": lambda: catalog.get(f"{at}?snapshots=refs"),
        "tables.load_not_modified": lambda: call("GET", f"{catalog.base}{at}", headers={"if-none-match": "*"}),
        "tables.commit_once": lambda: catalog.post(at, once, idempotency_key=key),
        "tables.transaction_of_two": lambda: catalog.post("/transactions/commit", both),
    }


def of_views(catalog: ApiClient, at: int) -> Operations:
    version = {
        "version-id": 1,
        "timestamp-ms": at,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        "default-namespace": ["ns"],
    }
    view = {"name": "view", "schema": SCHEMA, "view-version": version, "properties": {}}
    return {
        "views.create": lambda: catalog.post("/namespaces/ns/views", view),
        "views.load": lambda: catalog.get("/namespaces/ns/views/view"),
        "views.list": lambda: catalog.get("/namespaces/ns/views"),
        "views.exists": lambda: catalog.head("/namespaces/ns/views/view"),
        "views.replace": lambda: catalog.post("/namespaces/ns/views/view", SET_PROPERTY),
        "views.drop": lambda: catalog.delete("/namespaces/ns/views/view"),
    }


def of_tables_that_go(catalog: ApiClient, metadata_location: str) -> Operations:
    """Return the endpoints that drop and restore tables."""
    registered = {"name": "r", "metadata-location": metadata_location}
    return {
        "tables.rename": lambda: catalog.post("/tables/rename", {"source": HERE, "destination": THERE}),
        "tables.drop": lambda: catalog.delete("/namespaces/ns/tables/t"),
        "tables.drop_and_purge": lambda: catalog.delete("/namespaces/ns/tables/w?purgeRequested=true"),
        "tables.register": lambda: catalog.post("/namespaces/ns/register", registered),
    }


def of_generic_tables(generic: ApiClient) -> Operations:
    at = "/namespaces/ns/generic-tables"
    return {
        "generic_tables.create": lambda: generic.post(at, {"name": "u", "format": "lance"}),
        "generic_tables.list": lambda: generic.get(at),
        "generic_tables.load": lambda: generic.get(f"{at}/u"),
        "generic_tables.credentials": lambda: generic.get(f"{at}/u/credentials"),
        "generic_tables.rename": lambda: generic.post("/generic-tables/rename", {"source": HERE, "destination": THERE}),
        "generic_tables.drop": lambda: generic.delete(f"{at}/w?purgeRequested=false"),
    }


def test_counts_are_as_recorded(catalog: ApiClient, create_table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table()
    cold = MetadataCache(max_bytes=1_000_000)
    for module in (load, targets, metadata_cache, metrics_reports):
        monkeypatch.setattr(module, "metadata_cache", cold)
    counted: dict[str, dict[str, int]] = {}
    for name, operate in operations(catalog, table).items():
        with counting() as seen:
            response = operate()
        assert response.status < 400, (name, response.body)
        counted[name] = dict(sorted(seen.items()))
    require_as_recorded("catalog", counted)


def test_the_record_keeps_the_promises_of_the_design() -> None:
    for vendor, counted in ((vendor, apis["catalog"]) for vendor, apis in recorded().items()):
        for name in (
            "config", "tables.load", "tables.load_again", "tables.exists", "tables.list", "namespaces.list",
            "generic_tables.load", "generic_tables.list", "generic_tables.credentials", "tables.credentials",
            "namespaces.list_with_ids", "namespaces.list_children", "namespaces.load",
        ):  # fmt: skip
            assert counted[name]["statements"] == 1, f"{name} on {vendor} is one statement"
            # On local files a load checks whether the metadata file exists and does not read it.
            assert set(counted[name]) <= {"statements", "store.require_exists"}
        for name in ("tables.commit_properties", "tables.commit_snapshot"):
            assert counted[name]["store.put_new"] == 1
            assert set(counted[name]) == {"statements", "store.put_new"}
    assert recorded()["postgresql"]["catalog"]["tables.commit_snapshot"]["statements"] <= 2
    assert recorded()["postgresql"]["catalog"]["tables.metrics"] == {"statements": 1}
