"""Page tokens: the sort key of the last item of a page, where the next page begins.

Clients can read and forge them; `catalog.selectors.sealed_page_tokens` encrypts them where that matters.
"""

from __future__ import annotations

import base64
import binascii

import orjson

from icekeeper.kernel.errors.types import InvalidPageToken

VERSION = 1


def write_page_token(kind: str, *after: str) -> str:
    """Return the token that continues a listing of `kind` after the sort key `after`."""
    return encode_token(orjson.dumps([VERSION, kind, *after]))


def read_page_token(token: str, kind: str, *, parts: int) -> list[str]:
    """Return the sort key in a token for `kind`: `parts` strings. Raises `InvalidPageToken` (400)."""
    try:
        document = orjson.loads(decode_token(token))
    except orjson.JSONDecodeError:
        raise InvalidPageToken("Invalid page token") from None
    if not isinstance(document, list) or document[:2] != [VERSION, kind] or len(document) != parts + 2:
        raise InvalidPageToken("Invalid page token")
    after = document[2:]
    if not all(isinstance(part, str) and "\x00" not in part for part in after):
        raise InvalidPageToken("Invalid page token")
    return after


def encode_token(token: bytes) -> str:
    """Return the URL-safe base64 of `token`, without padding."""
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def decode_token(text: str) -> bytes:
    """Reverse `encode_token`. Raises `InvalidPageToken`."""
    try:
        raw = text.encode("ascii")
        return base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise InvalidPageToken("Invalid page token") from None
