"""Durations of loads of tables, counted by limits, so that percentiles of many hours are sums of a few rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

LOAD_ROUTE: Final = "catalog/v1/<segment:prefix>/namespaces/<segment:namespace>/tables/<segment:table>"
LIMITS_MS: Final = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
"""A longer duration counts for the last limit."""


def limit_of(seconds: float) -> int:
    """Return the lowest limit that a duration does not exceed, in milliseconds."""
    return LIMITS_MS[min(bisect_left(LIMITS_MS, seconds * 1000), len(LIMITS_MS) - 1)]


def percentile(by_limit: Mapping[int, int], fraction: float) -> float | None:
    """Estimate a percentile in milliseconds from the number of loads by limit; None without loads.

    Between two limits durations are taken to be spread evenly.
    """
    total = sum(by_limit.values())
    wanted, below, lower = fraction * total, 0, 0
    for limit in LIMITS_MS:
        count = by_limit.get(limit, 0)
        if count and below + count >= wanted:
            return lower + (limit - lower) * (wanted - below) / count
        below, lower = below + count, limit
    return None
