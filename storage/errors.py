"""What the rooms of storage and everything above them refuse with."""

from __future__ import annotations

from icekeeper.kernel.errors.types import CatalogError, NoSuchWarehouse


def no_such_warehouse(warehouse_id: object) -> NoSuchWarehouse:
    """For an id, or the name that was asked for."""
    return NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")


class StoreUnavailable(CatalogError):
    """The store refused or could not be reached; the caller may try again."""

    status, wire_type, retry_after = 503, "StorageUnavailableException", 5


class StoreRefused(CatalogError):
    """The store answered and will not do it, for a reason that is no business of the client's; an operator must look.

    The peer answers so, too. Not 403: clients would take it for their own rights.
    """

    status, wire_type = 412, "StorageRefusedException"


class StoreAccessDenied(StoreRefused):
    """The store knows the warehouse's credential not, or lets it do too little."""

    wire_type = "PermissionDenied"
