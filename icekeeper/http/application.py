"""The WSGI application: path, request id, deadline and body limit of every request; the handlers of APIs and pages.

API paths stay encoded: their URL patterns match raw segments, and path converters decode each segment. All other paths
are decoded for Django. Targets that two parsers could read differently (dot segments, an encoded API prefix, NUL) are
rejected, so that routing, authentication and logs always agree.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any
from urllib.parse import unquote_to_bytes

from django.conf import settings
from django.core import signals
from django.core.cache import close_caches
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed
from django.core.handlers.base import reset_urlconf
from django.core.handlers.wsgi import WSGIHandler
from django.db import close_old_connections, reset_queries
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, get_resolver
from django.utils.module_loading import import_string

from icekeeper.http.access_log import log_request
from icekeeper.http.request_body import limit_body
from icekeeper.kernel.db.connections import install_statement_limits, release_connections
from icekeeper.kernel.errors.responses import error_response
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden, MethodNotAllowed, NotFound
from icekeeper.kernel.http.raw_path import raw_path
from icekeeper.kernel.metrics import request_started
from icekeeper.kernel.request_context import begin_request, choose_request_id
from management.sign_in.notices import error_notice
from management.sign_in.paths import is_console_path

_DOT_SEGMENT = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)
_ABSOLUTE_FORM = re.compile(r"https?://", re.IGNORECASE)


def set_path(environ: dict[str, Any], target: str, prefixes: tuple[str, ...]) -> bool:
    """Set path and query of `environ` from the request target; return whether the path has one of `prefixes`.

    `icekeeper.path` is the raw path. Raises `BadRequest` or `NotFound` for an ambiguous target.
    """
    environ["icekeeper.path"] = path = raw_path(target)
    environ["SCRIPT_NAME"] = ""
    environ["PATH_INFO"] = path
    environ["QUERY_STRING"] = query = target.split("#", 1)[0].partition("?")[2]
    if not target.startswith("/") and target != "*" and not _ABSOLUTE_FORM.match(target):
        raise BadRequest("Malformed request target: must be a path or an http URL")
    if _DOT_SEGMENT.search(path):
        raise BadRequest("Malformed path: . and .. segments are not allowed")
    if "%00" in path or "%00" in query:
        raise BadRequest("Malformed path or query: NUL is not allowed")
    if path.startswith(prefixes):
        return True
    environ["PATH_INFO"] = decoded = unquote_to_bytes(path).decode("latin-1")  # WSGI's form of bytes
    if decoded.startswith(prefixes):
        raise NotFound("No such resource: the prefix of an API must not be percent-encoded")
    if _DOT_SEGMENT.search(decoded):
        raise BadRequest("Malformed path: . and .. segments are not allowed")
    return False


logger = logging.getLogger("icekeeper.http")


class Application:
    """The WSGI callable, which chooses the handler of a request by its raw path.

    It sets in the environ, and so in `request.META`: `icekeeper.request_id`, `icekeeper.path` (the raw path),
    `icekeeper.arrived` (monotonic seconds, unless the HTTP worker has set them) and, for a rejected request,
    `icekeeper.error`. Authentication sets `icekeeper.user` (the actor's id) and `icekeeper.access_token` (the UUID of
    the token's row) for the access log, and `icekeeper.actor` for the audit trail. A view sets `icekeeper.warehouse`
    (the warehouse id) when the path does not contain it.
    """

    def __init__(self) -> None:
        install_statement_limits()
        # The handlers release connections before the response is sent, so that slow clients do not occupy them.
        signals.request_started.disconnect(close_old_connections)
        signals.request_finished.disconnect(close_old_connections)
        if not settings.DEBUG:
            signals.request_started.disconnect(reset_queries)  # queries are only recorded in debug mode
        # No cache needs to be closed, and each handler that reads the thread's URL configuration sets it first.
        signals.request_finished.disconnect(close_caches)
        signals.request_finished.disconnect(reset_urlconf)
        self._api, self._pages = ApiHandler(), PageHandler()
        self._prefixes: tuple[str, ...] = settings.API_PREFIXES
        self._body_limit: int = settings.ICEKEEPER.max_request_body_size
        self._time_limit: float = settings.ICEKEEPER.max_request_time
        get_resolver().url_patterns  # noqa: B018 - loads all views now instead of in the first request

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        target = environ.get("RAW_URI")
        if not target:
            logger.error("the HTTP server does not pass the raw request target (RAW_URI): use manage.py serve")
            raise ImproperlyConfigured("RAW_URI is missing from the WSGI environ")
        request_id = choose_request_id(environ.get("HTTP_X_REQUEST_ID"))
        environ["icekeeper.request_id"] = request_id.text
        arrived: float = environ.setdefault("icekeeper.arrived", monotonic())
        context = begin_request(request_id, environ)
        outer = context.deadline, context.has_written, context.rechecks
        context.deadline, context.has_written, context.rechecks = arrived + self._time_limit, False, {}
        try:
            try:
                is_api = set_path(environ, target, self._prefixes)
                limit_body(environ, self._body_limit)
            except CatalogError as error:
                environ["icekeeper.error"] = error
                is_api = True
            handler = self._api if is_api else self._pages
            return handler(environ, start_response)
        finally:
            context.deadline, context.has_written, context.rechecks = outer


Handle = Callable[[HttpRequest], HttpResponseBase]


class EdgeHandler(WSGIHandler):
    """Sets length and request id of every response, calls `settings.RESPONSE_HOOKS` before it is sent, and logs it."""

    def __init__(self) -> None:
        super().__init__()
        self._hooks = [import_string(path) for path in settings.RESPONSE_HOOKS]
        self._observers: list[Callable[[HttpRequest, HttpResponseBase], None]] = [log_request]
        """They are called when the server closes the response, after its last byte was sent."""

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        return self._complete(request, super().get_response(request))

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        match: ResolverMatch = super().resolve_request(request)
        request_started(request.method, match.route)
        return match

    def _complete(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        meta = request.META
        closers: list[Callable[[], None]] = response._resource_closers  # type: ignore[attr-defined]  # noqa: SLF001
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
            closers.append(release_connections)
        closers += [partial(observe, request, response) for observe in self._observers]
        return response


class PageHandler(EdgeHandler):
    """Handles all paths outside of the APIs, with `settings.MIDDLEWARE`."""


class ApiHandler(EdgeHandler):
    """Handles the APIs, with `settings.API_MIDDLEWARE` (plain callables), and the JSON envelope for every error.

    `settings.REQUEST_OBSERVERS` are called after the log line. An error that was found before Django
    (`environ["icekeeper.error"]`) is raised inside of all middleware, so that its response has the same headers as
    others, including those for browsers (CORS).
    """

    def __init__(self) -> None:
        super().__init__()
        self._observers += [import_string(path) for path in settings.REQUEST_OBSERVERS]

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

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Skip Django's per-thread URL configuration and its additional log line for errors."""
        response = self._middleware_chain(request)
        response._resource_closers.append(request.close)  # type: ignore[attr-defined]  # noqa: SLF001
        return self._complete(request, response)

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


def _catch_errors(handle: Handle) -> Handle:
    def handle_safely(request: HttpRequest) -> HttpResponseBase:
        try:
            return handle(request)
        except Exception as error:  # noqa: BLE001 - every error gets a response in the APIs' envelope
            return error_response(error)

    return handle_safely


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _respond(request, BadRequest("Malformed request"))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _respond(request, Forbidden("Forbidden"))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _respond(request, NotFound("No such resource"))


def server_error(request: HttpRequest) -> HttpResponse:
    """Return a 500 for the exception that Django is handling, which is logged."""
    error = sys.exc_info()[1]
    return _respond(request, error if isinstance(error, Exception) else CatalogError("Unexpected error"))


def _respond(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return the error as JSON, or as a page for the console; the page needs neither session nor database."""
    response = error_response(error)
    return error_notice(request, response) if is_console_path(request) else response
