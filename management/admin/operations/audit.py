"""The audit trail: a list that can be followed, and its export with the same filters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from icekeeper.kernel.errors.types import BadRequest
from management.admin.listing_pages import read_pager
from management.admin.pages import Page
from management.admin.times import read_time
from management.audit_files import audit_csv_response, audit_lines_response, with_own_ids
from tenancy.audit.recording import Event
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, is_allowed
from tenancy.changes.kinds import Change
from tenancy.models import AuditRecord, Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.audit_records import AuditFilters, export_audit_records_for, list_audit_records_for
from tenancy.selectors.projects import list_projects_for, no_such_project, server_ref

MAX_EXPORTED: Final = 100_000
"""Records of one file."""
MAX_POSITION: Final = 2**62
TEXT_FILTERS: Final = ("actor", "event", "object_id", "project")
TIME_FILTERS: Final = ("start", "end")
EVENTS: Final = sorted({*Event, *(each.value.audit_event for each in Change)})
TONES: Final = {
    AuditRecord.Outcome.ALLOWED: "good",
    AuditRecord.Outcome.DENIED: "warning",
    AuditRecord.Outcome.FAILED: "bad",
}


class AuditTrail(Page):
    """What the pages of the audit trail share: the filters of the address."""

    section = "audit"
    title = _("Audit")

    def read_filters(self) -> tuple[dict[str, str], AuditFilters, Sequence[Project]]:
        """Return the filters as given, and as the selectors take them, and the visible projects.

        Without the permission to read all records, those of the first project with the permission are read. Raises
        `BadRequest`, and `ProjectNotFound` for a hidden project.
        """
        given = {name: value for name in (*TEXT_FILTERS, *TIME_FILTERS, "outcome") if (value := self.query(name))}
        if given.get("outcome", AuditRecord.Outcome.ALLOWED) not in AuditRecord.Outcome.values:
            raise BadRequest("outcome: must be allowed, denied or failed")
        projects = list_projects_for(actor=self.actor)
        if not is_allowed(self.actor, Can.READ_AUDIT, *server_ref()):
            if "project" in given:
                if all(each.pk != given["project"] for each in projects):
                    raise no_such_project(given["project"])
            else:
                given |= self._readable_project(projects)
        wanted: dict[str, Any] = {
            **given,
            **{name: _read_time(name, given[name]) for name in TIME_FILTERS if name in given},
        }
        if "start" in wanted and "end" in wanted and wanted["start"] > wanted["end"]:
            raise BadRequest("end: must not be before start")
        return given, with_own_ids(AuditFilters(**wanted)), projects

    def _readable_project(self, projects: Sequence[Project]) -> dict[str, str]:
        refs = [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects]
        allowed = check_permissions(self.actor, [(Can.READ_AUDIT, ref) for ref in refs])
        readable = [each.pk for each, is_readable in zip(projects, allowed, strict=True) if is_readable]
        return {"project": readable[0]} if readable else {}


class AuditPage(AuditTrail):
    """Records, newest first; with `follow` the first page refreshes itself (`part=list`)."""

    template_name = "console/audit.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("part") == "list":
            return self.render_part("console/parts/audit_list.html", self.context())
        return super().get(request, **kwargs)

    def context(self) -> dict[str, Any]:
        given, filters, projects = self.read_filters()
        pager = read_pager(self.request, "audit", **given)
        records, token = list_audit_records_for(actor=self.actor, filters=filters, page=pager.page)
        is_followed = self.request.GET.get("follow") == "1" and not pager.page.token
        export_url = reverse("admin:audit-export")
        return {
            "rows": [_row(each) for each in records],
            "projects": projects,
            "given": given,
            "times": {name: f"{at:%Y-%m-%dT%H:%M}" for name in TIME_FILTERS if (at := read_time(given.get(name, "")))},
            "events": EVENTS,
            "outcomes": AuditRecord.Outcome.values,
            **pager.links(token),
            "is_followed": is_followed,
            "follow_url": f"?{urlencode(given if is_followed else {**given, 'follow': '1'})}",
            "live_url": f"?{urlencode({**given, 'part': 'list'})}" if is_followed else "",
            "exports": [(name, f"{export_url}?{urlencode({**given, 'format': name})}") for name in ("ndjson", "csv")],
            "max_exported": MAX_EXPORTED,
            "can_verify": is_allowed(self.actor, Can.READ_AUDIT, *server_ref()),
        }


class AuditExport(AuditTrail):
    """The filtered records as a file, in the order of the hash chain, sent while they are read."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        _given, filters, _projects = self.read_filters()
        after = request.GET.get("after", "") or "0"
        if not (after.isascii() and after.isdecimal() and len(after) < 20 and int(after) <= MAX_POSITION):  # noqa: PLR2004
            raise BadRequest("after: must be the position of a record")
        formats = {"ndjson": audit_lines_response, "csv": audit_csv_response}
        respond = formats.get(request.GET.get("format", "ndjson"))
        if respond is None:
            raise BadRequest("format: must be ndjson or csv")
        chunks = export_audit_records_for(actor=self.actor, filters=filters, after=int(after), limit=MAX_EXPORTED)
        return respond("audit", chunks)


def _read_time(name: str, text: str) -> datetime:
    """Return a day or a time. Raises `BadRequest`."""
    at = read_time(text)
    if at is None:
        raise BadRequest(f"{name}: must be a time, such as 2026-01-31T18:00")
    return at


def _row(record: AuditRecord) -> dict[str, Any]:
    details = json.loads(record.details)
    return {
        "record": record,
        "tone": TONES[AuditRecord.Outcome(record.outcome)],
        "details": json.dumps(details, indent=2, ensure_ascii=False) if details else "",
    }
