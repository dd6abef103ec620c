"""Times in forms and addresses of the console."""

from __future__ import annotations

from datetime import UTC, datetime


def read_time(text: str) -> datetime | None:
    """Return a time as ISO 8601 has it, in UTC, which is also the zone of a text without one; None for other texts."""
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
