"""Pages of the items that are visible to the caller, without a permission check for each item.

The last row that a page covers may be hidden from the caller. Tokens of such listings are sealed: a nonce and the
AES-GCM ciphertext of the sort key, bound to one kind of listing. All of one listing have one length, so that the length
discloses nothing. They are valid at every server with the same signing key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from icekeeper.kernel.errors.types import InvalidPageToken
from icekeeper.kernel.http.paging import Page, build_page, decode_token, encode_token
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import Missing, are_allowed, require_permission_and_check
from tenancy.authz.port import VisibleObjects, authorizer
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.signing_keys import derived_keys

T = TypeVar("T")

BATCH_SIZE: Final = 500
"""Minimum batch of one permission check beyond the first page."""
VISIBLE_BATCH_SIZE: Final = 100
"""Minimum batch where nearly all items are visible."""
MAX_CHECKED_TOGETHER: Final = 50_000
"""Maximum batch of one permission check."""
MAX_SCANNED: Final = 10_000
"""Candidates that one request scans in a list over a whole warehouse, for callers who do not see all of them. Then the
page ends, even if it is short, with a token for the rest."""


def require_to_list(actor: Actor, action: Can, parent: ObjectRef, missing: Missing) -> ObjectRef | None:
    """Check the listing `action` on `parent`; return None when the caller sees everything in it, otherwise `parent`.

    Raises as `require_permission_and_check`.
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
    """Return the items of `page` that the caller sees, and the next token; the page is full while there are items.

    `listed` are the items from the start of the page, by id, at most one more than its size. `seen_in` is the result of
    `require_to_list`. `read` reads items by their ids, in this order, and skips deleted ones.
    """
    after = page.after_id()
    if seen_in is None:
        return build_page(listed, page)
    kind = Securable.Type(child_type)
    if len(listed) < page.sql_limit:  # the end of the list
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
        # Visible ids of deleted items may be many: batches grow.
        wanted = min(max(BATCH_SIZE, wanted * 10), MAX_CHECKED_TOGETHER)
    return build_page(found, page)


def batch_size(page: Page, visible: VisibleObjects | None, *, sees_everything: bool) -> int:
    """Return the number of items of a batch of `scan_visible`; `visible` are those that the items are among."""
    if sees_everything:
        return page.sql_limit
    return BATCH_SIZE if visible is None else max(page.sql_limit, VISIBLE_BATCH_SIZE)


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


def scan_visible(
    *, actor: Actor, batches: Iterable[Sequence[T]], ref: Callable[[T], ObjectRef], sees_everything: bool, wanted: int
) -> Scan[T]:
    """Return the first `wanted` items that `actor` may see, in their order, among the first `MAX_SCANNED`.

    One permission check for each batch, none with `sees_everything`, the result of `Can.LIST_EVERYTHING` on the common
    parent. Batches are read lazily.
    """
    seen: list[T] = []
    scanned = 0
    for batch in batches:
        if sees_everything:
            seen += batch
        else:
            allowed = are_allowed(actor, Can.INCLUDE_IN_LIST, [ref(item) for item in batch])
            shown = (item for item, is_shown in zip(batch, allowed, strict=True) if is_shown)
            seen += islice(shown, wanted - len(seen))  # a lazy backend checks no more items than needed
            scanned += len(batch)
        if len(seen) >= wanted:
            return Scan(seen[:wanted], None)
        if scanned >= MAX_SCANNED:
            return Scan(seen, batch[-1])
    return Scan(seen, None)


_PURPOSE: Final = "icekeeper page tokens 1"
_NONCE_BYTES: Final = 12
_PLAIN_BYTES: Final = 128
"""Length of the plain text, padded with spaces."""
LONG_PLAIN_BYTES: Final = 1_280
"""For sort keys with a name, which has at most `MAX_KEY_BYTES`."""


def seal_page_token(kind: str, *after: str, plain_bytes: int = _PLAIN_BYTES) -> str:
    """Return the token that continues a listing of `kind` after the sort key `after`, of at most `plain_bytes`.

    A listing has one `plain_bytes`, so that all of its tokens have one length.
    """
    plain = orjson.dumps(after)
    if len(plain) > plain_bytes:
        raise ValueError("too long for a sealed page token")
    nonce = os.urandom(_NONCE_BYTES)
    return encode_token(nonce + _ciphers()[0].encrypt(nonce, plain.ljust(plain_bytes), kind.encode()))


def open_page_token(token: str, kind: str) -> list[str]:
    """Return the sort key that was sealed for `kind`. Raises `InvalidPageToken` (400) for any other token."""
    sealed = decode_token(token)
    if token != encode_token(sealed):
        raise InvalidPageToken("Invalid page token")
    for cipher in _ciphers():
        try:
            after: list[str] = orjson.loads(cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], kind.encode()))
        except (InvalidTag, ValueError):  # ValueError: the nonce is too short
            continue
        return after
    raise InvalidPageToken("Invalid page token")


def _ciphers() -> list[AESGCM]:
    """Return the ciphers of all keys; the first one encrypts."""
    return [AESGCM(key) for key in derived_keys(_PURPOSE)]
