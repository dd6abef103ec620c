"""Middleware of the APIs: gzip, and the caching headers of responses."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

SMALLEST = 1024
"""Answers of fewer bytes fit into one packet anyway."""

_LEVEL = 1
"""JSON shrinks to about a tenth at the lowest level; higher ones cost several times the CPU for a few per cent more."""

_GZIP_FORMAT = 31


def compress_responses(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Middleware: gzip a body over 1 KiB when Accept-Encoding allows it.

    Vary names Accept-Encoding whether or not this client got gzip. A strong ETag becomes a weak one, because the bytes
    differ; clients send it back as they got it, and If-None-Match is compared weakly (RFC 9110 §13.1.2).
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if (
            isinstance(response, HttpResponse)
            and request.method != "HEAD"
            and response.status_code not in (204, 304)
            and len(response.content) > SMALLEST
            and "Content-Encoding" not in response.headers
        ):
            add_vary(response, "Accept-Encoding")
            if accepts_gzip(request.META.get("HTTP_ACCEPT_ENCODING", "")):
                _compress(response)
        return response

    return middleware


def _compress(response: HttpResponse) -> None:
    response.content = zlib.compress(response.content, _LEVEL, wbits=_GZIP_FORMAT)
    response.headers["Content-Encoding"] = "gzip"
    if "Content-Length" in response.headers:
        response.headers["Content-Length"] = str(len(response.content))
    etag = response.headers.get("ETag")
    if etag is not None and not etag.startswith("W/"):
        response.headers["ETag"] = f"W/{etag}"


def add_vary(response: HttpResponseBase, names: str) -> None:
    """Append `names` (a comma list) to Vary; those that are there already stay where they are."""
    given = response.headers.get("Vary")
    response.headers["Vary"] = names if given is None else _joined(given, names)


@lru_cache(maxsize=256)
def _joined(given: str, names: str) -> str:
    there = {name.strip().lower() for name in given.split(",")}
    missing = [] if "*" in there else [name for name in names.split(", ") if name.lower() not in there]
    return ", ".join((given, *missing))


@lru_cache(maxsize=256)
def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header allows gzip: named, or covered by `*`, with a weight above 0."""
    weights: dict[str, float] = {}
    for item in accept_encoding.lower().split(","):
        coding, _, parameters = item.partition(";")
        name, _, value = parameters.strip().partition("=")
        try:
            weight = float(value) if name.strip() == "q" else 1.0
        except ValueError:
            weight = 0.0
        weights[coding.strip()] = weight
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


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
