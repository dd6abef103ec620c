"""Listings that show each caller what that one may see, without a question for each item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page, build_page
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import are_allowed, require_permission_and_check
from tenancy.authz.port import authorizer
from tenancy.models import Securable
from tenancy.refs import ObjectRef

T = TypeVar("T")

AT_ONCE: Final = 500
"""Of how many at least it is asked in one question, when more than a page is looked at."""
MAX_CHECKED_TOGETHER: Final = 50_000
MAX_SCANNED: Final = 10_000
"""Candidates of lists over a whole warehouse that one request looks at for who does not see all of them. Then the page
ends, however short, with a token for what comes behind."""


def require_to_list(actor: Actor, action: Can, parent: ObjectRef, missing: CatalogError) -> ObjectRef | None:
    """None when the caller sees everything in `parent`, else `parent`: what is in it is to be looked at one by one.

    Raises as `require` for who may not do `action`, one of listing, on it.
    """
    (sees_everything,) = require_permission_and_check(actor, action, parent, [Can.LIST_EVERYTHING], missing=missing)
    return None if sees_everything else parent


def visible_page(
    listed: Sequence[tuple[UUID, T]],
    page: Page,
    *,
    actor: Actor,
    seen_in: ObjectRef | None,
    child_type: str,
    read: Callable[[list[UUID]], Sequence[tuple[UUID, T]]],
) -> tuple[list[T], str | None]:
    """The items of `page` that the caller sees, and the next token; full as long as there are any.

    `listed` are all items from where the page begins, by id, one more of which than belong to it may have been read;
    `seen_in` is what `require_to_list` gave. `read` finds items by their ids, in their order, less those that are gone.
    """
    after = page.after_id()
    if seen_in is None:
        return build_page(listed, page)
    kind = Securable.Type(child_type)
    if len(listed) < page.sql_limit:  # all that there is
        seen = authorizer().all_visible(actor, parent=seen_in, child_type=kind, after=after)
        return build_page([each for each in listed if each[0].int in seen], page)
    found: list[tuple[UUID, T]] = []
    wanted = page.sql_limit
    while len(found) < page.sql_limit:
        ids = authorizer().visible_ids(actor, parent=seen_in, child_type=kind, after=after, limit=wanted)
        found += read(ids) if ids else []
        if len(ids) < wanted:
            break
        after = ids[-1]
        # Whatever was seen and is gone, of which there may be any number: it is asked in ever larger rounds.
        wanted = min(max(AT_ONCE, wanted * 10), MAX_CHECKED_TOGETHER)
    return build_page(found, page)


class Scan(NamedTuple, Generic[T]):
    """The visible items of a scanned part of a list. `cursor` is the last scanned item, None at the end of the list.

    The cursor may be an item that is hidden from the caller: tokens that name it are sealed.
    """

    items: list[T]
    cursor: T | None

    def truncated(self, size: int | None) -> Scan[T]:
        """At most `size` items (None: all). The cursor is then the last item that is kept."""
        if size is None or len(self.items) <= size:
            return self
        return Scan(self.items[:size], self.items[size - 1])


def filter_visible(
    *, actor: Actor, batches: Iterable[Sequence[T]], ref: Callable[[T], ObjectRef], sees_everything: bool, wanted: int
) -> Scan[T]:
    """The first `wanted` items that `actor` may see, in their order, of the first `MAX_SCANNED`; one question each
    batch, none with `sees_everything`, the answer to `Can.LIST_EVERYTHING` on what holds them all.

    A batch is read only when it is come to.
    """
    seen: list[T] = []
    looked_at = 0
    for batch in batches:
        if sees_everything:
            seen += batch
        else:
            answers = are_allowed(actor, Can.INCLUDE_IN_LIST, [ref(item) for item in batch])
            shown = (item for item, is_shown in zip(batch, answers, strict=True) if is_shown)
            seen += islice(shown, wanted - len(seen))  # who answers as they are asked is asked no more than that
            looked_at += len(batch)
        if len(seen) >= wanted:
            return Scan(seen[:wanted], None)
        if looked_at >= MAX_SCANNED:
            return Scan(seen, batch[-1])
    return Scan(seen, None)
