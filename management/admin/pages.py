"""The base class of the pages of the console, and the pages for errors."""

from __future__ import annotations

from contextlib import nullcontext
from http import HTTPStatus
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from django.views.generic import View

from catalog.services.approval.approve import (
    MAX_OVERRIDE_LENGTH,
    OVERRIDE_HEADER,
    ContractViolation,
    InvalidOverride,
    can_override,
    override_rules,
)
from icekeeper.kernel.errors.responses import ErrorResponse, error_response
from icekeeper.kernel.errors.types import CatalogError, Forbidden, NotFound
from icekeeper.kernel.http.base_url import base_path
from management.admin.navigation import Crumb, Text, shell_context
from management.sign_in.paths import CONSOLE_PATH, safe_next
from tenancy.actor import Actor
from tenancy.authz.permission_epoch import share_reads

_READING: Final = frozenset({"GET", "HEAD"})

OVERRIDE: Final = "override-reason"
"""Field of all forms: the reason for which the user overrides rules about changes."""

_NOT_SENT_AGAIN: Final = frozenset({OVERRIDE, "csrfmiddlewaretoken"})

MAX_QUERY_LENGTH: Final = 255
"""Characters of a text in an address that are read."""


class Page(View):
    """A page of the console: reads with selectors on behalf of `actor`, and renders `template_name`.

    Errors of selectors and services become pages of the same status. What is hidden from the caller and what does not
    exist get the same page.
    """

    template_name: ClassVar[str]
    section: ClassVar[str] = ""
    title: ClassVar[Text] = ""
    actor: Actor

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.actor = request.actor  # type: ignore[attr-defined]  # set by management.sign_in
        try:
            if request.method in _READING:
                with share_reads():
                    return super().dispatch(request, *args, **kwargs)
            reason = request.POST.get(OVERRIDE, "").strip()
            with override_rules(reason) if reason else nullcontext():
                return super().dispatch(request, *args, **kwargs)
        except (ContractViolation, InvalidOverride) as error:
            return self._render_veto(error)
        except Exception as error:  # noqa: BLE001 - every error gets a page
            return error_page(request, error)

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        return self.render(self.context())

    def context(self) -> dict[str, Any]:
        """Return what the template shows; `self.kwargs` are the values in the address."""
        return {}

    def query(self, name: str) -> str:
        """Return a parameter of the address as `read_query` does."""
        return read_query(self.request, name)

    def render(self, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
        shown = {"title": self.title, "breadcrumb": [Crumb(self.title)], **context}
        return render_page(self.request, self.template_name, shown, section=self.section, status=status)

    def render_part(self, template: str, context: dict[str, Any]) -> HttpResponse:
        """Return a part of the page alone, which a script puts into the page."""
        return HttpResponse(render_to_string(template, context, self.request))

    def asks_to_override(self, error: CatalogError) -> bool:
        """Return whether rules rejected the change, and the user is asked for a reason to override them."""
        if isinstance(error, ContractViolation):
            return can_override(self.actor, error.scopes)
        return isinstance(error, InvalidOverride)

    def _render_veto(self, error: ContractViolation | InvalidOverride) -> HttpResponse:
        """Return the page of a change that rules rejected, with its status and log line.

        For users who can override the rules it has the form that was sent, and a field for the reason.
        """
        request, is_veto = self.request, isinstance(error, ContractViolation)
        fields = [(name, value) for name, values in request.POST.lists() for value in values]
        own_url = request.get_full_path() if "get" in self.http_method_names else ""
        title = _("A rule rejects the change") if is_veto else _("The reason cannot be used")
        context = {
            **shell_context(request),
            "title": title,
            "breadcrumb": [Crumb(title)],
            "message": error.message if is_veto else "",
            "reason_error": "" if is_veto else error.message.removeprefix(f"{OVERRIDE_HEADER}: ").capitalize(),
            "is_overridable": self.asks_to_override(error),
            "sent": [(name, value) for name, value in fields if name not in _NOT_SENT_AGAIN],
            "override": OVERRIDE,
            "reason": request.POST.get(OVERRIDE, ""),
            "max_length": MAX_OVERRIDE_LENGTH,
            "back_url": _page_before(request) or own_url,
        }
        page = render_to_string("console/veto.html", context, request)
        found = error_response(error)
        return ErrorResponse(page, error, found.error_id, content_type="text/html; charset=utf-8")


def read_query(request: HttpRequest, name: str) -> str:
    """Return a parameter of the address, which databases accept as a text; empty if it is missing."""
    return request.GET.get(name, "").replace("\0", "").strip()[:MAX_QUERY_LENGTH]


def render_page(
    request: HttpRequest, template: str, context: dict[str, Any], *, section: str = "", status: int = 200
) -> HttpResponse:
    shown = {**shell_context(request, section=section), **context}
    return HttpResponse(render_to_string(template, shown, request), status=status)


def error_page(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return the page of an error, with its status; it is logged as the APIs log theirs."""
    found = error_response(error)
    known = found.error
    if isinstance(known, NotFound):
        title = _("Page not found")
        message, hint = _("This object does not exist, or you do not have the permission to see it."), None
    elif isinstance(known, Forbidden):
        title, message, hint = _("Permission required"), known.message, known.hint
    else:
        title, message, hint = HTTPStatus(known.status).phrase, known.message, known.hint
    is_grantable = isinstance(known, Forbidden) and known.wire_type.endswith("ActionForbidden")
    context = {
        **shell_context(request),
        "title": title,
        "breadcrumb": [Crumb(title)],
        "message": message,
        "hint": hint,
        "user_id": getattr(getattr(request, "actor", None), "user_id", None) if is_grantable else None,
        "can_retry": not known.is_final and not isinstance(known, Forbidden),
        "back_url": _page_before(request),
        "request_id": request.META.get("icekeeper.request_id", ""),
    }
    page = render_to_string("console/error.html", context, request)
    response = ErrorResponse(page, known, found.error_id, content_type="text/html; charset=utf-8")
    if "Retry-After" in found.headers:
        response.headers["Retry-After"] = found.headers["Retry-After"]
    return response


def _page_before(request: HttpRequest) -> str | None:
    """Return the page of the console from which the browser came; None for another site, and for the same page."""
    try:
        before = urlsplit(request.META.get("HTTP_REFERER", ""))
    except ValueError:
        return None
    if before.netloc != request.get_host() or before.path == request.get_full_path().partition("?")[0]:
        return None
    path = f"{before.path}?{before.query}" if before.query else before.path
    return path if safe_next(path) == path else None


def unknown_page(request: HttpRequest, **_kwargs: Any) -> HttpResponse:
    """Return the page for addresses that no page has."""
    return error_page(request, NotFound("No such page"))


@csrf_exempt  # it changes nothing, whatever the method
@require_safe
def redirect_to_console(request: HttpRequest) -> HttpResponse:
    """Serve the root of the server, and the address of the console without its slash."""
    return HttpResponseRedirect(f"{base_path(request.META, settings.ICEKEEPER)}{CONSOLE_PATH}/")
