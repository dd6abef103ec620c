"""Arithmetic of the benchmark: percentiles, CPU per operation, ratios to the floors, and JSON without NaN."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.perf import report
from tests.perf.load import Measured
from tests.perf.report import Row


def measured(operations: int, cpu_seconds: float) -> Measured:
    latencies = [number / 1000 for number in range(1, operations + 1)]
    return Measured(seconds=2.0, latencies=latencies, cpu={"server": cpu_seconds, "database": 0.0})


def test_rate_percentiles_and_cpu_are_those_of_all_slices() -> None:
    total = Measured()
    total.add(measured(100, 0.1))
    total.add(measured(100, 0.3))
    assert total.rate == 50
    assert total.percentile_ms(50) == pytest.approx(51)
    assert total.percentile_ms(99) == pytest.approx(100)
    assert total.cpu_ms("server") == pytest.approx(2.0)


def test_a_ratio_is_the_median_of_its_rounds() -> None:
    row = Row("load", "loadTable", 1, Measured())
    for ours in (0.2, 0.3, 5.0):
        row.add_round(measured(100, ours), {"bytes": measured(100, 0.1)})
    assert row.ratio("bytes") == pytest.approx(3.0)
    assert row.ratio("pointer") is None


def test_an_operation_that_never_succeeded_is_null_in_json(tmp_path: Path) -> None:
    row = Row("load", "loadTable", 1, Measured())
    row.add_round(Measured(seconds=1.0, errors=7), {"bytes": measured(10, 0.1)})
    report.write(tmp_path / "deep" / "result.json", [row], {"seconds": 1})
    figures = json.loads((tmp_path / "deep" / "result.json").read_text())["rows"][0]
    assert (figures["errors"], figures["p50_ms"], figures["server_cpu_ms"]) == (7, None, None)
    assert "loadTable" in report.line(row)
