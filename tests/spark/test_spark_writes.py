"""Every kind of write in Spark: INSERT, MERGE, UPDATE, DELETE, TRUNCATE and the DataFrame writer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import Catalog
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, partitioning

from tests.spark.statement_fixtures import Sql, one, rows, setting

ALL = "SELECT id, kind, price FROM ns.t"


@pytest.fixture
def goods(sql: Sql) -> Sql:
    """A table of four rows in three partitions."""
    sql("CREATE TABLE ns.t (id INT, kind STRING, price DOUBLE) PARTITIONED BY (kind)")
    sql("INSERT INTO ns.t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3), (4, 'c', 4)")
    return sql


@pytest.fixture
def frame(live_spark: SparkSession) -> Callable[..., DataFrame]:
    """A DataFrame of goods."""
    return lambda *found: live_spark.createDataFrame(found, "id INT, kind STRING, price DOUBLE")


def last_operation(sql: Sql) -> str:
    found: str = sql("SELECT operation FROM ns.t.snapshots ORDER BY committed_at DESC LIMIT 1")[0][0]
    return found


def test_insert_by_position_by_columns_and_by_name(goods: Sql) -> None:
    goods("INSERT INTO ns.t TABLE ns.t")
    goods("INSERT INTO ns.t (kind, id) VALUES ('d', 5)")
    goods("INSERT INTO ns.t BY NAME SELECT 6.5D AS price, 6 AS id")
    assert one(goods("SELECT count(*), sum(price) FROM ns.t"))[:] == (10, 26.5)
    assert rows(goods, f"{ALL} WHERE id > 4") == [(5, "d", None), (6, None, 6.5)]
    with pytest.raises(AnalysisException, match="NOT_ENOUGH_DATA_COLUMNS"):
        goods("INSERT INTO ns.t VALUES (7, 'e')")
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        goods("INSERT INTO ns.t SELECT CAST('x' AS INT), 'e', 1.0")
    assert one(goods("SELECT count(*) FROM ns.t"))[0] == 10


def test_static_overwrite_replaces_the_named_partition(goods: Sql) -> None:
    goods("INSERT OVERWRITE ns.t PARTITION (kind = 'a') SELECT 9, 9.0")
    assert rows(goods, ALL) == [(3, "b", 3.0), (4, "c", 4.0), (9, "a", 9.0)]
    assert last_operation(goods) == "overwrite"
    goods("INSERT OVERWRITE ns.t SELECT 1, 'z', 1.0")
    assert rows(goods, ALL) == [(1, "z", 1.0)]


def test_dynamic_overwrite_replaces_the_partitions_it_writes(goods: Sql, live_spark: SparkSession) -> None:
    with setting(live_spark, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
        goods("INSERT OVERWRITE ns.t SELECT id + 10, kind, price FROM ns.t WHERE id IN (1, 3)")
    assert rows(goods, ALL) == [(11, "a", 1.0), (13, "b", 3.0), (4, "c", 4.0)]


def test_insert_replacing_what_a_condition_finds(goods: Sql) -> None:
    goods("INSERT INTO ns.t REPLACE WHERE kind IN ('a', 'b') SELECT 7, 'b', 7.0")
    assert rows(goods, ALL) == [(4, "c", 4.0), (7, "b", 7.0)]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_merge_with_every_clause(goods: Sql, mode: str) -> None:
    goods(f"ALTER TABLE ns.t SET TBLPROPERTIES ('write.merge.mode' = '{mode}')")
    goods("""
        MERGE INTO ns.t AS t
        USING (
          SELECT * FROM VALUES (1, 'a', 10D), (2, 'a', NULL), (8, 'd', 8D), (9, 'd', NULL) AS v(id, kind, price)) AS n
        ON t.id = n.id
        WHEN MATCHED AND n.price IS NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND n.price > 0 THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.kind = 'b' THEN UPDATE SET price = -1
        WHEN NOT MATCHED BY SOURCE THEN DELETE""")
    assert rows(goods, ALL) == [(1, "a", 10.0), (3, "b", -1.0), (8, "d", 8.0)]
    deletes = one(goods("SELECT count(*) FROM ns.t.delete_files"))[0]
    assert (deletes > 0) == (mode == "merge-on-read")


def test_a_merge_that_matches_a_row_twice_changes_nothing(goods: Sql) -> None:
    with pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"):
        goods("""
            MERGE INTO ns.t AS t USING (SELECT * FROM VALUES (1), (1) AS v(id)) AS n ON t.id = n.id
            WHEN MATCHED THEN UPDATE SET price = 0""")
    assert one(goods("SELECT count(*), sum(price) FROM ns.t"))[:] == (4, 10.0)
    assert len(goods("SELECT * FROM ns.t.snapshots")) == 1


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_update_and_delete(goods: Sql, mode: str) -> None:
    goods(f"""
        ALTER TABLE ns.t SET TBLPROPERTIES ('write.update.mode' = '{mode}', 'write.delete.mode' = '{mode}')""")
    goods("UPDATE ns.t SET price = price + 0.5, kind = 'b' WHERE id IN (SELECT id FROM ns.t WHERE price < 2)")
    goods("DELETE FROM ns.t WHERE price = (SELECT max(price) FROM ns.t)")
    assert rows(goods, ALL) == [(1, "b", 1.5), (2, "a", 2.0), (3, "b", 3.0)]
    goods("DELETE FROM ns.t WHERE kind = 'b'")
    assert rows(goods, ALL) == [(2, "a", 2.0)]
    assert last_operation(goods) == "delete"


def test_truncate(goods: Sql) -> None:
    goods("TRUNCATE TABLE ns.t")
    assert rows(goods, ALL) == []
    assert last_operation(goods) == "delete"
    first = goods("SELECT snapshot_id FROM ns.t.snapshots ORDER BY committed_at")[0][0]
    assert len(goods(f"SELECT * FROM ns.t VERSION AS OF {first}")) == 4  # noqa: S608


def test_the_writer_appends_and_overwrites(goods: Sql, namespace: str, frame: Callable[..., DataFrame]) -> None:
    frame((5, "b", 5.0)).writeTo(f"{namespace}.t").append()
    frame((6, "b", 6.0), (7, "d", 7.0)).writeTo(f"{namespace}.t").overwritePartitions()
    assert rows(goods, ALL) == [(1, "a", 1.0), (2, "a", 2.0), (4, "c", 4.0), (6, "b", 6.0), (7, "d", 7.0)]
    frame((8, "a", 8.0)).writeTo(f"{namespace}.t").overwrite(col("kind").isin("a", "d"))
    assert rows(goods, ALL) == [(4, "c", 4.0), (6, "b", 6.0), (8, "a", 8.0)]
    frame((9, "c", 9.0)).writeTo(f"{namespace}.t").option("snapshot-property.run", "nightly").append()
    summary = goods("SELECT summary FROM ns.t.snapshots ORDER BY committed_at DESC LIMIT 1")[0][0]
    assert (summary["run"], summary["added-records"]) == ("nightly", "1")


def test_the_writer_creates_and_replaces(
    sql: Sql, namespace: str, frame: Callable[..., DataFrame], catalog: Catalog
) -> None:
    name = f"{namespace}.t"
    writer = frame((1, "a", 1.0)).writeTo(name)
    writer.partitionedBy(partitioning.bucket(4, "id")).tableProperty("team", "maps").tableProperty(
        "format-version", "3"
    ).create()
    created = catalog.load_table((namespace, "t"))
    assert [str(field.transform) for field in created.spec().fields] == ["bucket[4]"]
    assert (created.metadata.format_version, created.properties["team"]) == (3, "maps")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        frame((2, "b", 2.0)).writeTo(name).create()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        frame((2, "b", 2.0)).writeTo(f"{namespace}.other").replace()
    frame((2, "b", 2.0)).writeTo(name).replace()
    frame((3, "c", 3.0)).writeTo(f"{namespace}.other").createOrReplace()
    frame((4, "d", 4.0)).select("id").writeTo(f"{namespace}.other").createOrReplace()
    assert rows(sql, ALL) == [(2, "b", 2.0)]
    assert rows(sql, "SELECT * FROM ns.other") == [(4,)]
    assert catalog.load_table((namespace, "t")).metadata.table_uuid == created.metadata.table_uuid
    assert catalog.load_table((namespace, "t")).spec().is_unpartitioned()


def test_columns_come_along_with_the_rows(
    goods: Sql, live_spark: SparkSession, namespace: str, catalog: Catalog
) -> None:
    goods("ALTER TABLE ns.t SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    wider = live_spark.createDataFrame([(5, "a", 5.0, True)], "id BIGINT, kind STRING, price DOUBLE, sold BOOLEAN")
    wider.writeTo(f"{namespace}.t").option("mergeSchema", "true").append()
    schema = catalog.load_table((namespace, "t")).schema()
    assert [f"{field.name} {field.field_type}" for field in schema.fields] == [
        "id long", "kind string", "price double", "sold boolean",
    ]  # fmt: skip
    assert rows(goods, "SELECT id, sold FROM ns.t WHERE id > 3") == [(4, None), (5, True)]


def test_a_missing_branch_is_not_written(goods: Sql) -> None:
    with pytest.raises((PySparkException, Py4JJavaError), match="nowhere"):
        goods("INSERT INTO ns.t.branch_nowhere VALUES (5, 'a', 5)")
    assert len(goods("SELECT * FROM ns.t.snapshots")) == 1
