"""The largest tables of warehouses, and those whose scans take longest to plan, as recorded last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.names import LEVEL_SEPARATOR

MAX_RANKED: Final = 10


class RankedTable(NamedTuple):
    """A table of a ranking, with its recorded numbers; those of the other ranking are None."""

    warehouse_id: UUID
    uuid: UUID
    levels: tuple[str, ...]
    name: str
    records: int | None
    files_size: int | None
    data_files: int | None
    scans: int | None
    planning_us: int | None
    result_data_files: int | None
    result_delete_files: int | None
    result_data_bytes: int | None


# The inner joins leave out rows whose table was deleted meanwhile.
_OF_TABLES: Final = """
          JOIN catalog_tabular t ON t.id = r.tabular_id AND t.deleted_at IS NULL
          JOIN catalog_namespace n ON n.id = t.namespace_id
         WHERE r.warehouse_id = ANY(%s) AND r.rank <= %s
"""
_RANKINGS: Final = f"""
SELECT * FROM (
        SELECT 'largest', r.warehouse_id, t.uuid, n.path, t.name, r.records, r.files_size, r.data_files,
               CAST(NULL AS bigint), CAST(NULL AS bigint), CAST(NULL AS bigint), CAST(NULL AS bigint),
               CAST(NULL AS bigint)
          FROM catalog_largetable r {_OF_TABLES}
         ORDER BY r.files_size DESC, r.tabular_id
         LIMIT %s) l
 UNION ALL
SELECT * FROM (
        SELECT 'slowest', r.warehouse_id, t.uuid, n.path, t.name, CAST(NULL AS bigint), CAST(NULL AS bigint),
               CAST(NULL AS bigint), r.scans, r.planning_us, r.result_data_files, r.result_delete_files,
               r.result_data_bytes
          FROM catalog_slowtable r {_OF_TABLES}
         ORDER BY r.planning_us / r.scans DESC, r.tabular_id
         LIMIT %s) s
"""  # noqa: S608 - constants


class Rankings(NamedTuple):
    largest: tuple[RankedTable, ...] = ()
    slowest: tuple[RankedTable, ...] = ()


def read_rankings(warehouse_ids: Sequence[UUID]) -> Rankings:
    """Return the first tables of all those warehouses together. One statement.

    Requires the permission to list everything in each.
    """
    if not warehouse_ids:
        return Rankings()
    found: dict[str, list[RankedTable]] = {"largest": [], "slowest": []}
    params = [list(warehouse_ids), MAX_RANKED, MAX_RANKED]
    for ranking, warehouse_id, uuid, path, name, *numbers in fetch_all(
        settings.READ_DATABASE, _RANKINGS, [*params, *params]
    ):
        levels = tuple(path.split(LEVEL_SEPARATOR))
        found[ranking].append(RankedTable(as_uuid(warehouse_id), as_uuid(uuid), levels, name, *numbers))
    return Rankings(tuple(found["largest"]), tuple(found["slowest"]))
