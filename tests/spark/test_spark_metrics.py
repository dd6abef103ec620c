"""Spark's own metrics reports: accepted, and counted as Spark's operations."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import Row

from tests.parts.server import CatalogServer

Sql = Callable[[str], list[Row]]

STORED = """
import json
from catalog.models import MetricsDay, MetricsReport
days = MetricsDay.objects.filter(tabular__namespace__path="{namespace}", tabular__name="{table}")
sums = {{}}
for day in days.values():
    for name, value in day.items():
        if name not in ("id", "tabular_id", "day"):
            sums[name] = sums.get(name, 0) + value
reports = MetricsReport.objects.filter(tabular__namespace__path="{namespace}", tabular__name="{table}").order_by("id")
print(json.dumps([sums, list(reports.values_list("kind", "document"))]))
"""


def stored_when(catalog: CatalogServer, namespace: str, table: str, *, scans: int, commits: int) -> Any:
    """Return sums and reports as soon as there are so many: Spark sends them from a background thread."""
    give_up = time.monotonic() + 120
    while True:
        code = STORED.format(namespace=namespace, table=table)
        sums, reports = json.loads(catalog.manage("shell", "--no-imports", "-c", code))
        if (sums.get("scans", 0), sums.get("commits", 0)) == (scans, commits):
            return sums, reports
        assert time.monotonic() < give_up, sums
        time.sleep(0.5)


def statuses(catalog: CatalogServer, namespace: str) -> set[int]:
    """Return the statuses of the catalog's responses to reports on tables of the namespace."""
    lines = [json.loads(line) for line in catalog.log_path.read_text().splitlines() if line.startswith("{")]
    return {
        line["status"]
        for line in lines
        if line["logger"] == "icekeeper.access"
        and f"/{namespace}/" in line["path"]
        and line["path"].endswith("/metrics")
    }


def test_what_spark_reports_is_counted(sql: Sql, live_catalog: CatalogServer, namespace: str) -> None:
    sql("CREATE TABLE ns.books (id BIGINT, genre STRING) TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    sql("INSERT INTO ns.books SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'novel'), (2, 'epic'), (3, 'play')")
    sql("INSERT INTO ns.books SELECT /*+ COALESCE(1) */ * FROM VALUES (4, 'novel'), (5, 'epic')")
    assert len(sql("SELECT * FROM ns.books WHERE id > 1")) == 4

    sums, reports = stored_when(live_catalog, namespace, "books", scans=1, commits=2)
    (scan,) = [document for kind, document in reports if kind == "scan-report"]
    commits = [document for kind, document in reports if kind == "commit-report"]
    assert scan["projected-field-names"] == ["id", "genre"]
    assert [document["operation"] for document in commits] == ["append", "append"]
    size = sum(document["metrics"]["added-files-size-bytes"]["value"] for document in commits)
    assert size > 0
    expected = {
        "result_data_files": 2, "result_delete_files": 0, "result_data_bytes": size, "total_data_manifests": 2,
        "scanned_data_manifests": 2, "added_data_files": 2, "added_records": 5, "added_bytes": size, "attempts": 2,
        "removed_data_files": 0,
    }  # fmt: skip
    assert {name: sums[name] for name in expected} == expected
    assert sums["planning_us"] > 0
    assert sums["commit_us"] > 0
    assert statuses(live_catalog, namespace) == {204}
