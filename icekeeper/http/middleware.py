"""Middleware of the APIs: gzip, and the caching headers of responses."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

MIN_COMPRESSED_BYTES = 1024
"""Smaller responses fit into one packet."""

_LEVEL = 1
"""The lowest level compresses JSON to about a tenth; higher ones need several times the CPU for a few per cent."""

_GZIP_FORMAT = 31


def compress_responses(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Middleware that compresses a body over 1 KiB with gzip when Accept-Encoding allows it.

    Vary contains Accept-Encoding for every client. A strong ETag becomes a weak one, because the bytes differ;
    If-None-Match is compared weakly (RFC 9110 §13.1.2).
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if (
            isinstance(response, HttpResponse)
            and request.method != "HEAD"
            and response.status_code not in (204, 304)
            and len(response.content) > MIN_COMPRESSED_BYTES
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
    """Append those of `names` (a comma-separated list) to Vary that it does not contain."""
    current = response.headers.get("Vary")
    response.headers["Vary"] = names if current is None else _merge_lists(current, names)


@lru_cache(maxsize=256)
def _merge_lists(current: str, names: str) -> str:
    present = {name.strip().lower() for name in current.split(",")}
    missing = [] if "*" in present else [name for name in names.split(", ") if name.lower() not in present]
    return ", ".join((current, *missing))


@lru_cache(maxsize=256)
def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an Accept-Encoding header allows gzip, by name or by `*`, with a weight above 0."""
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
"""Request headers on which responses depend."""


def mark_private(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Middleware that sets `Vary`, and `Cache-Control: private` unless the view has set another value."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if "Cache-Control" not in response.headers:
            response.headers["Cache-Control"] = "private"
        add_vary(response, VARY)
        return response

    return middleware
