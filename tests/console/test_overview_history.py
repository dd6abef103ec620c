"""Counts, sizes and largest tables of the overview: what is counted now, what was recorded, and what is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.test.utils import CaptureQueriesContext

from catalog.models import LargeTable, SlowTable, Tabular, WarehouseSize, WarehouseStatistic
from catalog.selectors import overview
from catalog.selectors.overview import Overview, get_overview_for
from catalog.selectors.overview_history import list_moments
from catalog.selectors.overview_operations import list_latest_changes
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tasks.models import Task
from tenancy.actor import INTERNAL, Actor, Grantee
from tenancy.models import Grant, OutboxEvent, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import get_project, server_ref
from tenancy.services.project_tasks import schedule_project_tasks
from tests.authz.tree_fixtures import give

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

NOW = datetime(2026, 11, 27, 12, 30, tzinfo=UTC)
FIRST = datetime(2026, 10, 29, tzinfo=UTC)
NUMBERS = ("tables", "views", "generic_tables")


@pytest.fixture
def other(warehouse: Warehouse, storage_root: Path) -> Warehouse:
    profile = {"type": "local", "path": str(storage_root / "other")}
    return create_warehouse(actor=INTERNAL, project=get_project(None), name="other", storage_profile=profile)


def shown(moments: Sequence[datetime] = ()) -> Overview:
    return get_overview_for(actor=INTERNAL, projects=[get_project(None)], moments=moments)


def sizes(*moments: datetime) -> list[tuple[datetime, int | None, int | None, int | None]]:
    points = shown(moments).history.points
    return [(each.at, each.records, each.files_size, each.tables) for each in points]


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


def test_moments_are_the_ends_of_steps() -> None:
    days = list_moments(NOW)
    assert (len(days), days[0], days[-2:]) == (31, FIRST, [NOW.replace(hour=0, minute=0), NOW])
    hours = list_moments(NOW, timedelta(hours=24), timedelta(hours=6))
    assert [each.hour for each in hours] == [18, 0, 6, 12, 12]


def test_each_moment_has_the_last_numbers_before_it(warehouse: Warehouse, other: Warehouse) -> None:
    """Rows of an hour have the numbers at its end. Before all warehouses existed, numbers are zero, not unknown."""
    yesterday = datetime(2026, 11, 26, 5, tzinfo=UTC)
    for number in range(3):
        record(warehouse, yesterday + timedelta(hours=number), 5 - number)
    record(other, yesterday, 1)
    record(other, NOW - timedelta(hours=1), 2)
    recorded(other, 7)
    moments = [yesterday + timedelta(hours=number) for number in range(4)]
    expected = [(each, count, 10 * count) for each, count in zip(moments, (0, 6, 5, 4), strict=True)]
    Warehouse.objects.update(created_at=yesterday + timedelta(minutes=1))
    assert sizes(*moments, NOW) == [*((*each, 0) for each in expected), (NOW, 5, 50, 107)]
    Warehouse.objects.filter(pk=other.pk).update(created_at=yesterday - timedelta(days=1))
    assert sizes(*moments, NOW)[:2] == [(moments[0], None, None, None), (*expected[1], None)]
    assert sizes(NOW + timedelta(hours=1)) == [(NOW + timedelta(hours=1), 5, 50, 7)]
    assert sizes() == []


def test_when_numbers_were_recorded(warehouse: Warehouse) -> None:
    """The next task of a project is enqueued by the one that records."""
    schedule_project_tasks(actor=INTERNAL)
    Task.objects.filter(queue=Task.Queue.STATISTICS).update(created_at=NOW)
    assert shown([NOW]).history.recorded_at is None
    record(warehouse, NOW - timedelta(hours=1), 1)
    assert shown([NOW]).history.recorded_at == NOW


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
    figures = {"scans": 2, "planning_us": 8, "result_data_files": 4, "result_delete_files": 0, "result_data_bytes": 1}
    for rank, tabular_id in enumerate((new_id(), here.pk), start=1):
        LargeTable.objects.create(warehouse=warehouse, rank=rank, tabular_id=tabular_id, files_size=9)
        SlowTable.objects.create(warehouse=warehouse, rank=rank, tabular_id=tabular_id, **figures)
    connections["default"].check_constraints()
    largest, slowest = shown().rankings
    assert [(row.uuid, row.levels, row.name, row.files_size) for row in largest] == [(here.uuid, ("ns",), "a", 9)]
    assert [(row.name, row.scans, row.planning_us, row.result_data_bytes) for row in slowest] == [("a", 2, 8, 1)]
    Tabular.objects.update(deleted_at=now())
    assert shown().rankings == ((), ())


def test_grants_that_expire_soon(warehouse: Warehouse, other: Warehouse) -> None:
    def give(days: float, on: Warehouse, privilege: str) -> None:
        own_id = securable_id(Securable.Type.WAREHOUSE, on.pk)
        Grant.objects.create(
            securable_id=own_id, path=Securable.objects.get(pk=own_id).path, user=ann, privilege=privilege,
            expires_at=now() + timedelta(days=days),
        )  # fmt: skip

    ann = User.objects.create(id="oidc~ann", name="Ann", name_key="ann")
    assert shown().expiring_grants is None
    give(-1, warehouse, "select")
    give(8, warehouse, "modify")
    assert shown().expiring_grants is None
    give(6, other, "select")
    give(5, warehouse, "create")
    found = shown().expiring_grants
    assert found is not None
    assert (found.count, found.grantee, found.project_id) == (2, Grantee(user_id="oidc~ann"), warehouse.project_id)
    Warehouse.objects.filter(pk=warehouse.pk).update(status=Warehouse.Status.INACTIVE)
    found = shown().expiring_grants
    assert found is not None
    assert found.count == 1


def test_hidden_warehouses_are_not_counted(
    warehouse: Warehouse, other: Warehouse, builtin: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who sees the second warehouse alone: it is found behind the limit, and no others are hinted at."""
    reader = Actor(user_id="local~reader")
    give("select", ObjectRef(Securable.Type.WAREHOUSE, other.pk), reader)
    monkeypatch.setattr(overview, "MAX_WAREHOUSES", 1)
    found = get_overview_for(actor=reader, projects=[get_project(None)], moments=[])
    assert ([each.warehouse for each in found.counts], found.has_more) == ([other], False)
    assert shown().has_more


def test_latest_changes_of_a_quiet_warehouse(
    warehouse: Warehouse, other: Warehouse, create_table: Callable[..., dict[str, Any]]
) -> None:
    create_table("quiet")
    events = [
        OutboxEvent(
            object_key=f"table:{new_id()}", sequence=1, type="updateTable", at=NOW, public_id=str(new_id()),
            names='["ns", "busy"]', warehouse_id=other.pk, actor="oidc~spark",
        )
        for _ in range(600)
    ]  # fmt: skip
    OutboxEvent.objects.bulk_create(events)
    changes = list_latest_changes([warehouse.pk], {warehouse.pk})
    assert changes[0].names[-1] == "quiet"
    assert {each.warehouse_id for each in changes} == {warehouse.pk}
    both = list_latest_changes([warehouse.pk, other.pk], ())
    assert [(each.names, each.actor, each.kind) for each in both] == [(("ns", "busy"), "", "table")] * 8


def test_the_number_of_statements_is_that_of_the_docstring(warehouse: Warehouse, other: Warehouse) -> None:
    projects = [get_project(None)]
    server_ref()  # read once in a process
    with CaptureQueriesContext(connections[settings.READ_DATABASE]) as captured:
        get_overview_for(actor=INTERNAL, projects=projects, moments=[NOW])
    statements = [each["sql"] for each in captured.captured_queries]
    assert len(statements) <= 9, statements
