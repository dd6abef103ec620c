"""A page of a listing reads its own rows only, however many others exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection

from catalog.models import Namespace, Tabular
from catalog.selectors import namespaces
from catalog.selectors.tables import generic_tables, load
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

FIRST = UUID(int=0)
LIMIT = 11


@pytest.fixture
def filled(catalog: ApiClient, warehouse: Warehouse) -> Warehouse:
    """Create one namespace with most of the tables, then a small one, and many namespaces."""
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: plans of SQLite have no row counts")
    for name, kind, count in (("full", "table", 3_000), ("small", "table", 50), ("small", "generic-table", 50)):
        catalog.post("/namespaces", {"namespace": [name]})
        Tabular.objects.bulk_create(
            Tabular(
                warehouse=warehouse, namespace=Namespace.objects.get(path=name), kind=kind, uuid=new_id(),
                name=f"{kind}{number}", name_key=f"{kind}{number}", location=f"file:///{name}/{kind}/{number}",
            )
            for number in range(count)
        )  # fmt: skip
    small, first = Namespace.objects.get(path="small"), 0
    for parent in (small, None, small):
        prefix = f"{parent.path}\x1f" if parent else ""
        Namespace.objects.bulk_create(
            Namespace(warehouse=warehouse, parent=parent, path=f"{prefix}n{number}", path_key=f"{prefix}n{number}")
            for number in range(first, first + 300)
        )
        first += 300
    return warehouse


def rows_read(statement: str, params: list[Any]) -> int:
    """The maximum of rows that one step of the prepared plan reads, skipped rows included."""
    with connection.cursor() as settings:
        settings.execute("ANALYZE")
        settings.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", params, prepare=True)
        row = cursor.fetchone()
    assert row is not None
    steps = list(_steps(row[0][0]["Plan"]))
    assert len(steps) > 3
    return max(step["Actual Rows"] + step.get("Rows Removed by Filter", 0) for step in steps)


def _steps(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield step
    for each in step.get("Plans", ()):
        yield from _steps(each)


def test_pages_read_their_own_rows(filled: Warehouse) -> None:
    for name in ("full", "small"):
        location = [name, filled.pk, name, "table", FIRST, "table", LIMIT, filled.pk]
        assert rows_read(load._LIST, location) <= LIMIT, name
    location = ["small", filled.pk, "small", FIRST, LIMIT, filled.pk]
    assert rows_read(generic_tables._LIST, location) <= 50 + LIMIT, "all rows of the namespace may be read"
    assert rows_read(namespaces._LIST_ROOT, [filled.pk, FIRST, LIMIT, filled.pk]) <= LIMIT
    location = ["small", filled.pk, filled.pk, "small", FIRST, filled.pk, "small", LIMIT, filled.pk]
    assert rows_read(namespaces._LIST_CHILDREN, location) <= 600, "only the children of that namespace"
