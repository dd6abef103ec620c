"""The differences of two versions of a table's or view's metadata as a JSON document, for receivers outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from catalog.iceberg.display.schema_comparison import FieldState, compare_schemas
from catalog.iceberg.display.secret_properties import looks_secret
from catalog.iceberg.display.stored_parts import find_current_schema

MAX_LISTED: Final = 200
"""Changed columns, properties, refs and snapshots that a diff lists, each; of more it has only the number."""

HIDDEN_VALUE: Final = "********"
"""Instead of values of properties that may be secrets."""

Metadata = Mapping[str, Any]
_EMPTY_SCHEMA: Final = {"type": "struct", "schema-id": -1, "fields": []}


def diff_metadata(old: Metadata | None, new: Metadata | None) -> dict[str, Any]:
    """Return what differs: `schema`, `partition-spec`, `sort-order`, `properties`, `refs`, `snapshots`, `location`,
    `format-version`, `view-version`; members without a difference are absent.

    None stands for an object that does not exist. Lists are cut at `MAX_LISTED` entries: their `count` is complete.
    """
    before, after = old or {}, new or {}
    parts = {
        "schema": _diff_schemas(before, after),
        "partition-spec": _diff_chosen(before, after, "partition-specs", "spec-id", "default-spec-id"),
        "sort-order": _diff_chosen(before, after, "sort-orders", "order-id", "default-sort-order-id"),
        "properties": diff_properties(before.get("properties") or {}, after.get("properties") or {}),
        "refs": _diff_refs(before.get("refs") or {}, after.get("refs") or {}),
        "snapshots": _diff_snapshots(before, after),
        "view-version": _diff_chosen(before, after, "versions", "version-id", "current-version-id"),
        "location": _diff_values(before.get("location"), after.get("location")),
        "format-version": _diff_values(before.get("format-version"), after.get("format-version")),
    }
    return {name: part for name, part in parts.items() if part is not None}


def diff_properties(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, Any] | None:
    """Return `set` (name and value) and `removed` (names), None without a difference; secret values are hidden."""
    changed = sorted(name for name, value in new.items() if old.get(name) != value)
    removed = sorted(name for name in old if name not in new)
    if not changed and not removed:
        return None
    shown = hide_secret_values({name: new[name] for name in changed[:MAX_LISTED]})
    return {"set": shown, "removed": removed[:MAX_LISTED], "count": len(changed) + len(removed)}


def hide_secret_values(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties with `HIDDEN_VALUE` for each value that may be a secret."""
    return {name: HIDDEN_VALUE if looks_secret(name, str(value)) else value for name, value in properties.items()}


def has_same_schema(old: Metadata, new: Metadata) -> bool:
    """Return whether the current schema is certainly the same: versions share the parts that they do not change."""
    if old.get("current-schema-id") != new.get("current-schema-id"):
        return False
    if old.get("current-version-id") != new.get("current-version-id"):
        return False
    return old.get("schemas") is new.get("schemas")


def _find(metadata: Metadata, part: str, id_name: str, wanted: Any) -> dict[str, Any] | None:
    return next((each for each in metadata.get(part) or () if each.get(id_name) == wanted), None)


def _diff_schemas(old: Metadata, new: Metadata) -> dict[str, Any] | None:
    if old and new and has_same_schema(old, new):
        return None
    before, after = find_current_schema(dict(old)) or _EMPTY_SCHEMA, find_current_schema(dict(new)) or _EMPTY_SCHEMA
    compared = compare_schemas(before, after, max_changes=MAX_LISTED)
    count = compared.added_count + compared.changed_count + compared.dropped_count
    if not count:
        return None
    changes = [
        {
            "field-id": each.field_id,
            "kinds": [kind.value for kind in each.kinds],
            "old": _describe_field(each.old),
            "new": _describe_field(each.new),
        }
        for each in compared.changes
    ]
    return {"changes": changes, "count": count}


def _describe_field(state: FieldState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {"name": state.path, "type": state.type_text, "required": state.is_required}


def _diff_chosen(old: Metadata, new: Metadata, part: str, id_name: str, chosen: str) -> dict[str, Any] | None:
    """Compare the entries of a list that are chosen by their id."""
    if old.get(chosen) == new.get(chosen) and old.get(part) is new.get(part):
        return None
    return _diff_values(_find(old, part, id_name, old.get(chosen)), _find(new, part, id_name, new.get(chosen)))


def _diff_values(old: Any, new: Any) -> dict[str, Any] | None:
    return None if old == new else {"old": old, "new": new}


def _diff_refs(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any] | None:
    changed = {name: ref for name, ref in new.items() if old.get(name) != ref}
    removed = sorted(name for name in old if name not in new)
    if not changed and not removed:
        return None
    listed = {name: changed[name] for name in sorted(changed)[:MAX_LISTED]}
    return {"set": listed, "removed": removed[:MAX_LISTED], "count": len(changed) + len(removed)}


def _diff_snapshots(old: Metadata, new: Metadata) -> dict[str, Any] | None:
    before, after = old.get("snapshots") or (), new.get("snapshots") or ()
    if before is after:
        return None
    had, has = _ids(before), _ids(after)
    added = [each for each in after if each["snapshot-id"] not in had]
    removed = [each["snapshot-id"] for each in before if each["snapshot-id"] not in has]
    if not added and not removed:
        return None
    shown = [
        {name: each[name] for name in ("snapshot-id", "parent-snapshot-id", "timestamp-ms", "summary") if name in each}
        for each in added[:MAX_LISTED]
    ]
    return {"added": shown, "removed": removed[:MAX_LISTED], "count": len(added) + len(removed)}


def _ids(snapshots: Sequence[Mapping[str, Any]]) -> set[Any]:
    return {each["snapshot-id"] for each in snapshots}
