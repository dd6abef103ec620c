"""The differences of two schemas of one table, by field id, and what each means for data files written before.

Field ids, not names, connect columns with the values in data files (table spec, "Column projection"). So a column that
was dropped and added again with its old name is another column.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from catalog.iceberg.display.schema_fields import SchemaField, get_type_kind, walk_fields, write_default, write_type
from catalog.iceberg.display.stored_parts import get_schema_id
from catalog.iceberg.display.type_promotions import describe_type_change, is_promotion

DEFAULT_MAX_CHANGES: Final = 500


class ChangeKind(StrEnum):
    """What changed of a field; the values are the words that a page shows."""

    ADDED = "added"
    DROPPED = "dropped"
    RENAMED = "renamed"
    TYPE = "type"
    MOVED = "moved"
    """To another parent."""
    REORDERED = "reordered"
    REQUIRED = "required"
    OPTIONAL = "optional"
    DOC = "doc"
    INITIAL_DEFAULT = "initial default"
    WRITE_DEFAULT = "write default"
    IDENTIFIER = "identifier"
    """Now an identifier field, or no longer one."""


@dataclass(frozen=True, slots=True)
class FieldState:
    """A field in one of the two schemas; defaults as JSON text. `position` is `First column`, `Last column` or
    `After <name>` among the fields of its parent."""

    name: str
    path: str
    depth: int
    type_text: str
    is_required: bool
    is_identifier: bool
    doc: str | None
    initial_default: str | None
    write_default: str | None
    position: str


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs. `old` is None for an added field, `new` for a dropped one.

    `kinds` has at least one element. `consequence` is one or more sentences, without a full stop at the end.
    `breaks_old_files` is set if readers may fail on files written before. `nested_count` counts the fields inside an
    added or dropped field, which have no changes of their own.
    """

    field_id: int
    kinds: tuple[ChangeKind, ...]
    old: FieldState | None
    new: FieldState | None
    consequence: str
    breaks_old_files: bool
    nested_count: int


@dataclass(frozen=True, slots=True)
class SchemaComparison:
    """The changes from one schema to another: added fields, then changed ones in the order of the new schema, then
    dropped ones. The counts include the changes that `is_truncated` says are left out of `changes`."""

    old_schema_id: int
    new_schema_id: int
    changes: tuple[FieldChange, ...]
    added_count: int
    changed_count: int
    dropped_count: int
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class _Fields:
    """A schema with its fields by id; of fields with one id the first is kept."""

    by_id: dict[int, SchemaField]
    identifiers: frozenset[int]
    children: dict[int | None, list[int]]

    def state(self, field: SchemaField) -> FieldState:
        if field.previous_name is None:
            position = "First column" if field.parent_id is None else "First field"
        elif field.is_last:
            position = "Last column" if field.parent_id is None else "Last field"
        else:
            position = f"After {field.previous_name}"
        return FieldState(
            name=field.name,
            path=field.path,
            depth=field.depth,
            type_text=write_type(field.type),
            is_required=field.is_required,
            is_identifier=field.field_id in self.identifiers,
            doc=field.doc,
            initial_default=write_default(field.initial_default),
            write_default=write_default(field.write_default),
            position=position,
        )


def compare_schemas(
    old: dict[str, Any], new: dict[str, Any], *, max_changes: int = DEFAULT_MAX_CHANGES
) -> SchemaComparison:
    """Return the differences of two schema documents, at most `max_changes` of them, in O(n log n)."""
    before, after = _read_fields(old), _read_fields(new)
    reordered = _find_reordered(before, after)
    dropped_ids = {field.path: field_id for field_id, field in before.by_id.items() if field_id not in after.by_id}
    added, changed, dropped = [], [], []
    for field_id, field in after.by_id.items():
        if field_id not in before.by_id:
            if _is_top_of(field, other=before):
                added.append(field_id)
        elif field_id in reordered or _differs(field_id, before, after):
            changed.append(field_id)
    for field_id, field in before.by_id.items():
        if field_id not in after.by_id and _is_top_of(field, other=after):
            dropped.append(field_id)
    added_nested, dropped_nested = _count_nested(after, before), _count_nested(before, after)
    changes: list[FieldChange] = []
    for field_id in [*added, *changed, *dropped][:max_changes]:
        former, current = before.by_id.get(field_id), after.by_id.get(field_id)
        if former is not None and current is not None:
            kinds = _list_kinds(before, after, former, current, is_reordered=field_id in reordered)
            changes.append(_describe_changed(field_id, kinds, before.state(former), after.state(current)))
        elif current is not None:
            state = after.state(current)
            changes.append(_describe_added(field_id, state, dropped_ids.get(state.path), added_nested[field_id]))
        elif former is not None:
            changes.append(_describe_dropped(field_id, before.state(former), dropped_nested[field_id]))
    return SchemaComparison(
        old_schema_id=get_schema_id(old),
        new_schema_id=get_schema_id(new),
        changes=tuple(changes),
        added_count=len(added),
        changed_count=len(changed),
        dropped_count=len(dropped),
        is_truncated=len(added) + len(changed) + len(dropped) > max_changes,
    )


def _read_fields(schema: dict[str, Any]) -> _Fields:
    by_id: dict[int, SchemaField] = {}
    children: dict[int | None, list[int]] = defaultdict(list)
    for field in walk_fields(schema):
        if field.field_id is not None and field.field_id not in by_id:
            by_id[field.field_id] = field
            children[field.parent_id].append(field.field_id)
    listed = schema.get("identifier-field-ids")
    identifiers = frozenset(listed) if isinstance(listed, list) else frozenset()
    return _Fields(by_id, identifiers, children)


def _is_top_of(field: SchemaField, *, other: _Fields) -> bool:
    """Whether the parent of a field that `other` lacks is in `other`, so that the field has a change of its own."""
    return field.parent_id is None or field.parent_id in other.by_id


def _count_nested(fields: _Fields, other: _Fields) -> dict[int, int]:
    """The number of fields below each field that `other` lacks, of those that `other` lacks, too."""
    counts: dict[int, int] = defaultdict(int)
    for field_id, field in reversed(fields.by_id.items()):  # children before their parents
        if field_id not in other.by_id and not _is_top_of(field, other=other) and field.parent_id is not None:
            counts[field.parent_id] += 1 + counts[field_id]
    return counts


def _find_reordered(before: _Fields, after: _Fields) -> set[int]:
    """The fewest fields that had to move so that the common fields of each parent got their new order."""
    reordered: set[int] = set()
    for parent_id, children in after.children.items():
        positions = {field_id: index for index, field_id in enumerate(before.children.get(parent_id, []))}
        common = [field_id for field_id in children if field_id in positions]
        kept = _longest_increasing([positions[field_id] for field_id in common])
        reordered.update(field_id for index, field_id in enumerate(common) if index not in kept)
    return reordered


def _longest_increasing(numbers: list[int]) -> set[int]:
    """The indexes of a longest increasing subsequence of distinct numbers, in O(n log n)."""
    tails: list[int] = []
    tail_indexes: list[int] = []
    previous: list[int | None] = []
    for index, number in enumerate(numbers):
        length = bisect_left(tails, number)
        previous.append(tail_indexes[length - 1] if length else None)
        if length == len(tails):
            tails.append(number)
            tail_indexes.append(index)
        else:
            tails[length] = number
            tail_indexes[length] = index
    kept: set[int] = set()
    index_kept = tail_indexes[-1] if tail_indexes else None
    while index_kept is not None:
        kept.add(index_kept)
        index_kept = previous[index_kept]
    return kept


def _differs(field_id: int, before: _Fields, after: _Fields) -> bool:
    old, new = before.by_id[field_id], after.by_id[field_id]
    return bool(_list_kinds(before, after, old, new, is_reordered=False))


def _list_kinds(
    before: _Fields, after: _Fields, old: SchemaField, new: SchemaField, *, is_reordered: bool
) -> tuple[ChangeKind, ...]:
    was_identifier, is_identifier = old.field_id in before.identifiers, new.field_id in after.identifiers
    differences = {
        ChangeKind.RENAMED: old.name != new.name,
        ChangeKind.TYPE: _has_other_type(old.type, new.type),
        ChangeKind.MOVED: old.parent_id != new.parent_id,
        ChangeKind.REORDERED: is_reordered,
        ChangeKind.REQUIRED: new.is_required and not old.is_required,
        ChangeKind.OPTIONAL: old.is_required and not new.is_required,
        ChangeKind.DOC: (old.doc or "") != (new.doc or ""),
        ChangeKind.INITIAL_DEFAULT: write_default(old.initial_default) != write_default(new.initial_default),
        ChangeKind.WRITE_DEFAULT: write_default(old.write_default) != write_default(new.write_default),
        ChangeKind.IDENTIFIER: was_identifier != is_identifier,
    }
    return tuple(kind for kind, has_changed in differences.items() if has_changed)


def _has_other_type(old: Any, new: Any) -> bool:
    """Whether the type itself differs: the fields inside of structs, lists and maps have changes of their own."""
    old_kind, new_kind = get_type_kind(old), get_type_kind(new)
    return old_kind != new_kind or (old_kind == "primitive" and old != new and write_type(old) != write_type(new))


def _describe_added(field_id: int, new: FieldState, dropped_id: int | None, nested_count: int) -> FieldChange:
    breaks_old_files = False
    if new.initial_default is not None:
        consequence = f"Old rows read as the initial default {new.initial_default}"
    elif new.is_required:
        breaks_old_files = True
        consequence = "Required without an initial default: readers may fail on old files"
    else:
        consequence = "Old rows read as null"
    if dropped_id is not None:
        consequence += f". Another field than the dropped one of this name (id {dropped_id}): its values are not read"
    return FieldChange(field_id, (ChangeKind.ADDED,), None, new, consequence, breaks_old_files, nested_count)


def _describe_dropped(field_id: int, old: FieldState, nested_count: int) -> FieldChange:
    consequence = "Old files keep the values; readers no longer see them"
    return FieldChange(field_id, (ChangeKind.DROPPED,), old, None, consequence, False, nested_count)  # noqa: FBT003


def _describe_changed(field_id: int, kinds: tuple[ChangeKind, ...], old: FieldState, new: FieldState) -> FieldChange:
    sentences = {
        ChangeKind.RENAMED: "Same field id: data is kept",
        ChangeKind.TYPE: describe_type_change(old.type_text, new.type_text),
        ChangeKind.MOVED: (
            "Moved to another parent: old files have the values in the former one, so old rows may read as null"
        ),
        ChangeKind.REORDERED: "Only the order of columns: files are read by field id",
        ChangeKind.REQUIRED: "Old files may have nulls, on which readers may fail",
        ChangeKind.OPTIONAL: "Old files are read as before; new ones may have nulls",
        ChangeKind.DOC: "Description only: no effect on data",
        ChangeKind.INITIAL_DEFAULT: _describe_initial_default(new),
        ChangeKind.WRITE_DEFAULT: "For rows written from now on: old files do not change",
        ChangeKind.IDENTIFIER: (
            "Part of a row's identity from now on: old files do not change"
            if new.is_identifier
            else "No longer part of a row's identity: old files do not change"
        ),
    }
    breaks_old_files = (
        ChangeKind.REQUIRED in kinds
        or ChangeKind.MOVED in kinds
        or (ChangeKind.TYPE in kinds and not is_promotion(old.type_text, new.type_text))
    )
    consequence = ". ".join(sentences[kind] for kind in kinds)
    return FieldChange(field_id, kinds, old, new, consequence, breaks_old_files, 0)


def _describe_initial_default(new: FieldState) -> str:
    value = "null" if new.initial_default is None else f"the initial default {new.initial_default}"
    return f"Rows of files without the column read as {value}"
