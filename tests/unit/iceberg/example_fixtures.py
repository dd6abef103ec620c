"""Number of random examples per property: a fixed seed in short runs, a random one in long runs."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.conftest import IS_LONG


def examples(number: int, long: int | None = None) -> settings:
    """Run this number of examples; `long` in a long run, by default ten times as many."""
    return settings(
        max_examples=(long or 10 * number) if IS_LONG else number,
        derandomize=not IS_LONG,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
