"""Django's handler twice: for the APIs with their own middleware, and for everything else; error views of both."""

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
from django.utils.module_loading import import_string

from icekeeper.http.access_log import log_request
from icekeeper.kernel.db.connections import release_connections
from icekeeper.kernel.errors.responses import error_response
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden, MethodNotAllowed, NotFound

Handle = Callable[[HttpRequest], HttpResponseBase]


class EdgeHandler(WSGIHandler):
    """A handler that gives every answer its length, its request id and its log line.

    `settings.RESPONSE_HOOKS` see every request with its answer before a byte of that is sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last_acts = [import_string(path) for path in settings.RESPONSE_HOOKS]

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        return self._complete(request, super().get_response(request))

    def _complete(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        meta = request.META
        for act in self._last_acts:
            act(request, response)
        headers = response.headers
        headers["X-Request-Id"] = meta["icekeeper.request_id"]
        if isinstance(response, HttpResponse):
            if response.status_code not in (204, 304) and "Content-Length" not in headers:
                headers["Content-Length"] = str(len(response.content))
            # The work is done: a slow reader of the answer must not keep a pooled connection from others.
            release_connections()
        else:
            _when_closed(response, release_connections)
        _when_closed(response, partial(log_request, request, response))
        return response


class PageHandler(EdgeHandler):
    """Everything that is not an API, with `settings.MIDDLEWARE`."""


class ApiHandler(EdgeHandler):
    """The APIs: `settings.API_MIDDLEWARE` (plain callables, no hooks), and the JSON envelope for every error.

    `settings.REQUEST_OBSERVERS` see every request with its answer, after the log line.

    A refusal that was decided before Django (`environ["icekeeper.error"]`) is answered from the innermost place, so
    that it carries the same headers as any other answer, those for browsers included.
    """

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        handle = _answering_errors(self._answer)
        for path in reversed(settings.API_MIDDLEWARE):
            try:
                handle = _answering_errors(import_string(path)(handle))
            except MiddlewareNotUsed:
                continue
        self._middleware_chain = handle
        self._observers = [import_string(path) for path in settings.REQUEST_OBSERVERS]

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Without Django's per-thread urlconf and its second log line for errors, which nothing here reads."""
        response = self._middleware_chain(request)
        _when_closed(response, request.close)
        response = self._complete(request, response)
        for observe in self._observers:
            _when_closed(response, partial(observe, request, response))
        return response

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        refusal = request.META.get("icekeeper.error")
        if refusal is not None:
            raise refusal
        response: HttpResponseBase = self._get_response(request)  # type: ignore[attr-defined]
        if response.status_code == 405 and isinstance(response, HttpResponse) and not response.content:  # noqa: PLR2004
            answer = error_response(MethodNotAllowed(f"{request.method} is not allowed here"))
            answer.headers["Allow"] = response.headers.get("Allow", "")
            return answer
        return response


def _when_closed(response: HttpResponseBase, act: Callable[[], None]) -> None:
    """Django calls `act` when the server closes the answer, after its last byte was sent."""
    closers: list[Callable[[], None]] = response._resource_closers  # type: ignore[attr-defined]  # noqa: SLF001
    closers.append(act)


def _answering_errors(handle: Handle) -> Handle:
    def answering(request: HttpRequest) -> HttpResponseBase:
        try:
            return handle(request)
        except Exception as error:  # noqa: BLE001 - the last place that can turn an error into an answer
            return error_response(error)

    return answering


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(BadRequest("Malformed request"))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(Forbidden("Forbidden"))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(NotFound("No such resource"))


def server_error(request: HttpRequest) -> HttpResponse:
    """Called while the exception is being handled, so what it was is known and gets into the log."""
    error = sys.exc_info()[1]
    return error_response(error if isinstance(error, Exception) else CatalogError("Unexpected error"))
