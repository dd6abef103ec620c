"""Calls summed by hour and result, durations of loads of tables, and what the first commits in a warehouse lead to."""

from __future__ import annotations

import functools
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection

from catalog.models import WarehouseSize
from icekeeper.kernel.clock import now
from management.call_hours import read_calls_for, read_calls_of_warehouse_for
from management.endpoint_statistics import CallCount, CallKey, Window, record_calls
from management.load_durations import LOAD_ROUTE, limit_of, percentile
from management.models import CallHour, LoadDuration
from storage.models import Warehouse
from tasks.models import Task
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tenancy.services.project_tasks import schedule_project_tasks
from tests.harness.routes import ROUTES
from tests.management.test_endpoint_statistics import EIGHT
from tests.management.test_endpoint_statistics import counted as calls_of

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_results_and_durations_by_hour(warehouse: Warehouse) -> None:
    commit = "catalog/v1/<segment:prefix>/namespaces/<segment:namespace>/tables/<segment:table>"
    loads = [CallCount(EIGHT.timestamp(), limit) for limit in (5, 20, 5)]
    calls = {
        **calls_of(4, warehouse=warehouse.pk),
        **calls_of(3, warehouse=warehouse.pk, status=404),
        **calls_of(2, warehouse=warehouse.pk, method="POST", route=commit),
        **calls_of(1, warehouse=warehouse.pk, method="POST", route=commit, status=503),
        CallKey(int(EIGHT.timestamp()) // 3600, "GET", commit, 200, str(warehouse.pk), None): functools.reduce(
            CallCount.merge, loads
        ),
    }
    for _ in range(2):
        record_calls(calls)
    fields = ("warehouse_id", "hour", "succeeded", "client_errors", "server_errors", "commits")
    assert list(CallHour.objects.values_list(*fields)) == [(warehouse.pk, EIGHT, 18, 6, 2, 4)]
    assert sorted(LoadDuration.objects.values_list("limit_ms", "count")) == [(5, 4), (20, 2)]
    CallHour.objects.all().delete()
    migration = import_module("management.migrations.0003_call_hours")
    with connection.cursor() as cursor:
        cursor.execute(migration._SUMS)
    assert list(CallHour.objects.values_list(*fields)) == [(warehouse.pk, EIGHT, 18, 6, 2, 4)], "as after an upgrade"
    window = Window(EIGHT, EIGHT + timedelta(hours=2))
    found = read_calls_of_warehouse_for(actor=INTERNAL, warehouse=warehouse, window=window)
    assert found == read_calls_for(actor=INTERNAL, projects=[get_project(None)], window=window)
    assert found is not None
    assert [(each.total, each.commits) for each in found.hours] == [(26, 4), (0, 0)]
    assert found.load_p95(EIGHT) == 15 + 5 * (0.95 * 6 - 4) / 2
    assert found.load_p95(EIGHT + timedelta(hours=1)) is None


def test_limits_of_durations() -> None:
    limits = [limit_of(seconds) for seconds in (0.0, 0.001, 0.0011, 0.2, 3600.0)]
    assert limits == [1, 1, 2, 200, 60_000]
    assert percentile({}, 0.95) is None
    assert percentile({1: 1}, 0.5) == 0.5
    assert percentile({10: 95, 60_000: 5}, 0.95) == 10
    assert LOAD_ROUTE in {route.pattern for route in ROUTES}


def test_the_first_commits_in_a_new_warehouse_are_recorded_soon(warehouse: Warehouse) -> None:
    """The task of the hour is due a minute later; not for old warehouses, nor for one whose data is recorded."""
    schedule_project_tasks(actor=INTERNAL)
    tasks = Task.objects.filter(queue=Task.Queue.STATISTICS)
    later = now() + timedelta(minutes=50)
    create = "catalog/v1/<segment:prefix>/namespaces/<segment:namespace>/tables"

    def is_soon(**call: Any) -> bool:
        tasks.update(scheduled_for=later)
        record_calls(calls_of(1, warehouse=warehouse.pk, **call))
        return tasks.get().scheduled_for < now() + timedelta(minutes=2)

    assert is_soon(method="POST", route=create)
    assert not is_soon(method="POST", route=create, status=409)
    assert not is_soon(method="GET", route=create)
    size = WarehouseSize.objects.create(warehouse=warehouse, hour=EIGHT, records=0, files_size=0, data_files=0)
    assert is_soon(method="POST", route=create)
    WarehouseSize.objects.filter(pk=size.pk).update(files_size=1)
    assert not is_soon(method="POST", route=create)
    WarehouseSize.objects.all().delete()
    Warehouse.objects.update(created_at=now() - timedelta(days=2))
    assert not is_soon(method="POST", route=create)
