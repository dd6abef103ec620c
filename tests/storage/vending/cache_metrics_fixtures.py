"""Metrics of this process about the cache of vended credentials."""

from __future__ import annotations

from typing import NamedTuple

from icekeeper.kernel.metrics import metrics


class CacheNumbers(NamedTuple):
    size: float
    hits: float
    misses: float


def reset_metrics() -> None:
    """Start the metrics at 0; existing caches still count in the previous ones."""
    metrics.cache_clear()


def cache_numbers(cloud: str = "s3") -> CacheNumbers:
    def value(name: str) -> float:
        number = metrics().registry.get_sample_value(name, {"cache_type": "stc", "cloud": cloud})
        assert number is not None
        return number

    return CacheNumbers(
        *map(value, ("lakekeeper_cache_size", "lakekeeper_cache_hits_total", "lakekeeper_cache_misses_total"))
    )
