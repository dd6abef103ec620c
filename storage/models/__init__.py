"""Django finds models through this package."""

from storage.models.secret import Secret
from storage.models.warehouse import Warehouse

__all__ = ["Secret", "Warehouse"]
