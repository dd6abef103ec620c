"""The clock, which a service reads once and passes on, and durations as text."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def now_ms() -> int:
    """Milliseconds since the epoch, the unit of every timestamp in Iceberg metadata."""
    return time.time_ns() // 1_000_000


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PLAIN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def read_duration(text: str) -> float:
    """Return the seconds of `30s`, `500ms`, `5m`, `1h`, `2d`, a number of seconds, or ISO 8601 (`PT30M`, `P1D`).

    Raises ValueError with the accepted forms.
    """
    text = text.strip()
    if plain := _PLAIN.fullmatch(text):
        return float(plain[1]) * _UNITS[plain[2] or "s"]
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    raise ValueError("a duration such as 30s, 500ms, 5m, 1h or PT30M")
