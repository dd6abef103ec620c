"""Errors of object stores and warehouses."""

from __future__ import annotations

from icekeeper.kernel.errors.types import CatalogError, NoSuchWarehouse


def no_such_warehouse(warehouse_id: object) -> NoSuchWarehouse:
    """Return the error for the id or name of a warehouse that does not exist."""
    return NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")


class StoreUnavailable(CatalogError):
    """The store failed or cannot be reached; the caller may retry."""

    status, wire_type, retry_after = 503, "StorageUnavailableException", 5


class StoreRefused(CatalogError):
    """The store rejected the request, which an operator must fix. The reason is not shown to clients.

    412 as in Lakekeeper: clients would read 403 as missing permissions of their own.
    """

    status, wire_type = 412, "StorageRefusedException"


class StoreAccessDenied(StoreRefused):
    """The store rejected the warehouse's credential, or the credential lacks permissions."""

    wire_type = "PermissionDenied"
