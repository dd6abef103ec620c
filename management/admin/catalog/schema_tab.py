"""The tab with the schema of a table or view, its changes, partition specs and sort orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from catalog.iceberg.display.columns import list_column_rows
from catalog.iceberg.display.create_statements import write_spark_statement, write_trino_statement
from catalog.iceberg.display.partition_text import list_partition_specs, list_sort_orders
from catalog.iceberg.display.schema_comparison import ChangeKind, FieldChange, FieldState, compare_schemas
from catalog.iceberg.types import TableMetadata
from catalog.identifiers import Identifier
from icekeeper.kernel.errors.types import NotFound
from management.admin.catalog.metadata_facts import find_schema
from management.admin.catalog.snippets import CATALOG
from management.admin.json_view import json_lines

MAX_COLUMNS: Final = 2_000
MAX_LISTED_SCHEMAS: Final = 200
"""In the choice of schemas to compare: the newest ones."""

_TONES: Final = {ChangeKind.ADDED: ("added", "+"), ChangeKind.DROPPED: ("dropped", "-")}


def schema_context(metadata: TableMetadata, identifier: Identifier, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the schema that `query` names (`schema`, by default the current one), and its comparison with another one.

    Raises `NotFound` for a schema that the metadata does not have.
    """
    ids = [each.get("schema-id", 0) for each in metadata.get("schemas") or []] or [0]
    current = metadata.get("current-schema-id", _schema_of_view(metadata))
    shown_id = _read_id(query.get("schema"), ids, current)
    other_id = _read_id(query.get("compare"), ids, _previous(ids, shown_id))
    schema = find_schema(metadata, shown_id)
    is_table = "partition-specs" in metadata or "partition-spec" in metadata
    return {
        "schema_id": shown_id,
        "other_id": other_id,
        "current_id": current,
        "schema_ids": sorted(ids, reverse=True)[:MAX_LISTED_SCHEMAS],
        "columns": list_column_rows(schema, max_rows=MAX_COLUMNS),
        "comparison": None if other_id is None else compare_for_page(find_schema(metadata, other_id), schema),
        "partition_specs": list_partition_specs(metadata) if is_table else (),
        "sort_orders": list_sort_orders(metadata) if is_table else (),
        "schema_json": json_lines(schema),
        "create_statements": _create_statements(metadata, [CATALOG, *identifier.levels, identifier.name])
        if is_table
        else (),
    }


def _create_statements(metadata: TableMetadata, names: list[str]) -> tuple[tuple[str, Any], ...]:
    return ("Spark", write_spark_statement(metadata, names)), ("Trino", write_trino_statement(metadata, names))


def _schema_of_view(metadata: TableMetadata) -> Any:
    wanted = metadata.get("current-version-id")
    versions = metadata.get("versions") or []
    return next((each.get("schema-id") for each in versions if each.get("version-id") == wanted), 0)


def _read_id(text: str | None, ids: list[int], default: Any) -> Any:
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) in ids):  # noqa: PLR2004
        raise NotFound("No such schema")
    return int(text)


def _previous(ids: list[int], shown: Any) -> int | None:
    """Return the schema that was created before the shown one."""
    at = ids.index(shown) if shown in ids else 0
    return ids[at - 1] if at else None


def compare_for_page(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the comparison of two schemas as `console/parts/schema_changes.html` shows it."""
    found = compare_schemas(old, new)
    return {"found": found, "rows": [_row(each) for each in found.changes]}


def _row(change: FieldChange) -> dict[str, Any]:
    tone, sign = _TONES.get(change.kinds[0], ("changed", "~"))
    state: FieldState | None = change.new or change.old
    return {
        "tone": tone,
        "label": f"{sign} {', '.join(kind.value for kind in change.kinds)}",
        "path": _pair(change, "path"),
        "type_text": _pair(change, "type_text"),
        "consequence": change.consequence,
        "field_id": change.field_id,
        "is_dropped": change.new is None,
        "doc": None if state is None else state.doc,
    }


def _pair(change: FieldChange, name: str) -> str:
    old, new = (None if state is None else getattr(state, name) for state in (change.old, change.new))
    if old is None or new is None or old == new:
        return str(new if new is not None else old)
    return f"{old} → {new}"
