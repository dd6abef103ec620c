"""Each update of a request is given to the function for its action: the same for tables and views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from catalog.iceberg.json_fields import as_object, check_depth, clip, describe
from icekeeper.kernel.errors.types import BadRequest

DraftT = TypeVar("DraftT")


def apply_each(
    draft: DraftT,
    updates: list[Any],
    handlers: Mapping[str, Callable[[DraftT, dict[str, Any]], None]],
    between_updates: Callable[[], object] | None,
) -> None:
    """Change `draft` by the updates, in their order; `between_updates` is called before each of them.

    Raises `BadRequest` (or the kind of it that the function raises) naming the update.
    """
    for index, document in enumerate(updates):
        if between_updates is not None:
            between_updates()
        place = f"updates[{index}]"
        update = as_object(document, place)
        check_depth(update, place)
        action = update.get("action")
        if not isinstance(action, str):
            problem = "required field is missing" if action is None else f"expected a string, got {describe(action)}"
            raise BadRequest(f"{place}.action: {problem}")
        handler = handlers.get(action)
        if handler is None:
            raise BadRequest(f"{place}: unknown update action: {clip(action)}")
        try:
            handler(draft, update)
        except BadRequest as refusal:
            raise type(refusal)(f"{place} ({action}): {refusal.message}") from refusal
