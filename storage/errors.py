"""Refusals that everything above the storage room gives, too."""

from __future__ import annotations

from icekeeper.kernel.errors import NoSuchWarehouse


def no_such_warehouse(warehouse_id: object) -> NoSuchWarehouse:
    """For an id, or the name that was asked for."""
    return NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")
