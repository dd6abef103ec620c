"""Requests of Trino's OPA plugin, and operations in the format of batch-check."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.opa.fake_batch_check import CLIENT_ID, CLIENT_SECRET, WAREHOUSES, FakeBatchCheck, Operation

POLICIES = Path(__file__).parents[2] / "docker" / "opa"
OPTIONS = ("--authorization=basic", "--set", "caching.inter_query_builtin_cache.max_size_bytes=16777216")
"""As docs/trino-opa.md starts it."""

LAKE, OTHER = WAREHOUSES.values()
MAPPING = '{"lake": "lakehouse", "other": "other & 50%/ü+"}'
"""Trino's catalogs by the names of WAREHOUSES."""


def settings_for(fake: FakeBatchCheck, **more: str) -> dict[str, str]:
    return {
        "LAKEKEEPER_URL": fake.url,
        "LAKEKEEPER_TOKEN_ENDPOINT": f"{fake.url}/token",
        "LAKEKEEPER_CLIENT_ID": CLIENT_ID,
        "LAKEKEEPER_CLIENT_SECRET": CLIENT_SECRET,
        "TRINO_CATALOG_WAREHOUSES": MAPPING,
        "TRINO_ADMIN_USERS": "root, operator",
        **more,
    }


def question(operation: str, resource: Any = None, target: Any = None, *, user: str = "alice") -> dict[str, Any]:
    """Return the input of `trino/allow`."""
    action = {"operation": operation, "resource": resource, "targetResource": target}
    return _in_context({name: value for name, value in action.items() if value is not None}, user)


def batch(operation: str, *resources: Any, user: str = "alice") -> dict[str, Any]:
    """Return the input of `trino/batch`."""
    return _in_context({"operation": operation, "filterResources": list(resources)}, user)


def _in_context(action: dict[str, Any], user: str) -> dict[str, Any]:
    identity = {"user": user, "groups": ["analysts"]}
    context = {"identity": identity, "softwareStack": {"trinoVersion": "479"}, "queryId": "20261122_101010_00007_abcde"}
    return {"context": context, "action": action}


def catalog(name: str = "lake") -> dict[str, Any]:
    return {"catalog": {"name": name}}


def schema(name: str = "sales", catalog_name: str = "lake", **members: Any) -> dict[str, Any]:
    return {"schema": {"catalogName": catalog_name, "schemaName": name, **members}}


def table(
    name: str = "orders", schema_name: str = "sales", catalog_name: str = "lake", **members: Any
) -> dict[str, Any]:
    location = {"catalogName": catalog_name, "schemaName": schema_name}
    return {"table": {**location, "tableName": name, **members}}


def function(name: str, schema_name: str = "system", catalog_name: str = "lake") -> dict[str, Any]:
    return {"function": {"catalogName": catalog_name, "schemaName": schema_name, "functionName": name}}


def of_warehouse(action: str, warehouse: str = LAKE, **context: Any) -> dict[str, Any]:
    return {"warehouse": {"action": {"action": action, **context}, "warehouse-id": warehouse}}


def of_namespace(action: str, *levels: str, warehouse: str = LAKE, **context: Any) -> dict[str, Any]:
    path = list(levels or ("sales",))
    return {"namespace": {"action": {"action": action, **context}, "namespace": path, "warehouse-id": warehouse}}


def of_table(action: str, name: str = "orders", *levels: str, kind: str = "table") -> dict[str, Any]:
    location = {"namespace": list(levels or ("sales",)), "table": name, "warehouse-id": LAKE}
    return {kind: {"action": {"action": action}, **location}}


def of_view(action: str, name: str = "orders", *levels: str) -> dict[str, Any]:
    return of_table(action, name, *levels, kind="view")


def in_order(operations: Iterable[Operation]) -> list[str]:
    """Return the operations as sorted text, because neither their order nor that of their members matters."""
    return sorted(json.dumps(operation, sort_keys=True) for operation in operations)
