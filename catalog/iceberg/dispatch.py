"""Kinds of updates, and their application in order: the same for tables and views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from catalog.iceberg.json_fields import as_object, check_depth, clip, describe
from icekeeper.kernel.errors.types import BadRequest

DraftT = TypeVar("DraftT")


@dataclass(frozen=True, slots=True)
class UpdateKind(Generic[DraftT]):
    """A kind of update: the function that applies its document to a draft, and what the document consists of.

    `members` has the type of each member besides `action`, as a `TypedDict` would; the function checks them.
    """

    apply: Callable[[DraftT, dict[str, Any]], None]
    members: Mapping[str, Any]


def apply_each(
    draft: DraftT,
    updates: list[Any],
    kinds: Mapping[str, UpdateKind[DraftT]],
    between_updates: Callable[[], object] | None,
) -> None:
    """Change `draft` by the updates, in their order; `between_updates` is called before each of them.

    Raises `BadRequest` (or the subclass of it that the function raises) naming the update.
    """
    for index, document in enumerate(updates):
        if between_updates is not None:
            between_updates()
        where = f"updates[{index}]"
        update = as_object(document, where)
        check_depth(update, where)
        action = update.get("action")
        if not isinstance(action, str):
            problem = "required field is missing" if action is None else f"expected a string, got {describe(action)}"
            raise BadRequest(f"{where}.action: {problem}")
        kind = kinds.get(action)
        if kind is None:
            raise BadRequest(f"{where}: unknown update action: {clip(action)}")
        try:
            kind.apply(draft, update)
        except BadRequest as error:
            raise type(error)(f"{where} ({action}): {error.message}") from error
