"""Django finds models through this package."""

from management.models.endpoint_statistic import EndpointStatistic

__all__ = ["EndpointStatistic"]
