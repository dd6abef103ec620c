"""Fixtures of tests of tags: one object of each type that can have tags, and operations on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Namespace, Tabular
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient, Response

management = ApiClient("/management/v1")
NO_ONE = "0198e0f4-3f6e-7c31-8c7d-000000000000"
ALL = ["warehouse", "namespace", "table", "view", "generic-table", "column"]
NESTED: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {
            "id": 2,
            "name": "address",
            "required": False,
            "type": {"type": "struct", "fields": [{"id": 5, "name": "zip", "type": "string", "required": False}]},
        },
        {
            "id": 3,
            "name": "phones",
            "required": False,
            "type": {"type": "list", "element-id": 6, "element": "string", "element-required": False},
        },
        {"id": 4, "name": "a/b %", "type": "string", "required": False},
    ],
}


@pytest.fixture
def things(catalog: ApiClient, create_table: Callable[..., dict[str, Any]]) -> dict[str, str]:
    """Paths of one object of each type in the management API, below its warehouse; created in the namespace `ns`."""
    table = create_table("t", schema=NESTED)["metadata"]["table-uuid"]
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    assert generic.post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}).status == 200
    version = {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    }
    view = {"name": "v", "schema": SCHEMA, "view-version": version, "properties": {}}
    created = catalog.post("/namespaces/ns/views", view)
    assert created.status == 200, created.body
    return {
        "warehouse": "",
        "namespace": f"/namespace/{Namespace.objects.get().pk}",
        "table": f"/table/{table}",
        "view": f"/view/{created.json()['metadata']['view-uuid']}",
        "generic-table": f"/generic-table/{Tabular.objects.get(name='g').uuid}",
        "column": f"/table/{table}/column/id",
    }


def define(name: str = "pii", kind: str = "free-text", scope: list[str] = ALL, **more: Any) -> str:
    response = management.post("/tag-definition", {"name": name, "scope": scope, "value-kind": kind, **more})
    assert response.status == 201, response.body
    return str(response.json()["id"])


def good(response: Response) -> Any:
    assert response.status in {200, 204}, response.body
    return response.json() if response.body else None


def put(api: ApiClient, target: str, value: str | None = "x", name: str = "pii") -> Any:
    return good(api.put(f"{target}/tags/{name}", {} if value is None else {"value": value}))


def shown(api: ApiClient, target: str, **query: str) -> list[tuple[str, Any, Any]]:
    """Return name, value and the object that it is inherited from."""
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    tags = good(api.get(f"{target}/tags?{asked}"))["tags"]
    return [(each["name"], each.get("value"), each.get("inherited-from", {}).get("type")) for each in tags]
