"""Listings that show each caller what that one may see, without a question for each item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import are_allowed
from tenancy.authz.securables import Ref

T = TypeVar("T")


def visible(
    *, actor: Actor, batches: Iterable[Sequence[T]], ref: Callable[[T], Ref], sees_everything: bool
) -> Iterator[T]:
    """The items that `actor` may see in a list, in their order; a batch is read only when it is come to.

    `sees_everything` is the answer to `Can.LIST_EVERYTHING` on what holds them all: then nothing else is asked.
    """
    for batch in batches:
        if sees_everything:
            yield from batch
            continue
        answers = are_allowed(actor, Can.INCLUDE_IN_LIST, [ref(item) for item in batch])
        yield from (item for item, is_shown in zip(batch, answers, strict=True) if is_shown)
