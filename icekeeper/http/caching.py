"""What caches on the way may do with an API's answer: keep it for its one client at most."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from icekeeper.http.compression import add_vary

VARY = "authorization, x-project-id, x-assume-role, x-iceberg-access-delegation, x-icekeeper-extensions"
"""Request headers that change an answer."""


def mark_private(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Middleware: `Cache-Control: private` where the handler set none, and `Vary` on every answer."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if "Cache-Control" not in response.headers:
            response.headers["Cache-Control"] = "private"
        add_vary(response, VARY)
        return response

    return middleware
