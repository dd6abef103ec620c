"""The one clock: services read it once and hand the value down."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def now_ms() -> int:
    """Milliseconds since the epoch, the unit of every timestamp in Iceberg metadata."""
    return time.time_ns() // 1_000_000
