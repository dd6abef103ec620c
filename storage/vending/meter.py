"""Metrics of the cache of vended credentials. Names and `cache_type` are as in Lakekeeper, `cloud` is ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from icekeeper.kernel.meters import Meter, Series
from storage.vending.cache import CacheStatistics
from storage.vending.vend import CLOUDS, statistics

_CLOUDS: Final = tuple(dict.fromkeys(CLOUDS.values()))
_UNUSED: Final = CacheStatistics(size=0, hits=0, misses=0)


def credential_cache_meter() -> Meter:
    """By cloud; all zero where the settings want no such memory."""
    series = [
        each
        for cloud in _CLOUDS
        for labels in [{"cache_type": "stc", "cloud": cloud}]
        for each in (
            Series("lakekeeper_cache_size", "gauge", "Entries in the caches of all processes", labels),
            Series("lakekeeper_cache_hits_total", "counter", "Look-ups that a cache served", labels),
            Series("lakekeeper_cache_misses_total", "counter", "Look-ups that a cache could not serve", labels),
        )
    ]
    return Meter(series, _read)


def _read() -> Sequence[float]:
    known = statistics()
    caches = [known.get(cloud, _UNUSED) for cloud in _CLOUDS]
    return [number for cache in caches for number in (cache.size, cache.hits, cache.misses)]
