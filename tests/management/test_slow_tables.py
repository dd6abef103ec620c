"""The ranking of tables whose scans take longest to plan."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from catalog.models import MetricsDay, SlowTable, Tabular
from catalog.services.slow_tables import DAYS, measure_slow_tables, record_slow_tables
from icekeeper.kernel.clock import now
from storage.models import Warehouse

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_tables_are_ranked_by_the_average_planning_time(
    create_table: Callable[..., dict[str, Any]], warehouse: Warehouse
) -> None:
    def record() -> list[tuple[int, str, int, int]]:
        record_slow_tables(measure_slow_tables(warehouse.project_id))
        rows = SlowTable.objects.order_by("rank").values_list("rank", "tabular__name", "scans", "planning_us")
        return list(rows)

    assert record() == []
    days = {"a": ((0, 10, 1_000), (1, 10, 3_000)), "b": ((0, 1, 5_000),), "c": ((DAYS, 1, 9_000),), "d": ((0, 0, 0),)}
    for name, reported in days.items():
        create_table(name)
        for age, scans, planning in reported:
            MetricsDay.objects.create(
                tabular=Tabular.objects.get(name=name), day=(now() - timedelta(days=age)).date(), scans=scans,
                planning_us=planning,
            )  # fmt: skip
    assert record() == [(1, "b", 1, 5_000), (2, "a", 20, 4_000)]
    assert measure_slow_tables(warehouse.project_id) == {}, "unchanged"
    MetricsDay.objects.filter(tabular__name="a", scans=10).update(planning_us=2**62 - 1)
    assert record() == [(1, "a", 20, 4 * 10**18), (2, "b", 1, 5_000)]
    Tabular.objects.filter(name="a").update(deleted_at=now())
    assert record() == [(1, "b", 1, 5_000)]
    MetricsDay.objects.all().delete()
    assert record() == []
