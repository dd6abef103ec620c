"""Django handlers: one for the APIs with their own middleware, one for all other paths, and the error views."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch
from django.utils.module_loading import import_string

from icekeeper.http.access_log import log_request
from icekeeper.kernel.db.connections import release_connections
from icekeeper.kernel.errors.responses import error_response
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden, MethodNotAllowed, NotFound
from icekeeper.kernel.metrics import request_started

Handle = Callable[[HttpRequest], HttpResponseBase]


class EdgeHandler(WSGIHandler):
    """Sets length and request id of every response, calls `settings.RESPONSE_HOOKS` before it is sent, and logs it."""

    def __init__(self) -> None:
        super().__init__()
        self._hooks = [import_string(path) for path in settings.RESPONSE_HOOKS]

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        return self._complete(request, super().get_response(request))

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        match: ResolverMatch = super().resolve_request(request)
        request_started(request.method, match.route)
        return match

    def _complete(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        meta = request.META
        for hook in self._hooks:
            hook(request, response)
        headers = response.headers
        headers["X-Request-Id"] = meta["icekeeper.request_id"]
        if isinstance(response, HttpResponse):
            if response.status_code not in (204, 304) and "Content-Length" not in headers:
                headers["Content-Length"] = str(len(response.content))
            # A slow client must not occupy a pooled connection while it reads the response.
            release_connections()
        else:
            _when_closed(response, release_connections)
        _when_closed(response, partial(log_request, request, response))
        return response


class PageHandler(EdgeHandler):
    """Handles all paths outside of the APIs, with `settings.MIDDLEWARE`."""


class ApiHandler(EdgeHandler):
    """Handles the APIs, with `settings.API_MIDDLEWARE` (plain callables), and the JSON envelope for every error.

    `settings.REQUEST_OBSERVERS` are called after the log line. An error that was found before Django
    (`environ["icekeeper.error"]`) is raised inside of all middleware, so that its response has the same headers as
    others, including those for browsers (CORS).
    """

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        handle = _catch_errors(self._call_view)
        for path in reversed(settings.API_MIDDLEWARE):
            try:
                handle = _catch_errors(import_string(path)(handle))
            except MiddlewareNotUsed:
                continue
        self._middleware_chain = handle
        self._observers = [import_string(path) for path in settings.REQUEST_OBSERVERS]

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Skip Django's per-thread URL configuration and its additional log line for errors."""
        response = self._middleware_chain(request)
        _when_closed(response, request.close)
        response = self._complete(request, response)
        for observe in self._observers:
            _when_closed(response, partial(observe, request, response))
        return response

    def _call_view(self, request: HttpRequest) -> HttpResponseBase:
        error = request.META.get("icekeeper.error")
        if error is not None:
            raise error
        response: HttpResponseBase = self._get_response(request)  # type: ignore[attr-defined]
        if response.status_code == 405 and isinstance(response, HttpResponse) and not response.content:  # noqa: PLR2004
            not_allowed = error_response(MethodNotAllowed(f"{request.method} is not allowed here"))
            not_allowed.headers["Allow"] = response.headers.get("Allow", "")
            return not_allowed
        return response


def _when_closed(response: HttpResponseBase, callback: Callable[[], None]) -> None:
    """Let Django call `callback` when the server closes the response, after its last byte was sent."""
    closers: list[Callable[[], None]] = response._resource_closers  # type: ignore[attr-defined]  # noqa: SLF001
    closers.append(callback)


def _catch_errors(handle: Handle) -> Handle:
    def handle_safely(request: HttpRequest) -> HttpResponseBase:
        try:
            return handle(request)
        except Exception as error:  # noqa: BLE001 - every error gets a response in the APIs' envelope
            return error_response(error)

    return handle_safely


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(BadRequest("Malformed request"))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(Forbidden("Forbidden"))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(NotFound("No such resource"))


def server_error(request: HttpRequest) -> HttpResponse:
    """Return a 500 for the exception that Django is handling, which is logged."""
    error = sys.exc_info()[1]
    return error_response(error if isinstance(error, Exception) else CatalogError("Unexpected error"))
