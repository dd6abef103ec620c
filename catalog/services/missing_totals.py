"""Totals of tables, and names of columns, that the last version to change an object did not keep.

They are read from the stored metadata.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from catalog.iceberg.column_names import ColumnNames, current_table_schema, current_view_schema, read_column_names
from catalog.iceberg.totals import read_totals
from catalog.models import TableTotals, Tabular, TabularColumns
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.json.strict import read_stored_json

MAX_TABLES: Final = 10_000
MAX_BYTES: Final = 256 * 1024 * 1024
"""Metadata that one call reads."""

BATCH_TABLES: Final = 500
BATCH_BYTES: Final = 8 * 1024 * 1024
"""Metadata in memory: as much, or one document that is larger."""

logger = logging.getLogger("icekeeper.catalog")


class _Incomplete(NamedTuple):
    """A table or view that lacks totals (views have none), names of columns, or both."""

    tabular_id: UUID
    kind: str
    lacks_totals: bool
    lacks_columns: bool
    size: int


class _Rows(NamedTuple):
    totals: TableTotals | None
    columns: TabularColumns | None


def fill_missing_totals(project_id: str, checkpoint: Callable[[], object]) -> int:
    """Insert totals and names of columns for objects of a project that lack them, and return the number of objects.

    It may be called again at once. Of objects whose metadata is in the object store only, they stay unknown until their
    next commit. It reads `MAX_BYTES` at most; `checkpoint` is called before each batch. A commit at the same time wins.
    """
    filled = 0
    for batch in _batches([_read_incomplete(row) for row in fetch_all("default", _MISSING, [project_id, MAX_TABLES])]):
        checkpoint()
        wanted = {each.tabular_id: each for each in batch}
        documents = fetch_all("default", _READ, [list(wanted)])
        found = {as_uuid(key): _read(wanted[as_uuid(key)], document) for key, document in documents}
        with write_transaction():
            # Skips tables that a commit or drop has locked, and locks the others against a drop.
            living = Tabular.objects.filter(pk__in=list(found)).order_by("pk").select_for_update(skip_locked=True)
            rows = [found[key] for key in living.values_list("pk", flat=True)]
            totals = [each.totals for each in rows if each.totals is not None]
            columns = [each.columns for each in rows if each.columns is not None]
            TableTotals.objects.bulk_create(totals, ignore_conflicts=True)
            TabularColumns.objects.bulk_create(columns, ignore_conflicts=True)
        filled += len(rows)
    return filled


_MISSING: Final = """
SELECT t.id, t.kind, t.kind = 'table' AND c.tabular_id IS NULL, n.tabular_id IS NULL, length(m.document)
  FROM storage_warehouse w
  JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.kind IN ('table', 'view')
  JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
  LEFT JOIN catalog_tabletotals c ON c.tabular_id = t.id
  LEFT JOIN catalog_tabularcolumns n ON n.tabular_id = t.id
 WHERE w.project_id = %s AND m.document IS NOT NULL
   AND (n.tabular_id IS NULL OR (t.kind = 'table' AND c.tabular_id IS NULL))
 ORDER BY t.id
 LIMIT %s
"""

_READ: Final = "SELECT tabular_id, document FROM catalog_tabularmetadata WHERE tabular_id = ANY(%s)"


def _read_incomplete(row: tuple[Any, ...]) -> _Incomplete:
    key, kind, lacks_totals, lacks_columns, size = row
    return _Incomplete(as_uuid(key), kind, bool(lacks_totals), bool(lacks_columns), size)


def _batches(found: Sequence[_Incomplete]) -> Iterator[list[_Incomplete]]:
    batch, in_batch, read = list[_Incomplete](), 0, 0
    for each in found:
        if read and read + each.size > MAX_BYTES:
            break
        if batch and (in_batch + each.size > BATCH_BYTES or len(batch) == BATCH_TABLES):
            yield batch
            batch, in_batch = [], 0
        batch.append(each)
        in_batch += each.size
        read += each.size
    if batch:
        yield batch


def _read(wanted: _Incomplete, document: bytes) -> _Rows:
    """Return the rows that an object lacks; empty ones if its document cannot be read, which is not tried again."""
    key = wanted.tabular_id
    try:
        metadata = read_stored_json(document)
        totals = read_totals(metadata)._asdict() if wanted.lacks_totals else {}
        schema = current_table_schema(metadata) if wanted.kind == Tabular.Kind.TABLE else current_view_schema(metadata)
        columns = read_column_names(schema) if wanted.lacks_columns else ColumnNames("", "")
    except (ValueError, TypeError, KeyError, AttributeError):
        logger.warning("the stored metadata cannot be read", extra={"tabular": str(key)})
        totals, columns = {}, ColumnNames("", "")
    return _Rows(
        TableTotals(tabular_id=key, **totals) if wanted.lacks_totals else None,
        TabularColumns(tabular_id=key, **columns._asdict()) if wanted.lacks_columns else None,
    )
