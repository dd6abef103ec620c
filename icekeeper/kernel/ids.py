"""Identifiers: UUIDv7 keys, so that index pages fill in order."""

from __future__ import annotations

from uuid import UUID

from uuid_utils import compat


def new_id() -> UUID:
    """A fresh UUIDv7. The one place that chooses the generator, so that migrations never name it."""
    return compat.uuid7()


def parse_id(text: str) -> UUID | None:
    """The UUID that `text` spells in its canonical 36-character form (any case); None for anything else.

    `uuid.UUID()` alone also takes braces, `urn:uuid:` and missing hyphens: two spellings of one address.
    """
    if len(text) != 36:  # noqa: PLR2004
        return None
    try:
        parsed = UUID(text)
    except ValueError:
        return None
    return parsed if str(parsed) == text.lower() else None
