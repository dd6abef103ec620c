"""The server: its version, health, periodic jobs, identity providers and settings, also as a support bundle."""

from __future__ import annotations

import json
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from management.admin.operations.server_report import report_server_for, write_support_bundle
from management.admin.pages import Page

TONES: Final = {"ok": "good", "error": "bad"}


class ServerPage(Page):
    """The report about the server; the settings can be filtered by a part of their names."""

    template_name = "console/server.html"
    section = "server"
    title = _("Settings")

    def context(self) -> dict[str, Any]:
        report = report_server_for(actor=self.actor)
        only_set, typed = self.request.GET.get("set") == "1", self.request.GET.get("q", "").strip()[:100]
        return {
            "report": report,
            "health": [(each, TONES.get(each.status, "warning")) for each in report.health],
            "jobs": [(each, TONES.get(each.status, "")) for each in report.jobs],
            "settings": [
                (each, _shown_value(each.value))
                for each in report.settings
                if (each.is_set or not only_set) and typed.upper() in each.variable.upper()
            ],
            "q": typed,
            "only_set": only_set,
        }


def _shown_value(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class SupportBundle(Page):
    """The report as a file to send to those who help."""

    section = "server"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        report = report_server_for(actor=self.actor)
        text = json.dumps(write_support_bundle(report), indent=2, ensure_ascii=False)
        response = HttpResponse(text, content_type="application/json")
        name = f"icekeeper-support-{report.created_at:%Y%m%d-%H%M%S}.json"
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return response
