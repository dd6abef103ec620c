"""Reference values of the demo: facts of the CSV files, and the report of a difference."""

from __future__ import annotations

import csv
import dataclasses
import math

import pytest

from tasks.spark import facts, flights
from tasks.spark.facts import ColumnFacts, TableFacts


@pytest.fixture(scope="module")
def planes() -> TableFacts:
    return facts.facts_of_csv(flights.PLANES)


@pytest.mark.parametrize("dataset", flights.DATASETS, ids=lambda dataset: dataset.name)
def test_every_file_has_the_columns_that_are_described(dataset: flights.Dataset) -> None:
    assert len(next(flights.read_rows(dataset))) == len(dataset.columns)


def test_facts_agree_with_a_plain_count_of_the_file(planes: TableFacts) -> None:
    with flights.open_csv(flights.PLANES) as text:
        rows = list(csv.DictReader(text))
    known = [int(row["year"]) for row in rows if row["year"] != "NA"]
    assert planes.rows == len(rows) == 3322
    assert planes.columns["year"] == ColumnFacts(present=len(known), total=sum(known))
    assert planes.columns["model"] == ColumnFacts(len(rows), distinct=len({row["model"] for row in rows}))
    assert planes.by_month == {}


def test_doubles_and_times_are_summed() -> None:
    weather = facts.facts_of_csv(flights.WEATHER)
    with flights.open_csv(flights.WEATHER) as text:
        temperatures = [float(row["temp"]) for row in csv.DictReader(text) if row["temp"] != "NA"]
    assert weather.columns["temp"] == ColumnFacts(len(temperatures), total=math.fsum(temperatures))
    assert isinstance(weather.columns["time_hour"].total, int)
    assert sum(weather.by_month.values()) == weather.rows


def test_an_unknown_header_is_refused() -> None:
    other = flights.Dataset("airlines", "nyc.airlines", {"code": "string", "name": "string"})
    with pytest.raises(flights.SourceDataError, match=r"airlines\.csv has the columns \['carrier', 'name'\]"):
        next(flights.read_rows(other))


def test_a_missing_file_is_named() -> None:
    other = flights.Dataset("trains", "nyc.trains", {})
    with pytest.raises(flights.SourceDataError, match=r"neither trains\.csv nor trains\.csv\.zip"):
        next(flights.read_rows(other))


def test_equal_facts_have_no_differences(planes: TableFacts) -> None:
    assert facts.differences(planes, dataclasses.replace(planes)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": 1}, "1 rows instead of 3322"),
        ({"fingerprint": 1}, "values of single rows differ"),
        ({"columns": {}}, "column tailnum is missing"),
        ({"by_month": {2: 5}}, "month 2: 5 rows instead of 0"),
    ],
)
def test_each_difference_is_said(planes: TableFacts, change: dict[str, object], said: str) -> None:
    lines = facts.differences(planes, dataclasses.replace(planes, **change))
    assert any(said in line for line in lines), lines


def test_sums_of_doubles_may_differ_in_the_last_digits_only() -> None:
    def table(total: float) -> TableFacts:
        return TableFacts(1, 0, {"temp": ColumnFacts(1, total=total)})

    assert facts.differences(table(1e9), table(1e9 + 1e-4)) == []
    assert facts.differences(table(1e9), table(1e9 + 100)) != []
