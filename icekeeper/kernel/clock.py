"""The clock: a service reads it once and passes the value on."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def now_ms() -> int:
    """Milliseconds since the epoch, the unit of every timestamp in Iceberg metadata."""
    return time.time_ns() // 1_000_000
