"""Identifiers: UUIDv7 keys, so that index pages fill in order."""

from __future__ import annotations

from uuid import UUID

from uuid_utils import compat


def new_id() -> UUID:
    """Return a new UUIDv7. Migrations refer to this function, not to the library that generates it."""
    return compat.uuid7()


def parse_id(text: str) -> UUID | None:
    """Return the UUID in its canonical form of 36 characters (any case); None for anything else.

    `uuid.UUID()` also accepts braces, `urn:uuid:` and missing hyphens, which would be other spellings of one path.
    """
    if len(text) != 36:  # noqa: PLR2004
        return None
    try:
        parsed = UUID(text)
    except ValueError:
        return None
    return parsed if str(parsed) == text.lower() else None
