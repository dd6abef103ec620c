"""How many database connections a server process has. Names and labels are those of Lakekeeper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.conf import settings
from django.db import connections

from icekeeper.kernel.meters import Meter, Series

_POOLS: Final = {"default": "write", "read": "read"}


def pool_meter() -> Meter:
    """Without series beside SQLite, which has no pools."""
    aliases = [alias for alias in _POOLS if settings.DATABASES.get(alias, {}).get("OPTIONS", {}).get("pool")]
    series = [each for alias in aliases for each in _series(_POOLS[alias])]
    return Meter(series, lambda: [number for alias in aliases for number in _numbers(connections[alias])])


def _series(pool: str) -> list[Series]:
    name, described = "lakekeeper_catalog_pg_pool_connections", "Connections to PostgreSQL"
    return [
        Series(name, "gauge", described, {"pool": pool, "state": "idle"}),
        Series(name, "gauge", described, {"pool": pool, "state": "in_use"}),
        Series("lakekeeper_catalog_pg_pool_max_connections", "gauge", "Most connections", {"pool": pool}),
        Series(
            "lakekeeper_catalog_pg_pool_acquire_timeouts_total",
            "counter",
            "Requests that got no connection in time",
            {"pool": pool},
        ),
    ]


def _numbers(connection: Any) -> Sequence[float]:
    told = connection.pool.get_stats()
    idle = told["pool_available"]
    return [idle, max(0, told["pool_size"] - idle), told["pool_max"], told.get("requests_errors", 0)]
