"""What is true of a table's content, computed alike from the CSV file, through Spark and through PyIceberg.

Counts, sums and distinct values of every column, rows a month, and a fingerprint that changes when any integer or text
of any row does. Missing values are not counted. Only the standard library is imported here: this is the side that the
engines are compared with.
"""

import math
import zlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from tasks.spark.flights import FLIGHTS, MISSING, Dataset, read_rows

_BATCH = 20_000


@dataclass(frozen=True)
class ColumnFacts:
    """One column: how many values are present, how many different ones (text), their sum (numbers, times)."""

    present: int
    distinct: int | None = None
    total: int | float | None = None
    """Sum of the values; times count as whole seconds since 1970. Exact for integers and times."""


@dataclass(frozen=True)
class TableFacts:
    """One table."""

    rows: int
    fingerprint: int
    """Sum over the rows of CRC-32 of the row's integer and text columns, joined by commas, `NA` where missing."""
    columns: dict[str, ColumnFacts]
    by_month: dict[int, int] = field(default_factory=dict)
    """Rows of each `month`; empty for a table without that column."""


def facts_of_csv(dataset: Dataset) -> TableFacts:
    """Compute the facts from the file of the package."""
    present: Counter[str] = Counter()
    seen: dict[str, set[str]] = {name: set() for name in dataset.of_type("string")}
    sums: dict[str, int] = dict.fromkeys(dataset.of_type("int", "timestamp"), 0)
    reals: dict[str, list[float]] = {name: [] for name in dataset.of_type("double")}
    by_month: Counter[str] = Counter()
    exact = [index for index, name in enumerate(dataset.columns) if name in dataset.exact_columns]
    rows = fingerprint = 0
    source = read_rows(dataset)
    while batch := list(islice(source, _BATCH)):
        rows += len(batch)
        fingerprint += sum(zlib.crc32(",".join([row[index] for index in exact]).encode()) for row in batch)
        for (name, kind), cells in zip(dataset.columns.items(), zip(*batch, strict=True), strict=True):
            values = [cell for cell in cells if cell != MISSING]
            present[name] += len(values)
            if kind == "string":
                seen[name].update(values)
            elif kind == "int":
                sums[name] += sum(map(int, values))
            elif kind == "double":
                reals[name].extend(map(float, values))
            else:
                sums[name] += sum(int(datetime.fromisoformat(value).timestamp()) for value in values)
            if name == "month":
                by_month.update(values)
    totals: dict[str, int | float] = {**sums, **{name: math.fsum(values) for name, values in reals.items()}}
    columns = {
        name: ColumnFacts(present[name], len(seen[name]) if name in seen else None, totals.get(name))
        for name in dataset.columns
    }
    return TableFacts(rows, fingerprint, columns, {int(month): count for month, count in sorted(by_month.items())})


@dataclass(frozen=True)
class FlightFigures:
    """What the steps of the demo change and look back at, counted in the file of flights."""

    cancelled: int
    """Flights without a departure time."""
    on_first_days: tuple[int, ...]
    """Flights of January 1st, 2nd and so on, one number for each of `FIRST_DAYS`."""
    minutes_gained: ColumnFacts
    """Departure delay minus arrival delay, where both are known."""


FIRST_DAYS = (1, 2, 3)


def flight_figures() -> FlightFigures:
    """Count them."""
    position = {name: index for index, name in enumerate(FLIGHTS.columns)}
    month, day, left = position["month"], position["day"], position["dep_time"]
    dep_delay, arr_delay = position["dep_delay"], position["arr_delay"]
    cancelled = present = total = 0
    january: Counter[int] = Counter()
    for row in read_rows(FLIGHTS):
        cancelled += row[left] == MISSING
        if row[month] == "1":
            january[int(row[day])] += 1
        if row[dep_delay] != MISSING and row[arr_delay] != MISSING:
            present += 1
            total += int(row[dep_delay]) - int(row[arr_delay])
    first_days = tuple(january[number] for number in FIRST_DAYS)
    return FlightFigures(cancelled, first_days, ColumnFacts(present, total=total))


def differences(expected: TableFacts, found: TableFacts) -> list[str]:
    """Say in one line each what differs; sums of doubles may differ in the last digits, as engines add in any order."""
    lines = []
    if found.rows != expected.rows:
        lines.append(f"{found.rows} rows instead of {expected.rows}")
    for name, want in expected.columns.items():
        have = found.columns.get(name)
        if have is None:
            lines.append(f"column {name} is missing")
        elif not _agree(want, have):
            lines.append(f"column {name}: {have} instead of {want}")
    lines += [
        f"month {month}: {found.by_month.get(month, 0)} rows instead of {expected.by_month.get(month, 0)}"
        for month in sorted(expected.by_month.keys() | found.by_month.keys())
        if found.by_month.get(month, 0) != expected.by_month.get(month, 0)
    ]
    if not lines and found.fingerprint != expected.fingerprint:
        lines.append("counts and sums agree, but values of single rows differ (fingerprint)")
    return lines


def _agree(want: ColumnFacts, have: ColumnFacts) -> bool:
    if isinstance(want.total, float) and isinstance(have.total, float):
        sums_agree = math.isclose(want.total, have.total, rel_tol=1e-9, abs_tol=1e-6)
    else:
        sums_agree = want.total == have.total
    return sums_agree and (want.present, want.distinct) == (have.present, have.distinct)
