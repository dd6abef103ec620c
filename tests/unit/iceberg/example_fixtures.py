"""Number of random examples per property: a fixed seed in short runs, a random one in long runs."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.conftest import IS_LONG


def examples(number: int) -> settings:
    """Run this number of examples, ten times as many in a long run."""
    return settings(
        max_examples=number * 10 if IS_LONG else number,
        derandomize=not IS_LONG,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
