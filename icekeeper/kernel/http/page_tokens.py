"""Opaque page tokens: the sort key of the last item that was sent, so that a page starts right behind it.

Whoever likes can read and make them; where that matters there is `icekeeper.kernel.http.sealed_page_tokens`.
"""

from __future__ import annotations

import base64
import binascii

import orjson

from icekeeper.kernel.errors.types import InvalidPageToken

VERSION = 1


def write_page_token(kind: str, *after: str) -> str:
    """A token that continues a listing of `kind` behind the sort key `after`."""
    return text_of(orjson.dumps([VERSION, kind, *after]))


def read_page_token(token: str, kind: str, *, parts: int) -> list[str]:
    """The sort key of a token made for `kind`, `parts` strings. Raises `InvalidPageToken` (400) for anything else."""
    try:
        document = orjson.loads(bytes_of(token))
    except orjson.JSONDecodeError:
        raise InvalidPageToken("Invalid page token") from None
    if not isinstance(document, list) or document[:2] != [VERSION, kind] or len(document) != parts + 2:
        raise InvalidPageToken("Invalid page token")
    after = document[2:]
    if not all(isinstance(part, str) and "\x00" not in part for part in after):
        raise InvalidPageToken("Invalid page token")
    return after


def text_of(token: bytes) -> str:
    """As it goes into addresses."""
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def bytes_of(text: str) -> bytes:
    """What `text_of` made a text of. Raises `InvalidPageToken`."""
    try:
        raw = text.encode("ascii")
        return base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise InvalidPageToken("Invalid page token") from None
