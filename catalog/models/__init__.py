"""Django finds models through this package."""

from catalog.models.idempotency_record import IdempotencyRecord
from catalog.models.namespace import Namespace
from catalog.models.statistics import MetricsDay, MetricsReport, WarehouseStatistic
from catalog.models.tabular import GenericTable, LocationClaim, Snapshot, Tabular, TabularMetadata

__all__ = [
    "GenericTable",
    "IdempotencyRecord",
    "LocationClaim",
    "MetricsDay",
    "MetricsReport",
    "Namespace",
    "Snapshot",
    "Tabular",
    "TabularMetadata",
    "WarehouseStatistic",
]
