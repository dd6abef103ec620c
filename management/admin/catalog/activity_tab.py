"""The tab with what was done to an object, newest first, with a chip for each kind."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from catalog.selectors.activity import Activity, ActivityKind, Subject, list_activity_for
from icekeeper.kernel.errors.types import BadRequest
from management.admin.navigation import Text
from management.admin.times import read_time
from tenancy.actor import Actor

ROWS_A_PAGE: Final = 50
LABELS: Final[dict[ActivityKind, Text]] = {
    ActivityKind.COMMIT: _("Commits"),
    ActivityKind.TASK: _("Tasks"),
    ActivityKind.EVENT: _("Events"),
    ActivityKind.AUDIT: _("Audit"),
}
TONES: Final = {"failed": "bad", "denied": "warning", "cancelled": "warning"}


def activity_context(request: HttpRequest, actor: Actor, subject: Subject) -> dict[str, Any]:
    """Return a page of the lines. Raises `BadRequest` for a kind or a moment that is none."""
    kind, before = _read_kind(request.GET.get("kind")), _read_before(request.GET.get("before"))
    found = list_activity_for(actor=actor, subject=subject, kind=kind, before=before, limit=ROWS_A_PAGE)
    given = {} if kind is None else {"kind": kind.value}
    chips: list[tuple[Text, str, bool]] = [(_("Everything"), "?", kind is None)] if len(found.kinds) > 1 else []
    chips += [(LABELS[each], f"?{urlencode({'kind': each.value})}", each is kind) for each in found.kinds]
    return {
        "chips": chips,
        "rows": [_row(each, subject) for each in found.rows],
        "first_url": f"?{urlencode(given)}" if before is not None else None,
        "next_url": (None if found.before is None else f"?{urlencode({**given, 'before': found.before.isoformat()})}"),
    }


def _row(line: Activity, subject: Subject) -> dict[str, Any]:
    task = None if line.task_id is None else reverse("admin:task", args=[subject.warehouse_id, line.task_id])
    return {
        "at": line.at,
        "kind": line.kind.value,
        "what": line.what,
        "by": line.by,
        "note": line.note,
        "tone": TONES.get(line.note, ""),
        "url": task,
    }


def _read_kind(text: str | None) -> ActivityKind | None:
    if not text:
        return None
    try:
        return ActivityKind(text)
    except ValueError:
        raise BadRequest("kind: must be commit, task, event or audit") from None


def _read_before(text: str | None) -> datetime | None:
    if not text:
        return None
    at = read_time(text)
    if at is None:
        raise BadRequest("before: must be a time")
    return at
