"""Counts, sizes and largest tables of the overview: what is counted now, what was recorded, and what is left out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.test.utils import CaptureQueriesContext

from catalog.models import LargeTable, Tabular, WarehouseSize, WarehouseStatistic
from catalog.selectors import overview
from catalog.selectors.overview import SIZE_HISTORY, Overview, get_overview_for
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

NOW = datetime(2026, 11, 27, 12, 30, tzinfo=UTC)
FIRST = datetime(2026, 10, 28, tzinfo=UTC)
NUMBERS = ("tables", "views", "generic_tables")


@pytest.fixture
def other(warehouse: Warehouse, storage_root: Path) -> Warehouse:
    profile = {"type": "local", "path": str(storage_root / "other")}
    return create_warehouse(actor=INTERNAL, project=get_project(None), name="other", storage_profile=profile)


def shown() -> Overview:
    return get_overview_for(actor=INTERNAL, projects=[get_project(None)])


def sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[datetime, int, int]]:
    monkeypatch.setattr(overview, "now", lambda: NOW)
    return [(each.hour, each.records, each.files_size) for each in shown().sizes]


def record(warehouse: Warehouse, hour: datetime, records: int) -> None:
    size = 10 * records
    WarehouseSize.objects.create(warehouse=warehouse, hour=hour, records=records, files_size=size, data_files=1)


def recorded(warehouse: Warehouse, tables: int) -> None:
    counts = dict(zip(NUMBERS, (tables, 0, 0), strict=True))
    for hour, more in ((NOW - timedelta(hours=1), 100), (NOW, 0)):
        row = counts | {"tables": tables + more}
        WarehouseStatistic.objects.create(warehouse=warehouse, hour=hour, updated_at=hour, **row)


def tables_of(found: Overview) -> dict[str, int | None]:
    return {each.warehouse.name: each.tables for each in found.counts}


def test_each_day_has_the_last_sums_of_it(
    warehouse: Warehouse, other: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    yesterday = datetime(2026, 11, 26, 5, tzinfo=UTC)
    for number in range(3):
        record(warehouse, yesterday + timedelta(hours=number), 5 - number)
    record(other, yesterday, 1)
    record(other, NOW - timedelta(hours=1), 2)
    assert sizes(monkeypatch) == [(yesterday + timedelta(hours=2), 4, 40), (NOW - timedelta(hours=1), 5, 50)]


def test_older_sizes_are_the_start_of_the_period(
    warehouse: Warehouse, other: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest old hour of a warehouse is an older hour of another one, whose row of that hour does not count."""
    assert NOW.replace(hour=0, minute=0) - SIZE_HISTORY == FIRST
    shared = FIRST - timedelta(days=3)
    record(warehouse, shared, 1)
    record(other, shared, 100)
    record(other, FIRST - timedelta(hours=1), 50)
    record(warehouse, FIRST + timedelta(hours=2), 3)
    expected = [(FIRST, 51, 510), (FIRST + timedelta(hours=2), 53, 530), (NOW, 53, 530)]
    assert sizes(monkeypatch) == expected


def test_a_quiet_warehouse_has_a_line(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sizes(monkeypatch) == []
    record(warehouse, FIRST - timedelta(days=200), 7)
    assert sizes(monkeypatch) == [(FIRST, 7, 70), (NOW, 7, 70)]


def test_objects_are_counted_in_the_smallest_warehouses(
    create_table: Callable[..., dict[str, Any]], warehouse: Warehouse, other: Warehouse
) -> None:
    create_table("a")
    recorded(warehouse, overview.MAX_COUNTED)
    assert tables_of(shown()) == {"wh": 1, "other": 0}
    recorded(other, 1)
    found = shown()
    assert tables_of(found) == {"wh": overview.MAX_COUNTED, "other": 0}
    assert found.tables == overview.MAX_COUNTED


def test_counting_ends_at_its_limit(
    create_table: Callable[..., dict[str, Any]],
    warehouse: Warehouse,
    other: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A warehouse that was not counted to the end has its recorded number, or none."""
    for name in ("a", "b", "c"):
        create_table(name)
    monkeypatch.setattr(overview, "MAX_COUNTED", 3)
    assert tables_of(shown()) == {"wh": 3, "other": 0}
    monkeypatch.setattr(overview, "MAX_COUNTED", 2)
    found = shown()
    assert tables_of(found) == {"wh": None, "other": None}
    assert (found.warehouses, found.tables, found.views, found.generic_tables) == (2, 0, 0, 0)
    recorded(warehouse, 1)
    assert tables_of(shown()) == {"wh": 1, "other": None}
    Tabular.objects.filter(name="a").update(warehouse=other)
    assert tables_of(shown()) == {"wh": 2, "other": None}


def test_deleted_tables_are_not_shown(create_table: Callable[..., dict[str, Any]], warehouse: Warehouse) -> None:
    """A table can be deleted after its row was inserted, and before that insert is committed."""
    create_table("a")
    here = Tabular.objects.get()
    for rank, tabular_id in enumerate((new_id(), here.pk), start=1):
        LargeTable.objects.create(warehouse=warehouse, rank=rank, tabular_id=tabular_id, files_size=9)
    connections["default"].check_constraints()
    assert [row.tabular for row in shown().largest] == [here]
    Tabular.objects.update(deleted_at=now())
    assert shown().largest == ()


def test_the_number_of_statements_is_that_of_the_docstring(warehouse: Warehouse, other: Warehouse) -> None:
    projects = [get_project(None)]
    with CaptureQueriesContext(connections[settings.READ_DATABASE]) as captured:
        get_overview_for(actor=INTERNAL, projects=projects)
    statements = [each["sql"] for each in captured.captured_queries]
    assert len(statements) <= 8, statements
