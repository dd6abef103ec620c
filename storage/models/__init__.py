"""Django finds models through this package."""

from storage.models.warehouse import Warehouse

__all__ = ["Warehouse"]
