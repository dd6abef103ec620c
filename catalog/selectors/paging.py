"""Pages of listings, by keyset: a page starts behind the last id that was sent, so that insertion moves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from icekeeper.kernel.errors import InvalidPageToken
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.page_tokens import read_page_token, write_page_token
from icekeeper.kernel.sql import as_uuid

FIRST = UUID(int=0)
EVERYTHING = 2**62
"""A limit that limits nothing, so that one prepared statement serves listings with and without pages."""


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
        if not self.token:
            return FIRST
        after = parse_id(read_page_token(self.token, self.kind, parts=1)[0])
        if after is None:
            raise InvalidPageToken("Invalid page token")
        return after


T = TypeVar("T")


def page_of(found: Sequence[tuple[Any, T]], page: Page) -> tuple[list[T], str | None]:
    """The items of `page` out of (id, item) pairs, one more of which may have been read, and the next token."""
    if page.size is None or len(found) <= page.size:
        return [item for _, item in found], None
    shown = found[: page.size]
    return [item for _, item in shown], write_page_token(page.kind, str(as_uuid(shown[-1][0])))
