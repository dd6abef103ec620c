"""The figures of one benchmark run as a table for readers and as JSON for comparisons."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.perf.load import Measured

COLUMNS = (
    ("operation", 44), ("clients", 7), ("bytes", 6), ("op/s", 6), ("p50", 7), ("p99", 7), ("server", 7),
    ("database", 8), ("store", 6), ("floor 1", 7), ("floor 2", 7), ("x1", 5), ("x2", 5), ("retries", 7), ("errors", 6),
)  # fmt: skip
FLOORS = ("bytes", "pointer")
LEGEND = """\
p50, p99: ms. server, database, store: CPU ms an operation, of the whole process tree. floor 1: server CPU of a bare
function with one prepared SELECT of as many bytes; floor 2: of a short row. x1, x2: server CPU against them,
measured alternately"""


@dataclass
class Row:
    """One operation with one number of clients; reads have `floors`, and `ratios` by round, both by floor."""

    key: str
    title: str
    clients: int
    measured: Measured
    response_bytes: int | None = None
    floors: dict[str, Measured] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)

    def add_round(self, measured: Measured, floors: dict[str, Measured]) -> None:
        """Add one round: a slice of the operation and one of each floor."""
        self.measured.add(measured)
        for name, floor in floors.items():
            self.floors.setdefault(name, Measured()).add(floor)
            if floor.cpu_ms("server") > 0 and measured.latencies:
                self.ratios.setdefault(name, []).append(measured.cpu_ms("server") / floor.cpu_ms("server"))

    def ratio(self, floor: str) -> float | None:
        """Server CPU of an operation relative to the floor's: the median of the rounds, which tolerates a
        disturbed one.
        """
        return statistics.median(self.ratios[floor]) if self.ratios.get(floor) else None

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "title": self.title,
            "clients": self.clients,
            "response_bytes": self.response_bytes,
            **_figures(self.measured),
            "floors": {name: _figures(floor) for name, floor in self.floors.items()},
            "server_cpu_against_floors": {name: self.ratio(name) for name in self.floors},
        }


def _figures(measured: Measured) -> dict[str, Any]:
    return {
        "operations": len(measured.latencies),
        "per_second": _rounded(measured.rate, 1),
        "p50_ms": _rounded(measured.percentile_ms(50), 3),
        "p99_ms": _rounded(measured.percentile_ms(99), 3),
        "server_cpu_ms": _rounded(measured.cpu_ms("server"), 4),
        "database_cpu_ms": _rounded(measured.cpu_ms("database"), 4),
        "store_cpu_ms": _rounded(measured.cpu_ms("store"), 4) if "store" in measured.cpu else None,
        "retries": measured.retries,
        "errors": measured.errors,
    }


def _rounded(figure: float, locations: int) -> float | None:
    """None where no operation succeeded: JSON has no NaN."""
    return None if math.isnan(figure) else round(figure, locations)


def head() -> str:
    return f"{LEGEND}\n\n{_aligned([name for name, _ in COLUMNS])}"


def line(row: Row) -> str:
    measured = row.measured
    floors = [row.floors.get(name) for name in FLOORS]
    ratios = [row.ratio(name) for name in FLOORS]
    return _aligned([
        row.title,
        str(row.clients),
        "" if row.response_bytes is None else f"{row.response_bytes:,}",
        f"{measured.rate:,.0f}",
        f"{measured.percentile_ms(50):.2f}",
        f"{measured.percentile_ms(99):.2f}",
        f"{measured.cpu_ms('server'):.3f}",
        f"{measured.cpu_ms('database'):.3f}",
        f"{measured.cpu_ms('store'):.3f}" if "store" in measured.cpu else "",
        *("" if floor is None else f"{floor.cpu_ms('server'):.3f}" for floor in floors),
        *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        str(measured.retries or ""),
        str(measured.errors or ""),
    ])  # fmt: skip


def _aligned(cells: list[str]) -> str:
    """Align names left and figures right."""
    (first, width), *others = zip(cells, (width for _, width in COLUMNS), strict=True)
    return "  ".join([first.ljust(width), *(cell.rjust(width) for cell, width in others)])


def write(path: Path, rows: list[Row], facts: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts | {"rows": [row.as_json() for row in rows]}, indent=1, allow_nan=False) + "\n")
