"""The model of a table, and the result of an update on it, by the specification alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Model = dict[str, Any]

MAX_PREVIOUS_FILES = "write.metadata.previous-versions-max"
USUAL_PREVIOUS_FILES = 100
ROW_LINEAGE = 3


def of_table(metadata: dict[str, Any]) -> Model:
    """Return the model's part of a table's metadata, without times, which are verified separately."""
    current = metadata.get("current-snapshot-id")
    return {
        "uuid": metadata["table-uuid"],
        "location": metadata["location"],
        "version": metadata["format-version"],
        "properties": metadata.get("properties") or {},
        "schemas": {
            each["schema-id"]: {field["id"]: field["name"] for field in each["fields"]} for each in metadata["schemas"]
        },
        "schema": metadata["current-schema-id"],
        "last column": metadata["last-column-id"],
        "snapshots": {
            each["snapshot-id"]: (each.get("parent-snapshot-id"), each.get("sequence-number"), each["manifest-list"])
            for each in metadata.get("snapshots") or []
        },
        "refs": {name: (ref["type"], ref["snapshot-id"]) for name, ref in (metadata.get("refs") or {}).items()},
        "current": None if current == -1 else current,
        "log": [entry["snapshot-id"] for entry in metadata.get("snapshot-log") or []],
        "sequence": metadata.get("last-sequence-number") or 0,
        "rows": metadata.get("next-row-id"),
    }


def created(body: dict[str, Any]) -> Model:
    """Return the table that a CreateTableRequest creates; the catalog chooses the UUID, and the location by default."""
    properties = dict(body["properties"])
    version = int(properties.pop("format-version"))
    fields = {number: field["name"] for number, field in enumerate(body["schema"]["fields"], 1)}
    return _empty(version) | {
        "location": body.get("location"), "properties": properties, "schemas": {0: fields}, "last column": len(fields)
    }  # fmt: skip


def finished(updates: list[dict[str, Any]]) -> Model:
    """Return the table that the commit of a staged create creates."""
    said = {update["action"]: update for update in updates}
    model = _empty(said["upgrade-format-version"]["format-version"]) | {"uuid": said["assign-uuid"]["uuid"]}
    return changed(model, [update for update in updates if update["action"] != "upgrade-format-version"])


def _empty(version: int) -> Model:
    return {
        "uuid": None, "location": None, "version": version, "properties": {}, "schemas": {}, "schema": 0,
        "last column": 0, "snapshots": {}, "refs": {}, "current": None, "log": [], "sequence": 0,
        "rows": 0 if version >= ROW_LINEAGE else None,
    }  # fmt: skip


def difference(expected: Model, found: Model) -> str | None:
    """Return the differences from the expected state; where None is expected for UUID or location, any value is
    right.
    """
    for name, value in expected.items():
        if found[name] != value and not (name in {"uuid", "location"} and value is None):
            return f"{name} is {found[name]!r}, not {value!r}"
    return None


def previous_files(properties: dict[str, str]) -> int:
    """Return the maximum of previous metadata files in a table's log."""
    return max(1, int(properties.get(MAX_PREVIOUS_FILES, USUAL_PREVIOUS_FILES)))


def changed(model: Model, updates: list[dict[str, Any]]) -> Model:
    """Return the table after a commit."""
    after = copy.deepcopy(model)
    main_before = model["refs"].get("main")
    removed: set[int] = set()
    for update in updates:
        _UPDATES[update["action"]](after, update)
        removed |= set(update.get("snapshot-ids", ()))
    main = after["refs"].get("main")
    after["current"] = main[1] if main else None
    if main and main != main_before:
        after["log"].append(main[1])
    for index in range(len(after["log"]) - 1, -1, -1):
        if after["log"][index] in removed:
            after["log"] = after["log"][index + 1 :]
            break
    return after


def broken_requirement(model: Model, requirements: list[dict[str, Any]]) -> str | None:
    """Return the first requirement that does not hold."""
    for requirement in requirements:
        name = requirement.get("ref")
        held = {
            "assert-table-uuid": lambda r: model["uuid"] == r["uuid"],
            "assert-ref-snapshot-id": lambda r, n=name: model["refs"].get(n, (None, None))[1] == r["snapshot-id"],
            "assert-current-schema-id": lambda r: model["schema"] == r["current-schema-id"],
            "assert-last-assigned-field-id": lambda r: model["last column"] == r["last-assigned-field-id"],
            "assert-create": lambda _: False,
        }[requirement["type"]]
        if not held(requirement):
            return str(requirement)
    return None


def asserted_uuid(change: dict[str, Any]) -> str | None:
    """Return the UUID that a commit asserts, if any."""
    return next((each["uuid"] for each in change["requirements"] if each["type"] == "assert-table-uuid"), None)


def _set_properties(model: Model, update: dict[str, Any]) -> None:
    model["properties"].update(update["updates"])


def _remove_properties(model: Model, update: dict[str, Any]) -> None:
    for key in update["removals"]:
        model["properties"].pop(key, None)


def _add_schema(model: Model, update: dict[str, Any]) -> None:
    fields = {field["id"]: field["name"] for field in update["schema"]["fields"]}
    model["schemas"][max(model["schemas"], default=-1) + 1] = fields
    model["last column"] = max(model["last column"], *fields)


def _set_current_schema(model: Model, update: dict[str, Any]) -> None:
    model["schema"] = max(model["schemas"]) if update["schema-id"] == -1 else update["schema-id"]


def _remove_schemas(model: Model, update: dict[str, Any]) -> None:
    for schema_id in update["schema-ids"]:
        model["schemas"].pop(schema_id, None)


def _add_snapshot(model: Model, update: dict[str, Any]) -> None:
    """A snapshot that is based on an older version of its table, but on the head of its branch, gets the next
    sequence number.
    """
    snapshot = update["snapshot"]
    number, parent = snapshot.get("sequence-number"), snapshot.get("parent-snapshot-id")
    if model["version"] > 1:
        if parent is not None and number <= model["sequence"]:
            number = model["sequence"] + 1
        model["sequence"] = max(model["sequence"], number)
    if model["version"] >= ROW_LINEAGE:
        model["rows"] = snapshot["first-row-id"] + snapshot["added-rows"]
    model["snapshots"][snapshot["snapshot-id"]] = (parent, number, snapshot["manifest-list"])


def _set_ref(model: Model, update: dict[str, Any]) -> None:
    model["refs"][update["ref-name"]] = (update["type"], update["snapshot-id"])


def _remove_ref(model: Model, update: dict[str, Any]) -> None:
    model["refs"].pop(update["ref-name"], None)


def _remove_snapshots(model: Model, update: dict[str, Any]) -> None:
    for snapshot_id in update["snapshot-ids"]:
        model["snapshots"].pop(snapshot_id, None)
    model["refs"] = {name: ref for name, ref in model["refs"].items() if ref[1] in model["snapshots"]}


def _set_location(model: Model, update: dict[str, Any]) -> None:
    model["location"] = update["location"]


def _upgrade(model: Model, update: dict[str, Any]) -> None:
    version = update["format-version"]
    if model["version"] < ROW_LINEAGE <= version:
        model["rows"] = 0
    model["version"] = version


def _nothing(_: Model, __: dict[str, Any]) -> None:
    """Ignore an update of members outside of the model."""


_UPDATES: dict[str, Callable[[Model, dict[str, Any]], None]] = {
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-schema": _add_schema,
    "set-current-schema": _set_current_schema,
    "remove-schemas": _remove_schemas,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshot-ref": _remove_ref,
    "remove-snapshots": _remove_snapshots,
    "set-location": _set_location,
    "upgrade-format-version": _upgrade,
    **dict.fromkeys(
        ("assign-uuid", "add-spec", "set-default-spec", "add-sort-order", "set-default-sort-order"), _nothing
    ),
}
