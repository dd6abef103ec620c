"""Keyset pagination: a page begins after the sort key of the last item of the previous one, which its token holds.

Clients can read and forge tokens; `catalog.selectors.visible_pages` encrypts them where that matters.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
"""A limit above any number of rows, so that one prepared statement serves listings with and without pages."""
MAX_PAGE_SIZE = 999_999_999
"""The maximum that a request may contain; the server reduces it to its own limit."""


@dataclass(frozen=True, slots=True)
class Page:
    """The requested page of a listing of `kind`; all of it if `limit` is None, as when a client sends no pageToken.

    An invalid size (`size_error`) or token is raised only by `size`, `after_id` and `after_key`, which are read after
    the authorization, so that the response to invalid parameters does not show whether a hidden object exists.
    """

    kind: str
    token: str | None
    limit: int | None
    size_error: BadRequest | None = None

    @property
    def size(self) -> int | None:
        """Raises `BadRequest` for an invalid size."""
        if self.size_error is not None:
            raise self.size_error
        return self.limit

    @property
    def sql_limit(self) -> int:
        """The page size and one row more, which shows that a next page exists. Raises what `size` raises."""
        return NO_LIMIT if self.size is None else self.size + 1

    def bounds(self) -> tuple[UUID, int]:
        """Return `after_id` and `sql_limit` for a statement that reads rows and permissions together.

        Raises nothing: for an invalid page the limit is 0, and `after_id` and `size` raise after the authorization.
        """
        try:
            return self.after_id(), self.sql_limit
        except BadRequest:
            return MIN_ID, 0

    def after_id(self) -> UUID:
        """Return the id of the last item of the previous page, in listings by id; `MIN_ID` for the first page."""
        if not self.token:
            return MIN_ID
        after = parse_id(self.after_key())
        if after is None:
            raise InvalidPageToken("Invalid page token")
        return after

    def after_key(self) -> str:
        """Return the key of the last item of the previous page, in listings by text; empty for the first page."""
        if not self.token:
            return ""
        key = read_page_token(self.token, self.kind, parts=1)[0]
        if not key:
            raise InvalidPageToken("Invalid page token")
        return key

    def after_time_and_id(self) -> tuple[datetime, UUID]:
        """Return the time and id of the last item of the previous page, in listings by `time_and_id_key`."""
        text, _, last = self.after_key().partition(" ")
        item_id = parse_id(last)
        try:
            at = datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):
            raise InvalidPageToken("Invalid page token") from None
        if item_id is None:
            raise InvalidPageToken("Invalid page token")
        return at, item_id


def time_and_id_key(at: datetime, item_id: UUID) -> str:
    """Return the key of an item in listings by time, where items of one time are in the order of their ids."""
    return f"{at.isoformat()} {item_id}"


def page_with_size(kind: str, token: str | None, given: str | None, name: str, *, default: int, maximum: int) -> Page:
    """Return the page of the size `given` in the query parameter `name`: `default` if None, at most `maximum`."""
    if given is None:
        return Page(kind, token, min(default, maximum))
    if given.isascii() and given.isdigit() and len(given) <= len(str(MAX_PAGE_SIZE)) and int(given):
        return Page(kind, token, min(int(given), maximum))
    return Page(kind, token, None, BadRequest(f"{name}: must be a number from 1 to {MAX_PAGE_SIZE}"))


T = TypeVar("T")


def build_page(found: Sequence[tuple[object, T]], page: Page) -> tuple[list[T], str | None]:
    """Return the items of `page` and the token of the next one, from (key, item) pairs with up to one pair more."""
    if page.size is None or len(found) <= page.size:
        return [item for _, item in found], None
    shown = found[: page.size]
    return [item for _, item in shown], write_page_token(page.kind, str(shown[-1][0]))


def listing_key(kind: str, *bounds: object) -> str:
    """Return a kind for tokens that are valid only with the same parent and filters, the `bounds`."""
    digest = blake2b(repr(bounds).encode(errors="surrogatepass"), digest_size=8)
    return f"{kind} {digest.hexdigest()}"
