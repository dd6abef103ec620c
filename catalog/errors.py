"""Refusals of the catalog. The texts are those that Iceberg's compatibility kit and its clients look for."""

from __future__ import annotations

from catalog.identifiers import Identifier, Levels, dotted
from icekeeper.kernel.errors import AlreadyExists, BadRequest, Conflict, NoSuchNamespace, NoSuchTable, NoSuchWarehouse


class LocationAlreadyTaken(Conflict):
    wire_type = "LocationAlreadyTaken"


class Protected(Conflict):
    wire_type = "ProtectedTabularDeletionWithoutForce"


class NamespaceProtected(Conflict):
    wire_type = "NamespaceProtected"


class WarehouseNotEmpty(Conflict):
    wire_type = "WarehouseNotEmpty"


class WarehouseProtected(Conflict):
    wire_type = "WarehouseProtected"


class FormatVersionNotAllowed(BadRequest):
    wire_type = "FormatVersionNotAllowed"


class ReservedNamespace(BadRequest):
    wire_type = "ReservedNamespace"


def no_such_warehouse(warehouse_id: object) -> NoSuchWarehouse:
    return NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")


def no_such_namespace(levels: Levels) -> NoSuchNamespace:
    return NoSuchNamespace(f"Namespace does not exist: {dotted(levels)}")


def no_such_table(table: Identifier) -> NoSuchTable:
    return NoSuchTable(f"Table does not exist: {table}")


def already_exists(kind: str, wanted: str, identifier: Identifier) -> AlreadyExists:
    """`kind` is what is there, `wanted` what was to be made: each has a sentence of its own."""
    noun = {"table": "Table", "view": "View", "generic-table": "Generic table"}[kind]
    if kind == wanted:
        return AlreadyExists(f"{noun} already exists: {identifier}")
    return AlreadyExists(f"{noun} with same name already exists: {identifier}")
