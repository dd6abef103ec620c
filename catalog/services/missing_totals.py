"""Totals of tables that were last changed by a version that kept none, read from their stored metadata."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

from catalog.iceberg.totals import read_totals
from catalog.models import TableTotals, Tabular
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


def fill_missing_totals(project_id: str, checkpoint: Callable[[], object]) -> int:
    """Insert totals for tables of a project that have none, and return their number. It may be called again at once.

    Of tables whose metadata is in the object store only, the totals stay unknown until their next commit. It reads
    `MAX_BYTES` at most; `checkpoint` is called before each batch. A commit at the same time wins.
    """
    filled = 0
    for ids in _batches(fetch_all("default", _MISSING, [project_id, MAX_TABLES])):
        checkpoint()
        found = {as_uuid(key): document for key, document in fetch_all("default", _READ, [ids])}
        rows = {key: _read(key, document) for key, document in found.items()}
        with write_transaction():
            # Skips tables that a commit or drop has locked, and locks the others against a drop.
            living = Tabular.objects.filter(pk__in=list(rows)).order_by("pk").select_for_update(skip_locked=True)
            inserted = [rows[key] for key in living.values_list("pk", flat=True)]
            TableTotals.objects.bulk_create(inserted, ignore_conflicts=True)
        filled += len(inserted)
    return filled


_MISSING: Final = """
SELECT t.id, length(m.document)
  FROM storage_warehouse w
  JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.kind = 'table'
  JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
  LEFT JOIN catalog_tabletotals c ON c.tabular_id = t.id
 WHERE w.project_id = %s AND c.tabular_id IS NULL AND m.document IS NOT NULL
 ORDER BY t.id
 LIMIT %s
"""

_READ: Final = "SELECT tabular_id, document FROM catalog_tabularmetadata WHERE tabular_id = ANY(%s)"


def _batches(sizes: Sequence[tuple[object, int]]) -> Iterator[list[UUID]]:
    batch, in_batch, read = list[UUID](), 0, 0
    for key, size in sizes:
        if read and read + size > MAX_BYTES:
            break
        if batch and (in_batch + size > BATCH_BYTES or len(batch) == BATCH_TABLES):
            yield batch
            batch, in_batch = [], 0
        batch.append(as_uuid(key))
        in_batch += size
        read += size
    if batch:
        yield batch


def _read(tabular_id: UUID, document: bytes) -> TableTotals:
    """Return the row of a table; without numbers if its document cannot be read, which is not tried again each hour."""
    try:
        totals = read_totals(read_stored_json(document))
    except (ValueError, TypeError, KeyError, AttributeError):
        logger.warning("the stored metadata cannot be read", extra={"tabular": str(tabular_id)})
        return TableTotals(tabular_id=tabular_id)
    return TableTotals(tabular_id=tabular_id, **totals._asdict())
