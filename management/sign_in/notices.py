"""Pages that say in one sentence what happened, with the cure and one link."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from icekeeper.kernel.errors.responses import ErrorResponse
from management.sign_in.paths import console_home

TEMPLATE = "console/sign_in/notice.html"


def render_notice(
    request: HttpRequest, title: str, text: str = "", *, status: int, retry_after: int | None = None
) -> HttpResponse:
    """Return a page with `title` and the cure in `text`, and a link to the console."""
    context = {
        "title": title,
        "text": text,
        "link": console_home(),
        "link_text": _("Continue to the console"),
        "request_id": request.META.get("icekeeper.request_id", ""),
    }
    response = render(request, TEMPLATE, context, status=status)
    if retry_after is not None:
        response["Retry-After"] = str(retry_after)
    response["Cache-Control"] = "private, no-store"
    return response


def error_notice(request: HttpRequest, response: ErrorResponse) -> ErrorResponse:
    """Return an error response of the APIs as a page, for errors that happen outside of the views."""
    context = {
        "title": HTTPStatus(response.status_code).phrase,
        "text": response.error.message,
        "link": console_home(),
        "link_text": _("Continue to the console"),
        "request_id": request.META.get("icekeeper.request_id", ""),
    }
    html = render_to_string(TEMPLATE, context)
    page = ErrorResponse(html, response.error, response.error_id, content_type="text/html; charset=utf-8")
    if "Retry-After" in response.headers:
        page.headers["Retry-After"] = response.headers["Retry-After"]
    return page
