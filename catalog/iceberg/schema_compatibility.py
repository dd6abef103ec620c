"""Compatibility of two schemas of one table, by field id ("Schema evolution" and "Default values", table spec).

Backward: the new schema reads the data that was written with the old one. Forward: queries that were written for the
old schema also read what is written with the new one. Queries find columns by name, so dropped and renamed columns are
only backward compatible. The order of columns and their descriptions have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from catalog.iceberg.display.schema_fields import get_type_kind, write_type
from catalog.iceberg.display.type_promotions import is_promotion

DEFAULT_MAX_FOUND: Final = 20

PROMOTIONS_OF_VERSION_3: Final = 3
"""Format version in which `date` may become a timestamp, and `unknown` any type."""

_NEW_IN_VERSION_3: Final = frozenset({"date", "unknown"})

_INNER: Final = {"list": (("element", "element-required"),), "map": (("key", ""), ("value", "value-required"))}


class Compatibility(StrEnum):
    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"
    """Both."""


def find_incompatibilities(
    old: dict[str, Any],
    new: dict[str, Any],
    mode: Compatibility,
    *,
    format_version: int,
    max_found: int = DEFAULT_MAX_FOUND,
) -> list[str]:
    """Return why `new` is not compatible with `old`, at most `max_found` reasons, in the order of the columns.

    Both are valid schema documents. Columns that are equal in both take no time beyond a comparison.
    """
    comparison = _Comparison(
        is_backward=mode is not Compatibility.FORWARD,
        is_forward=mode is not Compatibility.BACKWARD,
        has_new_promotions=format_version >= PROMOTIONS_OF_VERSION_3,
    )
    return list(islice(comparison.compare_structs(old, new, ""), max_found))


class _Comparison:
    def __init__(self, *, is_backward: bool, is_forward: bool, has_new_promotions: bool) -> None:
        self._is_backward, self._is_forward = is_backward, is_forward
        self._has_new_promotions = has_new_promotions

    def compare_structs(self, old: dict[str, Any], new: dict[str, Any], prefix: str) -> Iterator[str]:
        after = {field["id"]: field for field in new["fields"]}
        before = set()
        for field in old["fields"]:
            field_id = field["id"]
            before.add(field_id)
            current = after.get(field_id)
            if current is None:
                if self._is_forward:
                    yield f"column {prefix}{field['name']} is dropped"
            elif current is not field and current != field:
                yield from self._compare_fields(field, current, prefix)
        if self._is_backward:
            for field_id, field in after.items():
                if field_id not in before and field.get("required") and field.get("initial-default") is None:
                    yield f"column {prefix}{field['name']} is added as required without an initial default"

    def _compare_fields(self, old: dict[str, Any], new: dict[str, Any], prefix: str) -> Iterator[str]:
        path = f"{prefix}{old['name']}"
        if self._is_forward and old["name"] != new["name"]:
            yield f"column {path} is renamed to {new['name']}"
        yield from self._compare_required(old.get("required"), new.get("required"), path)
        if self._is_backward and old.get("initial-default") != new.get("initial-default"):
            yield f"the initial default of column {path} is changed"
        yield from self._compare_types(old["type"], new["type"], path)

    def _compare_required(self, was_required: Any, is_required: Any, path: str) -> Iterator[str]:
        if self._is_backward and is_required and not was_required:
            yield f"column {path} becomes required"
        if self._is_forward and was_required and not is_required:
            yield f"column {path} becomes optional"

    def _compare_types(self, old: Any, new: Any, path: str) -> Iterator[str]:
        if old == new:
            return
        kind = get_type_kind(old)
        if kind == "primitive" or kind != get_type_kind(new):
            yield from self._compare_type_texts(write_type(old), write_type(new), path)
        elif kind == "struct":
            yield from self.compare_structs(old, new, f"{path}.")
        else:
            for name, required in _INNER[kind]:
                inner = f"{path}.{name}"
                if old[f"{name}-id"] != new[f"{name}-id"]:
                    yield f"column {inner} is replaced by another one"
                    continue
                if required:
                    yield from self._compare_required(old.get(required), new.get(required), inner)
                yield from self._compare_types(old[name], new[name], inner)

    def _compare_type_texts(self, old: str, new: str, path: str) -> Iterator[str]:
        if old == new:
            return
        if self._is_forward or not self._is_promotion(old, new):
            yield f"the type of column {path} changes from {old} to {new}"

    def _is_promotion(self, old: str, new: str) -> bool:
        return is_promotion(old, new) and (self._has_new_promotions or old not in _NEW_IN_VERSION_3)
