"""Builders of requests to `permissions/check` and `permissions/explain`."""

from __future__ import annotations

from typing import Any

from tenancy.models import Securable
from tests.authz.permission_fixtures import Things

T = Securable.Type
KINDS = [T.SERVER, T.PROJECT, T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE]
IN_WAREHOUSES = KINDS[2:]
TABULARS = KINDS[4:]
IN_PROJECTS = [T.ROLE, T.TAG]
EXPLAINED = [*KINDS, *IN_PROJECTS]
ASKED = [("/check", kind) for kind in KINDS] + [("/explain", kind) for kind in EXPLAINED]
"""Routes, and what each is asked about."""
NAMES = {T.TABLE: "a", T.VIEW: "v", T.GENERIC_TABLE: "g"}
A_WORD = {
    T.SERVER: "create_project",
    T.PROJECT: "create_warehouse",
    T.WAREHOUSE: "modify_storage",
    T.NAMESPACE: "create_table",
    T.TABLE: "write_data",
    T.VIEW: "commit",
    T.GENERIC_TABLE: "write_data",
    T.ROLE: "update",
    T.TAG: "update",
}


def by_id(things: Things, kind: Securable.Type, object_id: str | None = None) -> dict[str, Any]:
    if kind is T.SERVER:
        return {}
    if kind is T.PROJECT:
        return {} if object_id is None else {"project-id": object_id}
    warehouse_id = str(things.warehouse.pk)
    named = object_id or things.public_id(kind)
    if kind is T.WAREHOUSE:
        return {"warehouse-id": named}
    if kind in IN_PROJECTS:
        return {"role-id" if kind is T.ROLE else "tag-definition-id": named}
    return {"warehouse-id": warehouse_id, "namespace-id" if kind is T.NAMESPACE else "table-id": named}


def by_name(things: Things, kind: Securable.Type, name: str = "") -> dict[str, Any]:
    location: dict[str, Any] = {"warehouse-id": str(things.warehouse.pk), "namespace": ["closed", "deep"]}
    if kind is T.NAMESPACE:
        return location | ({"namespace": [name]} if name else {})
    return location | {"table": name or NAMES[kind]}


def asked(
    kind: Securable.Type, word: str, location: dict[str, Any], identity: dict[str, str] | None = None
) -> dict[str, Any]:
    whose = {} if identity is None else {"identity": identity}
    return {"operation": {kind.value: {"action": word, **location}}, **whose}
