"""Errors of object stores and warehouses."""

from __future__ import annotations

from icekeeper.kernel.errors.types import CatalogError, NoSuchWarehouse


def no_such_warehouse(warehouse_id: object) -> NoSuchWarehouse:
    """For an id, or the name that was asked for."""
    return NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")


class StoreUnavailable(CatalogError):
    """The store refused or could not be reached; the caller may try again."""

    status, wire_type, retry_after = 503, "StorageUnavailableException", 5


class StoreRefused(CatalogError):
    """The store rejected the request for a reason that is not shown to clients; an operator must look at it.

    As in Lakekeeper. Not 403: clients would take it for their own permissions.
    """

    status, wire_type = 412, "StorageRefusedException"


class StoreAccessDenied(StoreRefused):
    """The store knows the warehouse's credential not, or lets it do too little."""

    wire_type = "PermissionDenied"
