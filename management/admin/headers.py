"""Headers of every page of the console: what it may load, and that no cache keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from management.sign_in.paths import is_console_path

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""No script or style but our own files, and no request to another server."""

_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cache-Control": "private, no-store",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def protect_console(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Middleware that sets these headers on all responses below `/ui`, errors and redirects included."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if is_console_path(request):
            for name, value in _HEADERS.items():
                response.headers[name] = value
        return response

    return middleware
