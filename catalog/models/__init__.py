"""Django finds models through this package."""

from catalog.models.generic_table import GenericTable
from catalog.models.idempotency_record import IdempotencyRecord
from catalog.models.location_claim import LocationClaim
from catalog.models.metadata import TabularMetadata
from catalog.models.metrics_day import MetricsDay
from catalog.models.metrics_report import MetricsReport
from catalog.models.namespace import Namespace
from catalog.models.snapshot import Snapshot
from catalog.models.tabular import Tabular
from catalog.models.warehouse_statistic import WarehouseStatistic

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
