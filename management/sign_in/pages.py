"""The sign-in page: what it shows, and how it reports that a sign-in failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from icekeeper.version import VERSION
from management.sign_in import local_accounts
from management.sign_in.paths import console_home, safe_next
from management.sign_in.providers import console_providers
from management.sign_in.sessions import accepts_access_tokens
from tenancy.authn.providers import authenticators

TEMPLATE = "console/sign_in/sign_in.html"


def render_sign_in(
    request: HttpRequest, *, target: str | None, error: str = "", opened: str = "", status: int = 200
) -> HttpResponse:
    """Return the sign-in page; `opened` names the section that is open (`token`, `password`)."""
    wanted = safe_next(target)
    query = "" if wanted == console_home() else "?" + urlencode({"next": wanted})
    context: dict[str, Any] = {
        "error": error,
        "next": wanted,
        "providers": [
            {"name": each.name, "link": reverse("sign_in:provider", args=[each.id]) + query}
            for each in console_providers().values()
        ],
        "accepts_tokens": accepts_access_tokens(),
        "has_local_accounts": local_accounts.is_enabled(),
        "opened": opened,
        "is_authentication_off": not authenticators(),
        "host": request.get_host(),
        "version": VERSION,
        "idle_minutes": _minutes(settings.ICEKEEPER.console.session_idle_timeout),
        "lifetime_hours": _hours(settings.ICEKEEPER.console.session_lifetime),
    }
    response = render(request, TEMPLATE, context, status=status)
    response["Cache-Control"] = "private, no-store"
    return response


def render_failure(
    request: HttpRequest,
    *,
    status: int = 403,
    target: str | None = None,
    opened: str = "",
    missing_scopes: Sequence[str] = (),
) -> HttpResponse:
    """Return the sign-in page with the same error for every reason; log and audit trail have the reason.

    Only the scopes that a valid access token lacks are named: who sent the token may know them.
    """
    error = _("The sign-in was not accepted. The log of the server has the reason.")
    if opened == "password":
        error = _("The sign-in was not accepted. After several failed ones, wait 15 minutes before the next.")
    if missing_scopes:
        error = _("The access token lacks a scope that the console needs: %(scopes)s.") % {
            "scopes": ", ".join(missing_scopes)
        }
    return render_sign_in(request, target=target, error=error, opened=opened, status=status)


def _minutes(seconds: float) -> int:
    return max(1, round(seconds / 60))


def _hours(seconds: float) -> float | int:
    hours = round(seconds / 3600, 1)
    return int(hours) if hours == int(hours) else hours
