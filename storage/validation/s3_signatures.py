"""Whether a store holds the sender of a signed request to all that was signed.

Each probe is a good request that its sender changed after it was signed. What the store obeys, it does not enforce.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from storage.errors import StoreRefused
from storage.identity.keys import Keys
from storage.profiles.s3 import S3Profile
from storage.signing.enforcement import Enforcement
from storage.validation.s3_requests import SignedRequest, StoreFailed, encoded_key, send, sign
from storage.validation.s3_spellings import delete_objects

_ADDED_PARAMETER: Final = "x-id=PutObject"
"""Without meaning to stores, but part of what is signed."""
_FOREIGN_COPIES: Final = ("x-oss-copy-source", "x-obs-copy-source", "x-goog-copy-source")
_COPY_OF_COS: Final = "x-cos-copy-source"
"""It names the source by the host of its bucket."""


def probe_enforcement(
    profile: S3Profile, keys: Keys, *, key: str, victim: str, content: bytes, exists: Callable[[str], bool]
) -> Enforcement:
    """What the store enforces of signatures by `keys`.

    `victim` is an object that holds `content`, `key` one that is not there and that the probe writes and deletes;
    `exists` returns whether an object exists. Raises `StoreRefused` when unchanged requests are rejected,
    `StoreUnavailable`.
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
    """Whether the store copies `victim` to `key` for a header of its own that was added to the signed, empty PUT.

    One request has the headers of all these stores: each knows its own. Only the content of the object proves it.
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
