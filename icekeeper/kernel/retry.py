"""Backoff between attempts: exponential, limited, and random so that many clients do not retry at once."""

from __future__ import annotations

import random

_MAX_DOUBLINGS = 30


def backoff_seconds(failures: int, *, first: float, limit: float) -> float:
    """Return the pause after `failures` (at least 1) failed attempts in a row.

    It starts at `first`, doubles with each failure up to `limit`, and is reduced at random by up to a half.
    """
    doubled = first * 2.0 ** min(max(failures, 1) - 1, _MAX_DOUBLINGS)
    return min(doubled, limit) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
