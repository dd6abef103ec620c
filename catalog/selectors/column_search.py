"""Search of tables and views by the names of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet

from catalog.iceberg.column_names import SEPARATOR, find_columns
from catalog.models import Tabular, TabularColumns
from catalog.selectors.candidates import candidate_tabulars
from icekeeper.kernel.db.sql import as_uuid, fetch_planned
from icekeeper.kernel.names import LEVEL_SEPARATOR, lookup_key
from storage.models import Warehouse
from tenancy.authz.port import VisibleObjects

MIN_PART_LENGTH: Final = 3
"""Shorter texts find columns of exactly that name."""
MAX_SHOWN_COLUMNS: Final = 3
"""Matching columns of one table or view that are shown."""


class ColumnHit(NamedTuple):
    """A table or view, visible or not, with a column that matches; `path` are the names above it."""

    is_exact: bool
    own_id: UUID
    kind: str
    uuid: UUID
    name: str
    warehouse_id: UUID
    path: tuple[str, ...]


def column_key(text: str) -> str:
    """Return the form of `text` by which columns are found."""
    return lookup_key(text.replace(SEPARATOR, " "))


def find_by_column(text: str, visible: VisibleObjects | None, limit: int) -> list[ColumnHit]:
    """Return at most `limit` live tables and views of active warehouses with a column `text`: exact ones first.

    A column matches exactly by its full name or the last parts of it; it matches as well if its name contains `text`.
    One statement. Its parts end at the limit, so that a name which most tables have is not sorted among all of them.
    """
    key = column_key(text)
    if not key:
        return []
    is_exact = Q(columns__keys__contains=f"{SEPARATOR}{key}{SEPARATOR}") | Q(
        columns__keys__contains=f".{key}{SEPARATOR}"
    )
    parts = [_first(is_exact, visible, limit)]
    if len(key) >= MIN_PART_LENGTH:
        parts.append(_first(Q(columns__keys__contains=key), visible, limit))
    found: dict[UUID, ColumnHit] = {}
    for rank, own_id, kind, uuid, name, path, warehouse_id, warehouse, project in _read_all(parts):
        above = (project, warehouse, *path.split(LEVEL_SEPARATOR))
        hit = ColumnHit(rank == 0, as_uuid(own_id), kind, as_uuid(uuid), name, as_uuid(warehouse_id), above)
        found.setdefault(hit.own_id, hit)  # an exact match is in both parts
    return list(found.values())[:limit]


_READ: Final = (
    "pk", "kind", "uuid", "name", "namespace__path", "warehouse_id", "warehouse__name", "warehouse__project__name",
)  # fmt: skip


def _first(condition: Q, visible: VisibleObjects | None, limit: int) -> QuerySet[Any, Any]:
    rows = Tabular.objects.live().filter(candidate_tabulars(visible), condition)
    return rows.filter(warehouse__status=Warehouse.Status.ACTIVE).order_by("columns__pk").values_list(*_READ)[:limit]


def _read_all(parts: Sequence[QuerySet[Any, Any]]) -> list[tuple[Any, ...]]:
    """Read all parts in one statement; each row begins with the number of its part. (SQLite has no union of slices.)"""
    statements, params = list[str](), list[Any]()
    for number, part in enumerate(parts):
        statement, values = part.using(settings.READ_DATABASE).query.sql_with_params()
        statements.append(f"SELECT {number} AS part, found.* FROM ({statement}) AS found")  # noqa: S608 - from the ORM
        params += values
    return fetch_planned(settings.READ_DATABASE, f"{' UNION ALL '.join(statements)} ORDER BY 1, 2", params)


def list_matching_columns(text: str, ids: Sequence[UUID]) -> dict[UUID, tuple[str, ...]]:
    """Return the first columns of each object that match `text`, as spelled. The objects are visible to the caller."""
    key = column_key(text)
    rows = TabularColumns.objects.using(settings.READ_DATABASE).filter(pk__in=list(ids)).values_list("pk", "names")
    return {own_id: tuple(find_columns(names, key, limit=MAX_SHOWN_COLUMNS)) for own_id, names in rows}
