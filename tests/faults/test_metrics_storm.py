"""Concurrent metrics reports: none is lost, none counts twice, and none blocks a drop."""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.catalog_fixtures import COMMIT_REPORT, SCAN_REPORT, SCHEMA
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.timeout(600)

REPORTERS, REPORTS_EACH, ROUNDS = 8, 25, 20

STORED = """
import json
from catalog.models import MetricsDay, MetricsReport
days = MetricsDay.objects.filter(tabular__name="{name}")
print(json.dumps([
    [sum(column) for column in zip(*days.values_list("scans", "commits", "result_data_files", "added_records"))],
    MetricsReport.objects.filter(tabular__name="{name}").count(),
    days.count() - days.values("day").distinct().count(),
]))
"""
"""Sums over the days (a run may pass midnight), reports, and days that are there twice."""


def tables_of(catalog: CatalogServer, namespace: str) -> str:
    address = f"{catalog.uri}/v1/{catalog.warehouse_id}/namespaces"
    requests.post(address, json={"namespace": [namespace]}, timeout=30).raise_for_status()
    return f"{address}/{namespace}/tables"


def stored(catalog: CatalogServer, name: str) -> Any:
    return json.loads(catalog.manage("shell", "--no-imports", "-c", STORED.format(name=name)))


def test_reports_of_one_table_at_once_are_all_counted(live_catalog: CatalogServer) -> None:
    tables = tables_of(live_catalog, "reported")
    requests.post(tables, json={"name": "all_at_once", "schema": SCHEMA}, timeout=30).raise_for_status()

    def report(number: int) -> set[int]:
        kind = SCAN_REPORT if number % 2 else COMMIT_REPORT
        with requests.Session() as session:
            address = f"{tables}/all_at_once/metrics"
            return {session.post(address, json=kind, timeout=60).status_code for _ in range(REPORTS_EACH)}

    with ThreadPoolExecutor(REPORTERS) as pool:
        assert set().union(*pool.map(report, range(REPORTERS))) == {204}
    half = REPORTERS * REPORTS_EACH // 2
    assert stored(live_catalog, "all_at_once") == [[half, half, 4 * half, 500 * half], 2 * half, 0]


def test_a_drop_between_reports_succeeds_and_leaves_none(live_catalog: CatalogServer) -> None:
    tables = tables_of(live_catalog, "dropped")
    results: Counter[int] = Counter()
    drops: list[int] = []

    def report_until_dropped(address: str, begun: threading.Barrier) -> list[int]:
        with requests.Session() as session:
            seen = [session.post(address, json=SCAN_REPORT, timeout=60).status_code]
            begun.wait(60)
            while seen[-1] == 204 and set(drops) <= {204}:
                seen.append(session.post(address, json=SCAN_REPORT, timeout=60).status_code)
        return seen

    with ThreadPoolExecutor(REPORTERS) as pool:
        for number in range(ROUNDS):
            name = f"short_lived_{number}"
            requests.post(tables, json={"name": name, "schema": SCHEMA}, timeout=30).raise_for_status()
            begun = threading.Barrier(REPORTERS - 1)
            reporters = [
                pool.submit(report_until_dropped, f"{tables}/{name}/metrics", begun) for _ in range(REPORTERS - 2)
            ]
            begun.wait(60)
            drops.append(requests.delete(f"{tables}/{name}", timeout=60).status_code)
            for reporter in reporters:
                results.update(reporter.result(60))
    assert drops == [204] * ROUNDS
    assert set(results) == {204, 404}
    assert results[404] == ROUNDS * (REPORTERS - 2)
    assert "deadlock" not in live_catalog.log_path.read_text()
    assert stored(live_catalog, "short_lived_0") == [[], 0, 0]
