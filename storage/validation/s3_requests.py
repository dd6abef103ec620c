"""Signed S3 requests for probes, with full control over URL, headers and body."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import requests
from django.conf import settings

from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.http.client import BoundedSession, ResponseNotRead
from icekeeper.kernel.thread_slots import release_thread_slot
from storage.errors import StoreUnavailable
from storage.identity.keys import Keys
from storage.io.s3 import bucket_endpoint, uses_path_style
from storage.network.store_http import ca_bundle, store_session
from storage.profiles.s3 import S3Profile
from storage.signing.sigv4 import UNSIGNED_PAYLOAD, signature_headers
from storage.signing.uri import Parameters, canonical_path, canonical_query

MAX_RESPONSE_BYTES: Final = 1024 * 1024
_TOO_MANY, _FAILED, _NOT_IMPLEMENTED, _UNAVAILABLE = 429, 500, 501, 503


class StoreFailed(StoreUnavailable):
    """The store, or a proxy in front of it, responded with a server error."""


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request; the path of `url` is not normalized, `headers` include the signature."""

    method: str
    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class StoreResponse:
    status: int
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004


def sign(
    profile: S3Profile,
    keys: Keys,
    method: str,
    path: str,
    *,
    parameters: Parameters = (),
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    signs_body: bool = True,
) -> SignedRequest:
    """Sign a request for `path`, the percent-encoded key of an object; empty for the bucket itself."""
    base = bucket_endpoint(profile) + (f"/{profile.bucket}" if uses_path_style(profile) else "")
    url = f"{base}/{path}" if path else base
    parts = urlsplit(url)
    given = {"host": parts.netloc, **(headers or {})}
    query = canonical_query(parameters)
    signature = signature_headers(
        method=method,
        path=canonical_path(unquote(parts.path)) or "/",
        query=query,
        headers=given,
        payload=sha256(body).hexdigest() if signs_body else UNSIGNED_PAYLOAD,
        region=profile.region,
        keys=keys,
        at=now(),
    )
    return SignedRequest(method, f"{url}?{query}" if query else url, given | signature, body)


def send(request: SignedRequest) -> StoreResponse:
    """Send a request and return the response, also an error. Redirects are not followed.

    Raises `StoreUnavailable` when the store does not respond or is too busy (429, 503), `StoreFailed` when it fails,
    `RequestTimeout` after the deadline.
    """
    limits, left = settings.ICEKEEPER.storage, request_context.remaining_seconds()
    seconds = limits.request_timeout if left is None else min(limits.request_timeout, left)
    host = urlsplit(request.url).netloc
    try:
        prepared = _session().prepare_request(
            requests.Request(request.method, f"http://{host}/", headers=request.headers, data=request.body)
        )
        prepared.url = request.url  # requests would normalize dot segments
        with release_thread_slot():
            response = _session().send(
                prepared, timeout=(min(limits.connect_timeout, seconds), seconds), verify=ca_bundle()
            )
    except ResponseNotRead as complaint:
        raise StoreUnavailable(f"The object store {complaint}") from None
    except (requests.RequestException, ValueError) as error:
        raise StoreUnavailable(f"The object store did not respond: {type(error).__name__}") from None
    status = response.status_code
    if status in {_TOO_MANY, _UNAVAILABLE}:
        raise StoreUnavailable(f"The object store failed: status {status}")
    if status >= _FAILED and status != _NOT_IMPLEMENTED:
        raise StoreFailed(f"The object store failed: status {status}")
    return StoreResponse(status, response.content)


def encoded_key(key: str) -> str:
    """Percent-encode a key for a path, without normalization of dots."""
    return quote(key, safe="/-_.~")


@lru_cache(maxsize=1)
def _session() -> BoundedSession:
    return store_session(max_bytes=MAX_RESPONSE_BYTES)
