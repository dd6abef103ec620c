"""The audit trail: who did what, on what, with which outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.utils.translation import gettext_lazy as _

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import Page as ListingPage
from icekeeper.kernel.http.paging import listing_key
from management.admin.pages import Page
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, is_allowed
from tenancy.models import AuditRecord, Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.audit_records import AuditFilters, list_audit_records_for
from tenancy.selectors.projects import list_projects_for, no_such_project, server_ref

ROWS_A_PAGE: Final = 50
MAX_FILTER_LENGTH: Final = 255
TEXT_FILTERS: Final = ("actor", "event", "object_id", "project")
TONES: Final = {
    AuditRecord.Outcome.ALLOWED: "good",
    AuditRecord.Outcome.DENIED: "warning",
    AuditRecord.Outcome.FAILED: "bad",
}


class AuditPage(Page):
    """Records of the audit trail, newest first, with filters that equal a value."""

    template_name = "console/audit.html"
    section = "audit"
    title = _("Audit")

    def context(self) -> dict[str, Any]:
        given: dict[str, Any] = {
            name: value
            for name in (*TEXT_FILTERS, "outcome")
            if (value := self.request.GET.get(name, "").strip()[:MAX_FILTER_LENGTH])
        }
        if given.get("outcome", AuditRecord.Outcome.ALLOWED) not in AuditRecord.Outcome.values:
            raise BadRequest("outcome: must be allowed, denied or failed")
        projects = list_projects_for(actor=self.actor)
        if not is_allowed(self.actor, Can.READ_AUDIT, *server_ref()):
            if "project" in given:
                if all(each.pk != given["project"] for each in projects):
                    raise no_such_project(given["project"])
            else:
                given |= self._readable_project(projects)
        page = ListingPage(
            listing_key("console audit", *sorted(given.items())), self.request.GET.get("after"), ROWS_A_PAGE
        )
        records, token = list_audit_records_for(actor=self.actor, filters=AuditFilters(**given), page=page)
        return {
            "rows": [_row(each) for each in records],
            "projects": projects,
            "given": given,
            "outcomes": AuditRecord.Outcome.values,
            "next_url": None if token is None else f"?{urlencode({**given, 'after': token})}",
            "first_url": f"?{urlencode(given)}" if page.token else None,
        }

    def _readable_project(self, projects: Sequence[Project]) -> dict[str, str]:
        """Return the first project whose records the user may read, as a filter; none if there is none."""
        refs = [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects]
        allowed = check_permissions(self.actor, [(Can.READ_AUDIT, ref) for ref in refs])
        readable = [each.pk for each, is_readable in zip(projects, allowed, strict=True) if is_readable]
        return {"project": readable[0]} if readable else {}


def _row(record: AuditRecord) -> dict[str, Any]:
    details = json.loads(record.details)
    return {
        "record": record,
        "tone": TONES[AuditRecord.Outcome(record.outcome)],
        "details": json.dumps(details, indent=2, ensure_ascii=False) if details else "",
    }
