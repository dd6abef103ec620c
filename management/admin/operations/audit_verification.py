"""Verification of the hash chain of the audit trail, in parts of a few seconds with progress."""

from __future__ import annotations

from typing import Any, Final

from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from icekeeper.kernel.errors.types import BadRequest
from management.admin.navigation import Crumb
from management.admin.pages import Page
from tenancy.audit.chain import ChainBroken, ChainHead, VerificationState
from tenancy.authz.actions import Can
from tenancy.selectors.audit_verification import verify_audit_part_for
from tenancy.selectors.users import require_permission_on_server

_SALT: Final = "icekeeper.console.audit-verification"


class AuditVerifyPage(Page):
    """Each form that is sent verifies a part; the next form has the signed state. A script sends it by itself."""

    template_name = "console/audit_verify.html"
    section = "audit"
    title = _("Verify the audit trail")

    def context(self) -> dict[str, Any]:
        require_permission_on_server(self.actor, Can.READ_AUDIT)
        return {"breadcrumb": [Crumb(_("Audit"), reverse("admin:audit")), Crumb(self.title)]}

    def post(self, request: HttpRequest) -> HttpResponse:
        before = self._read_state(request.POST.get("state", ""))
        shown = self.context()
        try:
            state, report = verify_audit_part_for(actor=self.actor, before=before)
        except ChainBroken as broken:
            return self.render({**shown, "broken": str(broken)})
        shown |= {
            "report": report,
            "head": None if report is None else f"{report.head.position}:{report.head.hash}",
            "count": state.verified,
            "end": state.end,
            "fraction": state.at.position / state.end if state.end else 1.0,
        }
        if report is None:
            shown["state"] = signing.dumps([self.actor.user_id, *state], salt=_SALT)
        return self.render(shown)

    def _read_state(self, text: str) -> VerificationState | None:
        """Return the state of a form of the same user, None without one. Raises `BadRequest` for any other text."""
        if not text:
            return None
        try:
            user_id, anchor, at, count, deleted_until, end = signing.loads(text, salt=_SALT)
        except (signing.BadSignature, ValueError):
            raise BadRequest("state: must be that of the page") from None
        if user_id != self.actor.user_id:
            raise BadRequest("state: must be that of the page")
        return VerificationState(ChainHead(*anchor), ChainHead(*at), count, deleted_until, end)
