"""PyIceberg on the rows of a table: scans, changes of several kinds in one commit, branches, added files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import And, GreaterThanOrEqual, In, IsNull, Not, NotNull, StartsWith
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, NestedField, StringType, TimestamptzType

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "city", StringType(), required=False),
    NestedField(3, "month", IntegerType(), required=False),
    identifier_field_ids=[1],
)
ARROW = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string()), pa.field("month", pa.int32())]
)
BY_MONTH = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "month"))


def stays(*found: tuple[int, str | None, int | None]) -> pa.Table:
    return pa.table([list(column) for column in zip(*found, strict=True)], schema=ARROW)


def ids(table: Table, **scan: object) -> list[int]:
    found: list[int] = table.scan(**scan).to_arrow()["id"].to_pylist()
    return sorted(found)


@pytest.fixture
def visits(catalog: Catalog, namespace: str) -> Table:
    """Five rows in three months, with two files for each month of two rows."""
    table = catalog.create_table((namespace, "visits"), SCHEMA, partition_spec=BY_MONTH)
    table.append(stays((1, "Rome", 1), (2, "Oslo", 2), (3, None, 3)))
    table.append(stays((4, "Riga", 1), (5, "Lima", 2)))
    return table


@pytest.fixture
def reload(catalog: Catalog, namespace: str) -> Callable[[], Table]:
    return lambda: catalog.load_table((namespace, "visits"))


@pytest.mark.parametrize(
    ("row_filter", "wanted"),
    [
        ("city = 'Rome'", [1]),
        ("city != 'Rome' and month >= 2", [2, 5]),
        ("id in (1, 4, 9) or city is null", [1, 3, 4]),
        (StartsWith("city", "R"), [1, 4]),
        (And(NotNull("city"), Not(In("id", {1, 2}))), [4, 5]),
        (IsNull("city"), [3]),
        (GreaterThanOrEqual("month", 2), [2, 3, 5]),
        ("month > 12", []),
    ],
)
@pytest.mark.usefixtures("visits")
def test_scans_find_what_the_filter_says(reload: Callable[[], Table], row_filter: object, wanted: list[int]) -> None:
    assert ids(reload(), row_filter=row_filter) == wanted
    assert reload().scan(row_filter=row_filter).count() == len(wanted)


@pytest.mark.usefixtures("visits")
def test_scans_choose_columns_rows_files_and_snapshots(reload: Callable[[], Table]) -> None:
    table = reload()
    assert table.scan(selected_fields=("city",), row_filter="id = 2").to_arrow().to_pydict() == {"city": ["Oslo"]}
    assert table.scan(limit=2).to_arrow().num_rows == 2
    january = list(table.scan(row_filter="month < 2").plan_files())
    assert [task.file.record_count for task in january] == [1, 1]
    assert len(list(table.scan().plan_files())) == 5
    first = table.snapshots()[0]
    assert ids(table, snapshot_id=first.snapshot_id) == [1, 2, 3]
    assert table.snapshot_as_of_timestamp(first.timestamp_ms) == first
    batches = table.scan().to_arrow_batch_reader()
    assert sum(batch.num_rows for batch in batches) == 5


def test_upsert_says_what_it_did(visits: Table, reload: Callable[[], Table]) -> None:
    done = visits.upsert(stays((1, "Roma", 1), (2, "Oslo", 2), (6, "Bonn", 4)))
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert ids(reload()) == [1, 2, 3, 4, 5, 6]
    assert ids(reload(), row_filter="city = 'Roma'") == [1]
    with pytest.raises(ValueError, match=r"(?i)duplicate"):
        visits.upsert(stays((7, "a", None), (7, "b", None)))
    assert ids(reload()) == [1, 2, 3, 4, 5, 6]


def test_deletes_by_partition_and_by_row(visits: Table, reload: Callable[[], Table]) -> None:
    visits.delete("month = 2")
    assert ids(reload()) == [1, 3, 4]
    visits.delete("city = 'Riga'")
    assert ids(reload()) == [1, 3]
    assert [snapshot.summary.operation.value for snapshot in reload().snapshots()[2:] if snapshot.summary] == [
        "delete", "delete",
    ]  # fmt: skip
    visits.overwrite(stays((8, "Kyiv", 5)))
    assert ids(reload()) == [8]


def test_a_transaction_is_one_commit_of_many_kinds(visits: Table, reload: Callable[[], Table]) -> None:
    before = reload()
    with visits.transaction() as change:
        with change.update_schema() as schema:
            schema.add_column("price", DoubleType(), doc="in euros")
        with change.update_spec() as spec:
            spec.add_field("city", IdentityTransform(), "town")
        change.set_properties({"team": "travel"})
        change.append(stays((6, "Bonn", 4)))
        change.delete("id = 1")
        assert reload().metadata_location == before.metadata_location
    after = reload()
    assert len(after.metadata.metadata_log) == len(before.metadata.metadata_log) + 1
    assert ids(after) == [2, 3, 4, 5, 6]
    assert [field.name for field in after.schema().fields] == ["id", "city", "month", "price"]
    assert [field.name for field in after.spec().fields] == ["month", "town"]
    assert after.properties["team"] == "travel"


def test_a_transaction_that_fails_leaves_nothing(visits: Table, reload: Callable[[], Table]) -> None:
    before = reload().metadata_location

    def change_and_fail() -> None:
        with visits.transaction() as change:
            change.append(stays((6, "Bonn", 4)))
            change.set_properties({"team": "travel"})
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        change_and_fail()
    assert reload().metadata_location == before


def test_branches_are_written_and_main_stays(visits: Table, reload: Callable[[], Table]) -> None:
    start = visits.current_snapshot()
    assert start is not None
    visits.manage_snapshots().create_branch(start.snapshot_id, "audit", min_snapshots_to_keep=2).commit()
    assert reload().refs()["audit"].min_snapshots_to_keep == 2
    visits.append(stays((6, "Bonn", 4)), branch="audit")
    visits.overwrite(stays((7, "Rome", 1)), overwrite_filter="id = 1", branch="audit")
    visits.delete("id = 2", branch="audit")
    table = reload()
    assert ids(table) == [1, 2, 3, 4, 5]
    assert sorted(table.scan().use_ref("audit").to_arrow()["id"].to_pylist()) == [3, 4, 5, 6, 7]
    audit = table.snapshot_by_name("audit")
    assert audit is not None
    table.manage_snapshots().set_current_snapshot(audit.snapshot_id).commit()
    assert ids(reload()) == [3, 4, 5, 6, 7]
    table.manage_snapshots().rollback_to_snapshot(start.snapshot_id).commit()
    assert ids(reload()) == [1, 2, 3, 4, 5]


def test_snapshots_expire(visits: Table, reload: Callable[[], Table]) -> None:
    first, second = (snapshot.snapshot_id for snapshot in visits.snapshots())
    visits.maintenance.expire_snapshots().by_id(first).commit()
    assert [snapshot.snapshot_id for snapshot in reload().snapshots()] == [second]
    assert ids(reload()) == [1, 2, 3, 4, 5]


def test_partitioning_evolves_and_old_files_are_still_found(visits: Table, reload: Callable[[], Table]) -> None:
    with visits.update_spec() as spec:
        spec.remove_field("month")
        spec.add_field("city", IdentityTransform(), "town")
    visits.append(stays((6, "Bonn", 4)))
    assert [str(field) for field in reload().spec().fields] == ["1001: town: identity(2)"]
    assert ids(reload(), row_filter="city = 'Bonn' and month = 4") == [6]
    assert ids(reload(), row_filter="month = 1") == [1, 4]


@pytest.mark.parametrize(
    ("source", "transform", "result"),
    [
        ("day", YearTransform(), "year"),
        ("day", MonthTransform(), "month"),
        ("day", DayTransform(), "day"),
        ("at", HourTransform(), "hour"),
        ("id", BucketTransform(16), "bucket[16]"),
        ("city", TruncateTransform(3), "truncate[3]"),
        ("city", VoidTransform(), "void"),
    ],
)
def test_every_transform_is_kept(
    catalog: Catalog, namespace: str, source: str, transform: Transform[Any, Any], result: str
) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "city", StringType()), NestedField(3, "day", DateType()),
        NestedField(4, "at", TimestamptzType()),
    )  # fmt: skip
    table = catalog.create_table((namespace, "t"), schema)
    with table.update_spec() as spec:
        spec.add_field(source, transform, "part")
    again = catalog.load_table((namespace, "t"))
    assert [(field.name, str(field.transform)) for field in again.spec().fields] == [("part", result)]
    assert again.spec().spec_id == 1


def test_a_wider_schema_comes_with_the_rows(visits: Table, reload: Callable[[], Table]) -> None:
    wider = stays((6, "Bonn", 4)).append_column("stars", pa.array([5], pa.int32()))
    with pytest.raises(ValueError, match="stars"):
        visits.append(wider)
    with visits.update_schema() as schema:
        schema.union_by_name(wider.schema)
    visits.append(wider)
    assert reload().scan(selected_fields=("id", "stars"), row_filter="stars = 5").to_arrow().to_pydict() == {
        "id": [6], "stars": [5],
    }  # fmt: skip


def test_files_from_elsewhere_are_added_once(visits: Table, reload: Callable[[], Table]) -> None:
    folder = Path(urlparse(visits.location()).path) / "incoming"
    folder.mkdir()
    pq.write_table(stays((6, "Bonn", 4), (7, "Bern", 4)), folder / "april.parquet")
    location = f"{visits.location()}/incoming/april.parquet"
    visits.add_files([location], snapshot_properties={"source": "import"})
    table = reload()
    assert ids(table) == [1, 2, 3, 4, 5, 6, 7]
    assert ids(table, row_filter="month = 4 and city < 'Bf'") == [7]
    current = table.current_snapshot()
    assert current is not None
    assert current.summary is not None
    assert current.summary["source"] == "import"
    with pytest.raises(ValueError, match="already referenced"):
        table.add_files([location])
    assert len(reload().snapshots()) == 3


def test_metadata_tables(visits: Table) -> None:
    assert visits.inspect.snapshots()["operation"].to_pylist() == ["append", "append"]
    partitions = visits.inspect.partitions().to_pylist()
    assert sorted((row["partition"]["month"], row["record_count"]) for row in partitions) == [(1, 2), (2, 2), (3, 1)]
    assert visits.inspect.refs()["name"].to_pylist() == ["main"]
    assert len(visits.inspect.history()) == 2
    assert len(visits.inspect.metadata_log_entries()) == 3


def test_purge_removes_the_table_at_once(catalog: Catalog, visits: Table, namespace: str) -> None:
    catalog.purge_table((namespace, "visits"))
    assert not catalog.table_exists((namespace, "visits"))
    with pytest.raises(exceptions.NoSuchTableError):
        visits.refresh()
