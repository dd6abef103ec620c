"""The WSGI application: one reading of the path, one request id, one deadline, one limit of the body."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from time import monotonic
from typing import Any
from urllib.parse import unquote_to_bytes

from django.conf import settings
from django.core.cache import close_caches
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.base import reset_urlconf
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, reset_queries
from django.urls import get_resolver

from icekeeper.http.handlers import ApiHandler, PageHandler
from icekeeper.http.request_body import limit_body
from icekeeper.kernel.db import statement_deadline
from icekeeper.kernel.errors.types import BadRequest, CatalogError, NotFound
from icekeeper.kernel.http.raw_path import raw_path
from icekeeper.kernel.request.context import begin_request, choose_request_id

_DOT_SEGMENT = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)
_ABSOLUTE_FORM = re.compile(r"https?://", re.IGNORECASE)


def set_path(environ: dict[str, Any], target: str, prefixes: tuple[str, ...]) -> bool:
    """Put the path and the query of `target` into `environ`; True when the path begins with one of `prefixes`.

    Raises `BadRequest` or `NotFound` for a target that can be read in two ways. `icekeeper.path` is the raw path.
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
        raise NotFound("No such resource: an API's prefix must be written without escapes")
    if _DOT_SEGMENT.search(decoded):
        raise BadRequest("Malformed path: . and .. segments are not allowed")
    return False


logger = logging.getLogger("icekeeper.http")


class Application:
    """The WSGI callable. Each request is handled by the API stack or by Django's ordinary one, chosen by its raw path.

    It adds to the environ, and so to `request.META`: `icekeeper.request_id`, `icekeeper.path` (the raw path),
    `icekeeper.arrived` (monotonic seconds; the server's own stamp counts when it made one) and, for a request that
    may not run, `icekeeper.error`. Authentication sets for the log line `icekeeper.user`, the actor's id, and for a
    token of this server `icekeeper.access_token`, the UUID of its row, and for the audit trail `icekeeper.actor`; a
    view sets `icekeeper.warehouse`, the id of the warehouse that the request is about, when the path does not name
    it.
    """

    def __init__(self) -> None:
        statement_deadline.install()
        # The handlers give connections back themselves, before a slow reader gets the answer; once is enough.
        request_started.disconnect(close_old_connections)
        request_finished.disconnect(close_old_connections)
        if not settings.DEBUG:
            request_started.disconnect(reset_queries)  # nothing is remembered that it could forget
        # There is no cache to close, and each handler that reads the thread's URL configuration sets it first.
        request_finished.disconnect(close_caches)
        request_finished.disconnect(reset_urlconf)
        self._api, self._pages = ApiHandler(), PageHandler()
        self._prefixes: tuple[str, ...] = settings.API_PREFIXES
        self._body_limit: int = settings.ICEKEEPER.max_request_body_size
        self._time_limit: float = settings.ICEKEEPER.max_request_time
        get_resolver().url_patterns  # noqa: B018 - loads every view now, once, and not in the first request

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        target = environ.get("RAW_URI")
        if not target:
            logger.error("the server does not hand on the raw request target (RAW_URI): use manage.py serve")
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
