"""Views that return what they received, and views that misbehave, for tests of the server."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import orjson
from django.db import connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path, register_converter
from django.views.decorators.http import require_GET
from rest_framework.request import Request
from rest_framework.views import APIView

from icekeeper.kernel.http.base_url import base_url
from icekeeper.kernel.http.raw_path import decode_levels
from icekeeper.kernel.request_context import begin_write, current_context, remaining_seconds
from icekeeper.kernel.threads import release_thread_slot
from management.health import health, live, ready


class Levels:
    """A namespace, as the catalog's own converters read it."""

    regex = "[^/]+"

    def to_python(self, value: str) -> tuple[str, ...]:
        return decode_levels(value)

    def to_url(self, value: tuple[str, ...]) -> str:
        raise NotImplementedError


register_converter(Levels, "levels")


def _json(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(orjson.dumps(value), content_type="application/json", status=status)


def echo(request: HttpRequest) -> HttpResponse:
    request_id = current_context().request_id
    return _json(
        {
            "method": request.method,
            "path_info": request.path_info,
            "query": request.META["QUERY_STRING"],
            "body": request.body.decode(),
            "request_id": None if request_id is None else request_id.text,
            "remaining": remaining_seconds(),
            "process": os.getpid(),
        }
    )


def levels(request: HttpRequest, name: tuple[str, ...]) -> HttpResponse:
    return _json(list(name))


def sleep(request: HttpRequest) -> HttpResponse:
    time.sleep(float(request.GET["seconds"]))
    return _json({"slept": True})


def hold(request: HttpRequest) -> HttpResponse:
    """Keep the thread until the test creates the file `release`; create the file `begun` when it has the thread."""
    Path(request.GET["begun"]).touch()
    give_up = time.monotonic() + 90
    while time.monotonic() < give_up and not Path(request.GET["release"]).exists():
        time.sleep(0.01)
    return _json({"held": True})


def wait(request: HttpRequest) -> HttpResponse:
    """As `hold`, but marked as a wait for other requests."""
    with release_thread_slot():
        return hold(request)


def large(request: HttpRequest) -> HttpResponse:
    response = _json({"filler": "iceberg " * int(request.GET.get("words", "2000"))})
    response["ETag"] = request.GET.get("etag", 'W/"weak"')
    return response


def parts(request: HttpRequest) -> StreamingHttpResponse:
    """Send `count` parts of 4096 bytes."""
    count = int(request.GET["count"])
    response = StreamingHttpResponse(b"part" * 1024 for _ in range(count))
    response["Content-Length"] = str(count * 4096)
    return response


def nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204)


def not_modified(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=304, headers={"ETag": 'W/"weak"'})


def ignore_body(request: HttpRequest) -> HttpResponse:
    return _json({"read": False})


def fail(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError("a secret reason")


def address(request: HttpRequest) -> HttpResponse:
    from django.conf import settings

    return _json({"base_url": base_url(request.META, settings.ICEKEEPER)})


def slow_statement(request: HttpRequest) -> HttpResponse:
    """Create the file `mark` when the statement is sent to the database."""

    def mark(execute: Any, *statement: Any) -> Any:
        Path(request.GET["mark"]).touch()
        return execute(*statement)

    time.sleep(float(request.GET.get("after", "0")))
    with connection.cursor() as cursor, connection.execute_wrapper(mark):
        cursor.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000000000) SELECT max(i) FROM n"
        )
        return _json(cursor.fetchone())


def started_write(request: HttpRequest) -> HttpResponse:
    """Exceed the deadline after the first write; later statements still run."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        time.sleep(1.5)
        cursor.execute("SELECT 1")
        begin_write()
        time.sleep(float(request.GET["seconds"]) - 1.5)
        cursor.execute("SELECT 1")
        return _json(cursor.fetchone())


def statement_limit(request: HttpRequest) -> HttpResponse:
    """Return the session's statement timeout (PostgreSQL) or lock timeout (SQLite)."""
    time.sleep(float(request.GET.get("after", "0")))
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout" if connection.vendor == "postgresql" else "PRAGMA busy_timeout")
        return _json(cursor.fetchone())


@require_GET
def only_get(request: HttpRequest) -> HttpResponse:
    return _json({})


class Framework(APIView):
    """A view in the style of the APIs."""

    authentication_classes = ()
    permission_classes = ()

    def get(self, request: Request) -> HttpResponse:
        return _json({"framework": True})


urlpatterns = [
    path("catalog/v1/echo", echo),
    path("catalog/v1/namespaces/<levels:name>", levels),
    path("catalog/v1/sleep", sleep),
    path("catalog/v1/hold", hold),
    path("catalog/v1/wait", wait),
    path("catalog/v1/large", large),
    path("catalog/v1/parts", parts),
    path("catalog/v1/nothing", nothing),
    path("catalog/v1/not-modified", not_modified),
    path("catalog/v1/ignore-body", ignore_body),
    path("catalog/v1/fail", fail),
    path("catalog/v1/address", address),
    path("catalog/v1/slow-statement", slow_statement),
    path("catalog/v1/started-write", started_write),
    path("catalog/v1/statement-limit", statement_limit),
    path("catalog/v1/only-get", only_get),
    path("catalog/v1/framework", Framework.as_view()),
    path("health", health),
    path("health/live", live),
    path("health/ready", ready),
    path("page", echo),
    path("page/fail", fail),
]
handler400 = "icekeeper.http.application.bad_request"
handler403 = "icekeeper.http.application.forbidden"
handler404 = "icekeeper.http.application.not_found"
handler500 = "icekeeper.http.application.server_error"
