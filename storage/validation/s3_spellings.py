"""Whether vended keys of S3 reach another folder by keys that the store resolves after it compared them with a policy.

MinIO does so for DeleteObjects: `t/../other/x` matches a policy for `t/*`, and `other/x` is deleted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Final
from xml.sax.saxutils import escape

from storage.identity.keys import Keys
from storage.profiles.s3 import S3Profile
from storage.validation.s3_requests import SignedRequest, encoded_key, send, sign

_WAYS_UP: Final = ("/../", "/./../", "//../", "/%2e%2e/", "\\..\\", "/.. /")
"""From the folder of a table to the folder around it, as some store may read a key."""
_PATHS_UP: Final = ("/../", "/%2e%2e/", "//../")
"""The same in the path of a request, percent-encoded."""


def delete_beside(profile: S3Profile, keys: Keys, *, table: str, name: str) -> None:
    """Try to delete the object `name` of the folder around `table`, a key without a slash at its end.

    Whether it is still there is for the caller to see; what the store answers proves nothing. Raises
    `StoreUnavailable` when the store fails or does not answer.
    """
    for up in _WAYS_UP:  # each by itself: MinIO locks all names of a request, and waits for itself at the second alias
        send(delete_objects(profile, keys, f"{table}{up}{name}"))
    for up in _PATHS_UP:
        send(sign(profile, keys, "DELETE", f"{encoded_key(table)}{up}{encoded_key(name)}"))


def reads_beside(profile: S3Profile, keys: Keys, *, table: str, name: str, content: bytes) -> bool:
    """Whether the object, which holds `content`, can be read. Raises as `delete_beside`."""
    paths = [f"{encoded_key(table)}{up}{encoded_key(name)}" for up in _PATHS_UP]
    return any(content in send(sign(profile, keys, "GET", path)).body for path in paths)


def writes_beside(
    profile: S3Profile, keys: Keys, *, table: str, name: str, content: bytes, exists: Callable[[], bool]
) -> bool:
    """Whether an object can be written there; `exists` tells whether it is there. Raises as `delete_beside`.

    A store that takes the dots for plain characters may write an object of that very key below `table`, which is
    deleted.
    """
    for up in _PATHS_UP:
        path = f"{encoded_key(table)}{up}{encoded_key(name)}"
        if send(sign(profile, keys, "PUT", path, body=content)).is_success:
            if exists():
                return True
            send(sign(profile, keys, "DELETE", path))
    return exists()


def delete_objects(profile: S3Profile, keys: Keys, *names: str) -> SignedRequest:
    """A signed DeleteObjects."""
    objects = "".join(f"<Object><Key>{escape(name)}</Key></Object>" for name in names)
    body = f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}</Delete>'.encode()
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return sign(profile, keys, "POST", "", parameters=(("delete", ""),), headers={"content-md5": digest}, body=body)
