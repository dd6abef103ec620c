"""Hypothesis strategies for create requests, commits, whole metadata documents and damaged ones.

Every document is the engine's own result for a create request and a random history of commits. `readers` lists the
libraries that must be able to read it: pyiceberg lacks some types of version 3.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from catalog.iceberg.create import create_table_metadata
from catalog.iceberg.schemas import Schema, parse_schema
from catalog.iceberg.types import TableMetadata
from catalog.iceberg.updates import TableChange, apply_updates

Json = Any
Readers = Literal["java", "java and pyiceberg"]

UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
START_MS = 1_700_000_000_000

V1_TYPES = [
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz",
    "string", "uuid", "binary", "fixed[7]", "decimal(9, 2)", "decimal(38,10)",
]  # fmt: skip
V3_TYPES = ["timestamp_ns", "timestamptz_ns", "unknown"]
V3_TYPES_OF_JAVA = ["variant", "geometry", "geometry(srid:3857)", "geography", "geography(OGC:CRS84, karney)"]
DEFAULTS: dict[str, Json] = {
    "boolean": True, "int": -3, "long": 2**40, "float": 1.5, "double": -0.25, "date": "2024-02-29",
    "time": "10:00:00.000001", "timestamp": "2024-02-29T10:00:00", "timestamptz": "2024-02-29T10:00:00+00:00",
    "string": "ß", "binary": "0aFF", "decimal(9, 2)": "-1.20",
}  # fmt: skip


@dataclass(frozen=True)
class Commit:
    """One request of a history: its base and its result."""

    base: TableMetadata
    updates: list[dict[str, Json]]
    now_ms: int
    change: TableChange


def names(prefix: str) -> st.SearchStrategy[str]:
    return st.text("abz_ÄŁ .-", min_size=1, max_size=4).map(lambda text: f"{prefix}{text}")


@st.composite
def column_types(draw: st.DrawFn, ids: list[int], version: int, readers: Readers, depth: int = 2) -> Json:
    """A type; `ids` is a list of one number, the last assigned id."""
    if depth == 0 or draw(st.integers(0, 3)) > 0:
        known = V1_TYPES + (V3_TYPES if version > 2 else [])
        if version > 2 and readers == "java":
            known = known + V3_TYPES_OF_JAVA
        return draw(st.sampled_from(known))
    kind = draw(st.sampled_from(["struct", "list", "map"]))
    if kind == "struct":
        return {"type": "struct", "fields": draw(fields(ids, version, readers, depth - 1))}
    ids[0] += 2
    first, second = ids[0] - 1, ids[0]
    inner = column_types(ids, version, readers, depth - 1)
    if kind == "list":
        return {"type": "list", "element-id": first, "element": draw(inner), "element-required": False}
    value = draw(inner)
    is_required = value != "unknown" and draw(st.booleans())
    return {
        "type": "map", "key-id": first, "key": "string", "value-id": second, "value": value,
        "value-required": is_required,
    }  # fmt: skip


@st.composite
def fields(
    draw: st.DrawFn, ids: list[int], version: int, readers: Readers, depth: int, prefix: str = "c"
) -> list[Json]:
    """Columns whose names end in their id, so that they are unique for one prefix."""
    drawn = []
    for _ in range(draw(st.integers(1, 3))):
        ids[0] += 1
        field_id = ids[0]
        column_type = draw(column_types(ids, version, readers, depth))
        is_required = column_type != "unknown" and draw(st.booleans())
        field = {
            "id": field_id,
            "name": f"{draw(names(prefix))}{field_id}",
            "required": is_required,
            "type": column_type,
        }
        if draw(st.booleans()):
            field["doc"] = draw(st.text(max_size=5))
        if version > 2 and isinstance(column_type, str) and column_type in DEFAULTS and draw(st.booleans()):
            field["initial-default"] = field["write-default"] = DEFAULTS[column_type]
        drawn.append(field)
    return drawn


@st.composite
def schemas(draw: st.DrawFn, version: int, readers: Readers = "java", first_id: int = 0) -> Json:
    """A schema document whose ids start at `first_id`, as Spark sends it."""
    columns = draw(fields([first_id - 1], version, readers, 2))
    schema = {"type": "struct", "schema-id": draw(st.integers(0, 5)), "fields": columns}
    identifiers = [
        field["id"]
        for field in columns
        if field["required"]
        and field["type"] in V1_TYPES
        and field["type"] not in {"float", "double"}
        and draw(st.booleans())
    ]
    if identifiers:
        schema["identifier-field-ids"] = identifiers
    return schema


def sources(schema: Schema) -> list[tuple[int, str, list[str]]]:
    """Columns that can be partitioned by, as (id, name, transforms)."""
    found = []
    for field_id, column in schema.columns.items():
        parents, parent_id = [], column.parent_id
        while parent_id is not None:
            parents.append(schema.columns[parent_id])
            parent_id = parents[-1].parent_id
        if not isinstance(column.type, str) or any(str(parent.type) != "struct" for parent in parents):
            continue
        kind = column.type.split("(")[0].split("[")[0]
        transforms = ["void"]
        if kind not in {"variant", "geometry", "geography", "unknown"}:
            transforms += ["identity"]
        if kind in {"int", "long", "date", "timestamp", "timestamptz", "string", "uuid", "fixed", "decimal", "time"}:
            transforms += ["bucket[16]"]
        if kind in {"int", "long", "string", "decimal", "binary"}:
            transforms += ["truncate[3]"]
        if kind in {"date", "timestamp", "timestamptz"}:
            transforms += ["year", "month", "day"]
        found.append((field_id, column.name, transforms))
    return found


@st.composite
def specs(draw: st.DrawFn, schema: Schema) -> Json:
    """An unbound spec, without ids."""
    chosen = draw(st.lists(st.sampled_from(sources(schema)), max_size=2)) if sources(schema) else []
    drawn = []
    for position, (field_id, name, transforms) in enumerate(chosen):
        transform = draw(st.sampled_from(transforms))
        is_alone = sum(other[0] == field_id for other in chosen) == 1
        keeps_name = transform == "identity" and is_alone and draw(st.booleans())
        drawn.append(
            {"source-id": field_id, "transform": transform, "name": name if keeps_name else f"p{field_id}_{position}"}
        )
    return {"fields": drawn}


@st.composite
def orders(draw: st.DrawFn, schema: Schema) -> Json:
    usable = [source for source in sources(schema) if "identity" in source[2]]
    chosen = draw(st.lists(st.sampled_from(usable), max_size=2)) if usable else []
    return {
        "order-id": draw(st.integers(1, 3)) if chosen else 0,
        "fields": [
            {
                "source-id": field_id,
                "transform": draw(st.sampled_from([name for name in transforms if name != "void"])),
                "direction": draw(st.sampled_from(["asc", "desc"])),
                "null-order": draw(st.sampled_from(["nulls-first", "nulls-last"])),
            }
            for field_id, _, transforms in chosen
        ],
    }


@st.composite
def create_requests(draw: st.DrawFn, readers: Readers = "java", versions: tuple[int, ...] = (1, 2, 3)) -> Json:
    """The keyword arguments of `create_table_metadata`."""
    version = draw(st.sampled_from(versions))
    schema = draw(schemas(version, readers))
    parsed = parse_schema(schema, "schema")
    return {
        "schema": schema,
        "partition_spec": draw(st.none() | specs(parsed)),
        "write_order": draw(st.none() | orders(parsed)),
        "location": draw(st.sampled_from(["s3://bucket/a", "s3://bucket/a/", "file:///tmp/Ä b"])),
        "properties": draw(st.dictionaries(names("k"), st.text(max_size=3), max_size=2)),
        "table_uuid": UUID,
        "format_version": version,
        "now_ms": START_MS,
    }


def parsed_current_schema(metadata: TableMetadata) -> Schema:
    return parse_schema(schema_by_id(metadata, metadata["current-schema-id"]), "schema")


def schema_by_id(metadata: TableMetadata, schema_id: int) -> Json:
    return next(schema for schema in metadata["schemas"] if schema["schema-id"] == schema_id)


def bound_ids(metadata: TableMetadata) -> set[int]:
    """The columns that the default spec and order refer to."""
    spec = next(spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
    order = next(order for order in metadata["sort-orders"] if order["order-id"] == metadata["default-sort-order-id"])
    return {field["source-id"] for field in spec["fields"] + order["fields"]}


@st.composite
def _schema_updates(draw: st.DrawFn, state: TableMetadata, readers: Readers) -> list[Json]:
    version = state["format-version"]
    base = copy.deepcopy(schema_by_id(state, state["current-schema-id"]))
    ids = [state["last-column-id"]]
    if draw(st.booleans()):
        base["fields"] += draw(fields(ids, version, readers, 1, prefix="new"))
    keep = bound_ids(state) | set(base.get("identifier-field-ids", []))
    droppable = [
        field
        for field in base["fields"]
        if not keep & {field["id"], *parse_schema({"type": "struct", "fields": [field]}, "").columns}
    ]
    if len(base["fields"]) > 1 and droppable and draw(st.booleans()):
        base["fields"].remove(draw(st.sampled_from(droppable)))
    base["schema-id"] = draw(st.integers(-1, 3))
    added = apply(state, [{"action": "add-schema", "schema": base}])
    if len(added["schemas"]) == len(state["schemas"]):
        return [{"action": "add-schema", "schema": base}]
    chosen = draw(st.sampled_from([-1, added["schemas"][-1]["schema-id"]]))
    return [
        {"action": "add-schema", "schema": base, "last-column-id": 1},
        {"action": "set-current-schema", "schema-id": chosen},
    ]


@st.composite
def _layout_updates(draw: st.DrawFn, state: TableMetadata) -> list[Json]:
    schema = parsed_current_schema(state)
    if draw(st.booleans()):
        spec = draw(specs(schema))
        spec["spec-id"] = draw(st.integers(0, 3))
        # Java numbers fields without ids from 1000 whatever the table has used; a correct client sends ids
        first_id = 1000 if state["format-version"] == 1 else state["last-partition-id"] + 1
        for position, field in enumerate(spec["fields"]):
            field["field-id"] = first_id + position
        add, owner = {"action": "add-spec", "spec": spec}, "partition-specs"
        choose, member, stored = "set-default-spec", "spec-id", "spec-id"
    else:
        add, owner = {"action": "add-sort-order", "sort-order": draw(orders(schema))}, "sort-orders"
        choose, member, stored = "set-default-sort-order", "sort-order-id", "order-id"
    added = apply(state, [add])
    if len(added[owner]) == len(state[owner]):
        return [add]
    return [add, {"action": choose, member: draw(st.sampled_from([-1, added[owner][-1][stored]]))}]


@st.composite
def _snapshot_updates(draw: st.DrawFn, state: TableMetadata, now_ms: int) -> list[Json]:
    version = state["format-version"]
    branches = {name: ref for name, ref in state["refs"].items() if ref["type"] == "branch"}
    branch = draw(st.sampled_from(["main", *branches, "b1"]))
    parent = branches.get(branch, {}).get("snapshot-id")
    # ids increase over the whole history, so they are unique even after removals
    snapshot_id = 1 + max([0, *(s["snapshot-id"] for s in state["snapshots"])]) + draw(st.integers(0, 3)) * 1_000
    last_ms = max([START_MS, *(entry["timestamp-ms"] for entry in state["snapshot-log"])])
    snapshot = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": max(now_ms, last_ms) + draw(st.integers(-50_000, 50_000)),
        "manifest-list": f"s3://bucket/a/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": draw(st.sampled_from(["append", "replace", "overwrite", "delete"])), "n": "1"},
        "schema-id": state["current-schema-id"],
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    if version > 1:
        snapshot["sequence-number"] = state["last-sequence-number"] + draw(st.integers(1, 2))
    if version > 2:
        snapshot["first-row-id"] = state["next-row-id"]
        snapshot["added-rows"] = draw(st.integers(0, 10))
    updates = [{"action": "add-snapshot", "snapshot": snapshot}]
    if draw(st.integers(0, 4)) > 0:
        updates.append({"action": "set-snapshot-ref", "ref-name": branch, "type": "branch", "snapshot-id": snapshot_id})
    return updates


@st.composite
def _ref_updates(draw: st.DrawFn, state: TableMetadata) -> list[Json]:
    ids = [snapshot["snapshot-id"] for snapshot in state["snapshots"]]
    kinds = ["set", "remove-snapshots", "statistics", "statistics", "remove-ref"] if ids else ["remove-ref"]
    kind = draw(st.sampled_from(kinds))
    if kind == "remove-ref":
        return [{"action": "remove-snapshot-ref", "ref-name": draw(st.sampled_from(["main", "b1", "t1", "absent"]))}]
    if kind == "remove-snapshots":
        chosen = draw(st.lists(st.sampled_from([*ids, 999_999_999]), max_size=2))
        return [{"action": "remove-snapshots", "snapshot-ids": chosen}]
    snapshot_id = draw(st.sampled_from(ids))
    if kind == "statistics":
        return [draw(statistics_updates(snapshot_id))]
    name = draw(st.sampled_from(["main", "b1", "t1"]))
    ref: Json = {"action": "set-snapshot-ref", "ref-name": name, "snapshot-id": snapshot_id}
    ref["type"] = "tag" if name == "t1" else "branch"
    if draw(st.booleans()):
        ref["max-ref-age-ms"] = draw(st.none() | st.integers(1, 2**62))
    if name != "t1" and draw(st.booleans()):
        ref["min-snapshots-to-keep"] = draw(st.none() | st.integers(1, 2**31 - 1))
    return [ref]


@st.composite
def statistics_updates(draw: st.DrawFn, snapshot_id: int) -> Json:
    file = {"snapshot-id": snapshot_id, "statistics-path": draw(names("s3://stats/")), "file-size-in-bytes": 10}
    blob = {
        "type": "apache-datasketches-theta-v1", "snapshot-id": snapshot_id, "sequence-number": 1, "fields": [1],
        "properties": {"ndv": "3"},
    }  # fmt: skip
    match draw(st.integers(0, 3)):
        case 0:
            statistics = {**file, "file-footer-size-in-bytes": 4, "blob-metadata": [blob]}
            return {"action": "set-statistics", "snapshot-id": snapshot_id, "statistics": statistics}
        case 1:
            return {"action": "remove-statistics", "snapshot-id": snapshot_id}
        case 2:
            return {"action": "set-partition-statistics", "partition-statistics": file}
    return {"action": "remove-partition-statistics", "snapshot-id": snapshot_id}


@st.composite
def _table_updates(draw: st.DrawFn, state: TableMetadata) -> list[Json]:
    version = state["format-version"]
    schema_ids = [s["schema-id"] for s in state["schemas"] if s["schema-id"] != state["current-schema-id"]]
    spec_ids = [s["spec-id"] for s in state["partition-specs"] if s["spec-id"] != state["default-spec-id"]]
    possible: list[Json] = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": draw(st.integers(version, min(3, version + 1)))},
        {"action": "set-location", "location": draw(st.sampled_from(["s3://bucket/a", "s3://bucket/b/"]))},
        {"action": "set-properties", "updates": draw(st.dictionaries(names("k"), st.text(max_size=3), max_size=2))},
        {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": str(draw(st.integers(0, 4)))}},
        {"action": "remove-properties", "removals": [*list(state["properties"])[:1], "absent"]},
        {"action": "remove-schemas", "schema-ids": [*schema_ids[:1], 77]},
        {"action": "remove-partition-specs", "spec-ids": [*spec_ids[:1], 77]},
    ]
    if version > 2:
        key = {"key-id": draw(names("k")), "encrypted-key-metadata": "YWJj", "encrypted-by-id": "kms"}
        possible.append({"action": "add-encryption-key", "encryption-key": key})
        possible.append({"action": "remove-encryption-key", "key-id": draw(names("k"))})
    return [draw(st.sampled_from(possible))]


def apply(state: TableMetadata, updates: list[Json], now_ms: int = START_MS) -> TableMetadata:
    return apply_updates(state, updates, now_ms=now_ms, base_metadata_location=None).metadata


@st.composite
def commits(draw: st.DrawFn, base: TableMetadata, readers: Readers = "java", max_steps: int = 6) -> Commit:
    """A valid commit on top of `base`; each update is drawn for the state after those before it."""
    now_ms = base["last-updated-ms"] + draw(st.integers(-200_000, 200_000))
    updates: list[Json] = []
    state = base
    for _ in range(draw(st.sampled_from(range(max_steps + 1)))):
        step = draw(
            st.one_of(
                _snapshot_updates(state, now_ms),
                _ref_updates(state),
                _snapshot_updates(state, now_ms),
                _table_updates(state),
                _ref_updates(state),
                _layout_updates(state),
                _schema_updates(state, readers),
            )
        )
        updates += step
        state = apply(base, updates, now_ms)
    location = f"s3://bucket/a/metadata/{draw(st.integers(0, 99_999))}.json"
    change = apply_updates(base, updates, now_ms=now_ms, base_metadata_location=location)
    return Commit(base, updates, now_ms, change)


@st.composite
def histories(
    draw: st.DrawFn, readers: Readers = "java", versions: tuple[int, ...] = (1, 2, 3), max_commits: int = 4
) -> tuple[TableMetadata, list[Commit]]:
    """A created table and its commits."""
    created = create_table_metadata(**draw(create_requests(readers, versions)))
    history: list[Commit] = []
    metadata = created
    for _ in range(draw(st.sampled_from(range(max_commits + 1)))):
        history.append(draw(commits(metadata, readers)))
        metadata = history[-1].change.metadata
    return created, history


@st.composite
def table_metadata(draw: st.DrawFn, readers: Readers = "java", versions: tuple[int, ...] = (1, 2, 3)) -> TableMetadata:
    """A metadata document that all of these readers must accept."""
    created, history = draw(histories(readers, versions))
    return history[-1].change.metadata if history else created


__all__ = ["Commit", "commits", "create_requests", "histories", "schemas", "table_metadata"]
