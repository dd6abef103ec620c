"""User ids in addresses of the console: one segment of a path, which no proxy rewrites.

Letters, digits and `._~@-` stand for themselves, every other byte of UTF-8 as `=XX`. `%2F` would not do: servers and
proxies decode it before they split the path.
"""

from __future__ import annotations

import re
from typing import Final

from django.urls import reverse

from icekeeper.kernel.errors.types import BadRequest
from tenancy.actor import require_user_id

_ENCODED: Final = re.compile(rb"[^A-Za-z0-9._~@-]")
_ESCAPE: Final = re.compile(rb"=([0-9A-F]{2})")


def encode_user_id(user_id: str) -> str:
    """Return a user id as one segment of a path. No user id becomes `.` or `..`: each has a `~`."""
    return _ENCODED.sub(lambda found: b"=%02X" % found[0][0], user_id.encode(errors="surrogatepass")).decode()


def decode_user_id(segment: str) -> str:
    """Reverse `encode_user_id`. Raises `ValueError` for any other text, so that each user has one address."""
    try:
        user_id = require_user_id(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), segment.encode()).decode())
    except BadRequest as error:
        raise ValueError(error.message) from None
    if encode_user_id(user_id) != segment:
        raise ValueError("not the canonical form")
    return user_id


class UserIdConverter:
    """Django's path converter `user_id`; an address with another text has no page."""

    regex = r"[A-Za-z0-9._~@=-]+"

    def to_python(self, value: str) -> str:
        return decode_user_id(value)

    def to_url(self, value: str) -> str:
        return encode_user_id(value)


def user_url(user_id: str) -> str:
    """Return the address of the page of a user."""
    return reverse("admin:user", args=[user_id])
