"""Whether vended keys of S3 reach another folder by keys that the store resolves after it compared them with a policy.

MinIO does so for DeleteObjects: `t/../other/x` matches a policy for `t/*`, and `other/x` is deleted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Final
from xml.sax.saxutils import escape

from storage.errors import StoreUnavailable
from storage.identity.keys import Keys
from storage.profiles.s3 import S3Profile
from storage.validation.s3_requests import SignedRequest, StoreFailed, StoreResponse, encoded_key, send, sign

_WAYS_UP: Final = ("/../", "/./../", "//../", "/%2e%2e/", "/..\\", "/x\\..\\..\\", "/.. /")
"""From the folder of a table to the folder around it, as some store may read a key. Each begins with the slash that
ends the folder in a policy."""
_PATHS_UP: Final = ("/../", "/%2e%2e/", "//../", "/..%2F", "/..%5C")
"""The same in the path of a request, percent-encoded."""


def delete_beside(profile: S3Profile, keys: Keys, *, table: str, name: str, exists: Callable[[], bool]) -> str | None:
    """The spelling that deletes the object `name` of the folder around `table`, a key without a slash at its end.

    `exists` returns whether the object still exists; the response of the store proves nothing, so a spelling at which
    it fails (500, 502) does not end the others. Raises `StoreUnavailable` when it does not respond, or is too busy.
    """
    for up in _WAYS_UP:  # each by itself: MinIO locks all names of a request, and waits for itself at the second alias
        _try(up, delete_objects(profile, keys, f"{table}{up}{name}"))
        if not exists():
            return up
    for up in _PATHS_UP:
        _try(up, sign(profile, keys, "DELETE", _path(table, up, name)))
        if not exists():
            return up
    return None


def reads_beside(profile: S3Profile, keys: Keys, *, table: str, name: str, content: bytes) -> str | None:
    """The spelling that reads the object, which holds `content`. Raises as `delete_beside`."""
    for up in _PATHS_UP:
        response = _try(up, sign(profile, keys, "GET", _path(table, up, name)))
        if response is not None and content in response.body:
            return up
    return None


def writes_beside(
    profile: S3Profile, keys: Keys, *, table: str, name: str, content: bytes, exists: Callable[[], bool]
) -> str | None:
    """The spelling that writes an object there; `exists` returns whether it exists. Raises as `delete_beside`.

    A store that takes the dots for plain characters may write an object of that very key below `table`, which is
    deleted.
    """
    for up in _PATHS_UP:
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
    """Return the response to a request with `up` in its key, None when the store failed at it."""
    try:
        return send(request)
    except StoreFailed:
        return None
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{error.message}, asked for a key with '{up}'") from None


def delete_objects(profile: S3Profile, keys: Keys, *names: str) -> SignedRequest:
    """A signed DeleteObjects."""
    objects = "".join(f"<Object><Key>{escape(name)}</Key></Object>" for name in names)
    body = f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}</Delete>'.encode()
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return sign(profile, keys, "POST", "", parameters=(("delete", ""),), headers={"content-md5": digest}, body=body)
