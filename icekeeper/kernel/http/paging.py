"""Pages of listings by keyset, and the page tokens that carry the last key, so that insertions do not move a page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

import orjson

from icekeeper.kernel.errors.types import BadRequest, InvalidPageToken
from icekeeper.kernel.ids import parse_id

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


MIN_ID = UUID(int=0)
NO_LIMIT = 2**62
"""A limit that limits nothing, so that one prepared statement serves listings with and without pages."""
MAX_PAGE_SIZE = 999_999_999
"""That a request may ask for; what it gets is bounded by the server's own limit."""


@dataclass(frozen=True, slots=True)
class Page:
    """What part of a listing of `kind` is asked for. `limit` None: all of it, as when a client sends no pageToken.

    `wrong_size` is why the size that the client sent is none. It is raised by whoever asks for the size, as a wrong
    token is by whoever asks where the page starts: once the caller is known to have access to what is listed, so that
    the response to wrong parameters never shows whether a hidden object exists.
    """

    kind: str
    token: str | None
    limit: int | None
    wrong_size: BadRequest | None = None

    @property
    def size(self) -> int | None:
        """Raises `BadRequest` when the client sent none that is valid."""
        if self.wrong_size is not None:
            raise self.wrong_size
        return self.limit

    @property
    def sql_limit(self) -> int:
        """Raises as `size`."""
        return NO_LIMIT if self.size is None else self.size + 1

    def bounds(self) -> tuple[UUID, int]:
        """`after_id` and `sql_limit` for a statement that reads rows and permissions at once; no rows for a wrong page.

        Raises nothing: `after_id` and `size` do, once the caller is authorized.
        """
        try:
            return self.after_id(), self.sql_limit
        except BadRequest:
            return MIN_ID, 0

    def after_id(self) -> UUID:
        """The id that the page starts behind, in listings by id; `MIN_ID` at the beginning."""
        if not self.token:
            return MIN_ID
        after = parse_id(self.after_key())
        if after is None:
            raise InvalidPageToken("Invalid page token")
        return after

    def after_key(self) -> str:
        """The key that the page starts behind, in listings by a text; empty at the beginning."""
        if not self.token:
            return ""
        key = read_page_token(self.token, self.kind, parts=1)[0]
        if not key:
            raise InvalidPageToken("Invalid page token")
        return key


def page_with_size(kind: str, token: str | None, given: str | None, name: str, *, default: int, maximum: int) -> Page:
    """The page of the size `given` in the query parameter `name`, `default` for None, at most `maximum`."""
    if given is None:
        return Page(kind, token, min(default, maximum))
    if given.isascii() and given.isdigit() and len(given) <= len(str(MAX_PAGE_SIZE)) and int(given):
        return Page(kind, token, min(int(given), maximum))
    return Page(kind, token, None, BadRequest(f"{name}: must be a number from 1 to {MAX_PAGE_SIZE}"))


T = TypeVar("T")


def build_page(found: Sequence[tuple[object, T]], page: Page) -> tuple[list[T], str | None]:
    """The items of `page` out of (key, item) pairs, one more of which may have been read, and the next token."""
    if page.size is None or len(found) <= page.size:
        return [item for _, item in found], None
    shown = found[: page.size]
    return [item for _, item in shown], write_page_token(page.kind, str(shown[-1][0]))


def listing_key(kind: str, *bounds: object) -> str:
    """A kind of listing for tokens that are to hold for the same place and the same filters, the `bounds`, alone."""
    digest = blake2b(repr(bounds).encode(errors="surrogatepass"), digest_size=8)
    return f"{kind} {digest.hexdigest()}"
