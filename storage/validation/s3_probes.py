"""Probes of an S3 store: does it enforce signatures, and do vended keys open other folders?

`probe_enforcement` sends valid requests that were changed after they were signed: what the store obeys, it does not
enforce. The other probes use object keys that a store may resolve after it has compared them with the policy. MinIO
does so for DeleteObjects: `t/../other/x` matches a policy for `t/*`, and `other/x` is deleted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote, urlsplit
from xml.sax.saxutils import escape

import requests

from icekeeper.kernel.clock import now
from icekeeper.kernel.http.client import BoundedSession, ResponseNotRead
from icekeeper.kernel.threads import release_thread_slot
from storage.errors import StoreRefused, StoreUnavailable
from storage.identity.keys import Keys
from storage.io.s3 import bucket_endpoint, uses_path_style
from storage.network.store_http import ca_bundle, store_session, timeouts
from storage.profiles.s3 import S3Profile
from storage.signing.enforcement import Enforcement
from storage.signing.signer import UNSIGNED_PAYLOAD, signature_headers
from storage.signing.uri import Parameters, canonical_path, canonical_query

_PARENT_KEYS: Final = ("/../", "/./../", "//../", "/%2e%2e/", "/..\\", "/x\\..\\..\\", "/.. /")
"""Segments of a key that a store may resolve to the parent folder. Each begins with the slash that ends the folder in a
policy."""
_PARENT_PATHS: Final = ("/../", "/%2e%2e/", "//../", "/..%2F", "/..%5C")
"""The same, percent-encoded, in the path of a request."""


def delete_outside(profile: S3Profile, keys: Keys, *, table: str, name: str, exists: Callable[[], bool]) -> str | None:
    """Try to delete the object `name` in the parent folder of `table`; return the segments that worked, or None.

    `exists` returns whether the object still exists; the response of the store proves nothing, so a server error (500,
    502) does not stop the probe. Raises `StoreUnavailable` when the store does not respond, or is too busy.
    """
    for up in _PARENT_KEYS:  # one a request: MinIO deadlocks on two aliases of a key
        _try(up, delete_objects(profile, keys, f"{table}{up}{name}"))
        if not exists():
            return up
    for up in _PARENT_PATHS:
        _try(up, sign(profile, keys, "DELETE", _path(table, up, name)))
        if not exists():
            return up
    return None


def read_outside(profile: S3Profile, keys: Keys, *, table: str, name: str, content: bytes) -> str | None:
    """Try to read the object with `content`; return the segments that worked, or None. Raises as `delete_outside`."""
    for up in _PARENT_PATHS:
        response = _try(up, sign(profile, keys, "GET", _path(table, up, name)))
        if response is not None and content in response.body:
            return up
    return None


def write_outside(
    profile: S3Profile, keys: Keys, *, table: str, name: str, content: bytes, exists: Callable[[], bool]
) -> str | None:
    """Try to create the object; return the segments that worked, or None. Raises as `delete_outside`.

    A store that does not resolve dot segments may create an object with exactly that key, which is deleted.
    """
    for up in _PARENT_PATHS:
        path = _path(table, up, name)
        response = _try(up, sign(profile, keys, "PUT", path, body=content))
        if exists():
            return up
        if response is None or response.is_success:
            _try(up, sign(profile, keys, "DELETE", path))
    return None


def _path(table: str, up: str, name: str) -> str:
    return f"{encoded_key(table)}{up}{encoded_key(name)}"


def _try(up: str, request: SignedRequest) -> StoreResponse | None:
    """Send a request with `up` in its key; None after a server error."""
    try:
        return send(request)
    except StoreFailed:
        return None
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{error.message}, asked for a key with '{up}'") from None


def delete_objects(profile: S3Profile, keys: Keys, *names: str) -> SignedRequest:
    """Return a signed DeleteObjects request."""
    objects = "".join(f"<Object><Key>{escape(name)}</Key></Object>" for name in names)
    body = f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}</Delete>'.encode()
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return sign(profile, keys, "POST", "", parameters=(("delete", ""),), headers={"content-md5": digest}, body=body)


_ADDED_PARAMETER: Final = "x-id=PutObject"
"""Ignored by stores, but part of the signature."""
_FOREIGN_COPIES: Final = ("x-oss-copy-source", "x-obs-copy-source", "x-goog-copy-source")
_COPY_OF_COS: Final = "x-cos-copy-source"
"""Its value begins with the host of the source bucket."""


def probe_enforcement(
    profile: S3Profile, keys: Keys, *, key: str, victim: str, content: bytes, exists: Callable[[str], bool]
) -> Enforcement:
    """Return what the store enforces of signatures by `keys`.

    `victim` is an object with `content`; the probe creates and deletes `key`. `exists` returns whether an object
    exists. Raises `StoreRefused` if unchanged requests are rejected, `StoreUnavailable`.
    """
    put = sign(profile, keys, "PUT", encoded_key(key), body=content, signs_body=False)
    if not send(put).is_success:
        raise StoreRefused("The store refuses a signed PUT of an object")
    source = f"/{profile.bucket}/{encoded_key(victim)}"
    changed = (
        replace(put, headers=put.headers | {"x-amz-copy-source": source}),
        replace(put, headers=put.headers | {"x-amz-meta-unsigned": "yes"}),
        replace(put, url=f"{put.url}?{_ADDED_PARAMETER}"),
    )
    if any(send(request).is_success for request in changed):
        return Enforcement.NONE
    if _copies_by_other_headers(profile, keys, put, key=key, victim=victim, content=content):
        return Enforcement.NONE
    deletion = delete_objects(profile, keys, key)
    if not send(deletion).is_success or exists(key):
        return Enforcement.REQUESTS  # a store without DeleteObjects
    other = delete_objects(profile, keys, victim)
    for headers in ({}, {"content-md5": other.headers["content-md5"]}):
        send(replace(deletion, body=other.body, headers=deletion.headers | headers))
    return Enforcement.REQUESTS_AND_BODIES if exists(victim) else Enforcement.REQUESTS


def _copies_by_other_headers(
    profile: S3Profile, keys: Keys, put: SignedRequest, *, key: str, victim: str, content: bytes
) -> bool:
    """Return whether the store copies `victim` to `key` because of an unsigned header of its own in an empty PUT.

    One request has the headers of all these stores. Only the content of the object proves the copy.
    """
    source = f"{profile.bucket}/{encoded_key(victim)}"
    host = urlsplit(put.url).netloc
    of_cos = host if host.startswith(f"{profile.bucket}.") else f"{profile.bucket}.{host}"
    headers = dict.fromkeys(_FOREIGN_COPIES, f"/{source}") | {_COPY_OF_COS: f"{of_cos}/{encoded_key(victim)}"}
    try:
        if not send(replace(put, headers=put.headers | headers, body=b"")).is_success:
            return False
        return send(sign(profile, keys, "GET", encoded_key(key))).body == content
    except StoreFailed:
        return False


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
    limits = timeouts()
    host = urlsplit(request.url).netloc
    try:
        prepared = _session().prepare_request(
            requests.Request(request.method, f"http://{host}/", headers=request.headers, data=request.body)
        )
        prepared.url = request.url  # requests would normalize dot segments
        with release_thread_slot():
            response = _session().send(prepared, timeout=limits, verify=ca_bundle())
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
