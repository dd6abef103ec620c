"""The metrics page lists every metric with its type and labels, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from icekeeper.kernel.metrics import MAX_REQUEST_SERIES, METHODS, Metrics

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "logs-and-metrics.md").read_text()
Row = tuple[str, str, tuple[str, ...]]


def defined() -> set[Row]:
    families = [each for each in vars(Metrics()).values() if isinstance(each, MetricWrapperBase)]
    suffixes = {"counter": "_total"}
    return {(each._name + suffixes.get(each._type or "", ""), str(each._type), each._labelnames) for each in families}


def documented() -> set[Row]:
    table = PAGE.split("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)))
        for names, kind, labels, _ in rows
        for name in re.findall(r"`(\w+)`", names)
    }


def test_the_table_of_metrics_is_complete() -> None:
    assert documented() == defined()


def test_the_labels_have_the_values_that_are_described() -> None:
    [methods] = re.findall(r"^\| `method` \| (.*) \|$", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", methods)) == METHODS | {"other"}
    assert f"{MAX_REQUEST_SERIES:,} combinations of method, status and endpoint" in PAGE
