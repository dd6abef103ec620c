"""Pages of listings, by keyset: a page starts behind the last item that was sent, so that insertion moves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

from icekeeper.kernel.errors import BadRequest, InvalidPageToken
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.page_tokens import read_page_token, write_page_token

FIRST = UUID(int=0)
EVERYTHING = 2**62
"""A limit that limits nothing, so that one prepared statement serves listings with and without pages."""
LARGEST_SIZE = 999_999_999
"""That a request may ask for; what it gets is bounded by the server's own limit."""


@dataclass(frozen=True, slots=True)
class Page:
    """What part of a listing of `kind` is asked for. `size` None: all of it, as when a client sends no pageToken."""

    kind: str
    token: str | None
    size: int | None

    @property
    def sql_limit(self) -> int:
        return EVERYTHING if self.size is None else self.size + 1

    def after_id(self) -> UUID:
        """The id that the page starts behind, in listings by id; `FIRST` at the beginning."""
        if not self.token:
            return FIRST
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


def read_size(given: str, name: str) -> int:
    """The size of a page in the query parameter `name`. Raises `BadRequest`."""
    if given.isascii() and given.isdigit() and len(given) <= len(str(LARGEST_SIZE)) and int(given):
        return int(given)
    raise BadRequest(f"{name}: must be a number from 1 to {LARGEST_SIZE}")


T = TypeVar("T")


def page_of(found: Sequence[tuple[object, T]], page: Page) -> tuple[list[T], str | None]:
    """The items of `page` out of (key, item) pairs, one more of which may have been read, and the next token."""
    if page.size is None or len(found) <= page.size:
        return [item for _, item in found], None
    shown = found[: page.size]
    return [item for _, item in shown], write_page_token(page.kind, str(shown[-1][0]))


def listing_of(kind: str, *bounds: object) -> str:
    """A kind of listing for tokens that are to hold for the same place and the same filters, the `bounds`, alone."""
    digest = blake2b(repr(bounds).encode(errors="surrogatepass"), digest_size=8)
    return f"{kind} {digest.hexdigest()}"
