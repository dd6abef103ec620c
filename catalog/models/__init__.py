"""Django finds models through this package."""

from catalog.models.former_location import FormerLocation
from catalog.models.metadata import TabularMetadata
from catalog.models.metrics_day import MetricsDay
from catalog.models.metrics_report import MetricsReport
from catalog.models.namespace import Namespace
from catalog.models.snapshot import Snapshot
from catalog.models.tabular import Tabular

__all__ = ["FormerLocation", "MetricsDay", "MetricsReport", "Namespace", "Snapshot", "Tabular", "TabularMetadata"]
