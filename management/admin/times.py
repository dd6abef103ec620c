"""Times in forms and addresses of the console."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils.translation import gettext as _

from icekeeper.kernel.errors.types import BadRequest


def read_time(text: str) -> datetime | None:
    """Return a time as ISO 8601 has it, in UTC, which is also the zone of a text without one; None for other texts."""
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def read_moment(text: str) -> datetime:
    """Return the time in a hidden field of a form, since which its object must be unchanged. Raises `BadRequest`."""
    at = read_time(text)
    if at is None:
        raise incomplete_form()
    return at


def incomplete_form() -> BadRequest:
    """Return the error of a form without one of its hidden fields."""
    return BadRequest(_("The form is incomplete: open the page again"))
