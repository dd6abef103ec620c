"""Statements and object-store calls of each endpoint of the catalog are those of the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.selectors import tabulars, targets
from catalog.selectors.metadata_cache import MetadataCache
from catalog.services import metrics
from tests.catalog_fixtures import SCAN_REPORT, SCHEMA, snapshot
from tests.statement_counts import counting, recorded, require_as_recorded
from tests.wsgi_client import Answer, ApiClient, call

pytestmark = pytest.mark.django_db


def operations(catalog: ApiClient, table: dict[str, Any]) -> dict[str, Callable[[], Answer]]:
    """Every endpoint once, in an order in which each works."""
    at = table["metadata"]["last-updated-ms"]
    uuid = table["metadata"]["table-uuid"]
    at_warehouse = table["metadata"]["location"].rsplit("/", 1)[0]
    columns = {"schema": SCHEMA}
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    append = [{"action": "add-snapshot", "snapshot": snapshot(1, at=at)}, main]
    here = {"namespace": ["ns"], "name": "u"}
    view = {
        "name": "view",
        "schema": SCHEMA,
        "view-version": {
            "version-id": 1,
            "timestamp-ms": at,
            "schema-id": 0,
            "summary": {},
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
            "default-namespace": ["ns"],
        },
        "properties": {},
    }
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    at_location = {"name": "l", "location": f"{table['metadata']['location']}-chosen", **columns}
    staged = {"name": "v", "stage-create": True, **columns}

    def commit(updates: list[Any]) -> Answer:
        requirements = [{"type": "assert-table-uuid", "uuid": uuid}]
        return catalog.post("/namespaces/ns/tables/t", {"requirements": requirements, "updates": updates})

    return {
        "config": lambda: call("GET", "/catalog/v1/config?warehouse=wh"),
        "namespaces.create": lambda: catalog.post("/namespaces", {"namespace": ["n"]}),
        "namespaces.create_nested": lambda: catalog.post("/namespaces", {"namespace": ["n", "m"]}),
        "namespaces.create_at_location": lambda: catalog.post(
            "/namespaces", {"namespace": ["o"], "properties": {"location": f"{at_warehouse}/o"}}
        ),
        "namespaces.list_with_ids": lambda: catalog.get("/namespaces?returnUuids=true&returnProtectionStatus=true"),
        "namespaces.list": lambda: catalog.get("/namespaces"),
        "namespaces.list_children": lambda: catalog.get("/namespaces?parent=n"),
        "namespaces.load": lambda: catalog.get("/namespaces/n"),
        "namespaces.exists": lambda: catalog.head("/namespaces/n"),
        "namespaces.update_properties": lambda: catalog.post("/namespaces/n/properties", {"updates": {"a": "b"}}),
        "namespaces.drop": lambda: catalog.delete("/namespaces/n%1Fm"),
        "tables.list": lambda: catalog.get("/namespaces/ns/tables"),
        "tables.load": lambda: catalog.get("/namespaces/ns/tables/t"),
        "tables.load_again": lambda: catalog.get("/namespaces/ns/tables/t"),
        "tables.credentials": lambda: catalog.get("/namespaces/ns/tables/t/credentials"),
        "tables.exists": lambda: catalog.head("/namespaces/ns/tables/t"),
        "tables.create": lambda: catalog.post("/namespaces/ns/tables", {"name": "u", **columns}),
        "tables.create_at_location": lambda: catalog.post("/namespaces/n/tables", at_location),
        "tables.create_staged": lambda: catalog.post("/namespaces/ns/tables", staged),
        "tables.commit_properties": lambda: commit([{"action": "set-properties", "updates": {"a": "b"}}]),
        "tables.commit_snapshot": lambda: commit(append),
        "tables.commit_nothing": lambda: commit([]),
        "tables.metrics": lambda: catalog.post("/namespaces/ns/tables/t/metrics", SCAN_REPORT),
        "tables.load_refs": lambda: catalog.get("/namespaces/ns/tables/t?snapshots=refs"),
        "tables.load_not_modified": lambda: call(
            "GET", f"{catalog.base}/namespaces/ns/tables/t", headers={"if-none-match": "*"}
        ),
        "tables.commit_once": lambda: catalog.post(
            "/namespaces/ns/tables/t",
            {"requirements": [], "updates": [{"action": "set-properties", "updates": {"c": "d"}}]},
            idempotency_key="01a1ff95-e3cc-7831-a59b-b91c90243b4f",
        ),
        "tables.transaction_of_two": lambda: catalog.post(
            "/transactions/commit",
            {
                "table-changes": [
                    {
                        "identifier": here | {"name": name},
                        "requirements": [],
                        "updates": [{"action": "set-properties", "updates": {"e": "f"}}],
                    }
                    for name in ("t", "u")
                ]
            },
        ),
        "views.create": lambda: catalog.post("/namespaces/ns/views", view),
        "views.load": lambda: catalog.get("/namespaces/ns/views/view"),
        "views.list": lambda: catalog.get("/namespaces/ns/views"),
        "views.exists": lambda: catalog.head("/namespaces/ns/views/view"),
        "views.replace": lambda: catalog.post(
            "/namespaces/ns/views/view", {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        ),
        "views.drop": lambda: catalog.delete("/namespaces/ns/views/view"),
        "tables.rename": lambda: catalog.post("/tables/rename", {"source": here, "destination": here | {"name": "w"}}),
        "tables.drop": lambda: catalog.delete("/namespaces/ns/tables/t"),
        "tables.drop_and_purge": lambda: catalog.delete("/namespaces/ns/tables/w?purgeRequested=true"),
        "tables.register": lambda: catalog.post(
            "/namespaces/ns/register", {"name": "r", "metadata-location": table["metadata-location"]}
        ),
        "generic_tables.create": lambda: generic.post(
            "/namespaces/ns/generic-tables", {"name": "u", "format": "lance"}
        ),
        "generic_tables.list": lambda: generic.get("/namespaces/ns/generic-tables"),
        "generic_tables.load": lambda: generic.get("/namespaces/ns/generic-tables/u"),
        "generic_tables.credentials": lambda: generic.get("/namespaces/ns/generic-tables/u/credentials"),
        "generic_tables.rename": lambda: generic.post(
            "/generic-tables/rename", {"source": here, "destination": here | {"name": "w"}}
        ),
        "generic_tables.drop": lambda: generic.delete("/namespaces/ns/generic-tables/w?purgeRequested=false"),
        "namespaces.drop_recursively": lambda: catalog.delete("/namespaces/n?recursive=true&purge=true"),
    }  # fmt: skip


def test_counts_are_as_recorded(catalog: ApiClient, make_table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table()
    cold = MetadataCache(max_bytes=1_000_000)
    for module in (tabulars, targets, metrics):
        monkeypatch.setattr(module, "metadata_cache", cold)
    counted: dict[str, dict[str, int]] = {}
    for name, operate in operations(catalog, table).items():
        with counting() as seen:
            answer = operate()
        assert answer.status < 400, (name, answer.body)
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
            # On local files a load looks whether the metadata file is there, and reads nothing of it.
            assert set(counted[name]) <= {"statements", "store.require_exists"}
        for name in ("tables.commit_properties", "tables.commit_snapshot"):
            assert counted[name]["store.put_new"] == 1
            assert set(counted[name]) == {"statements", "store.put_new"}
    assert recorded()["postgresql"]["catalog"]["tables.commit_snapshot"]["statements"] <= 2
    assert recorded()["postgresql"]["catalog"]["tables.metrics"] == {"statements": 1}
