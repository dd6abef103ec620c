"""Format version 3 in Spark: deletion vectors, row lineage, variants, default values, unknown columns."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import Catalog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.parts.server import CatalogServer
from tests.spark.statement_fixtures import Sql, rows

MERGE_ON_READ = "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"
LINEAGE = "SELECT id, _row_id, _last_updated_sequence_number FROM ns.t"


@pytest.fixture
def java_table(live_spark: SparkSession, namespace: str) -> Any:
    """Return `ns.t` in Java's API, for changes that Spark's SQL lacks; call it after the table is created."""
    loaded = live_spark._jvm.org.apache.iceberg.spark.Spark3Util
    return lambda: loaded.loadIcebergTable(live_spark._jsparkSession, f"live.{namespace}.t")


def test_deletion_vectors_grow_with_each_delete(sql: Sql) -> None:
    sql(f"""
        CREATE TABLE ns.t TBLPROPERTIES ('format-version' = '3', {MERGE_ON_READ})
        AS SELECT id FROM range(0, 100, 1, 1)""")
    sql("INSERT INTO ns.t SELECT id FROM range(100, 200, 1, 1)")
    for remainder in (3, 7):
        sql(f"DELETE FROM ns.t WHERE id % 10 = {remainder}")
    vectors = "SELECT file_format, record_count, referenced_data_file IS NULL FROM ns.t.delete_files"
    assert rows(sql, vectors) == [("PUFFIN", 20, False), ("PUFFIN", 20, False)]
    sql("UPDATE ns.t SET id = -1 WHERE id = 0")
    assert rows(sql, "SELECT count(*), min(id), sum(id) FROM ns.t") == [(160, -1, 15899)]
    sql("CALL system.rewrite_data_files(table => 'ns.t', options => map('rewrite-all', 'true'))")
    assert rows(sql, "SELECT content, record_count FROM ns.t.files") == [(0, 160)]
    assert rows(sql, "SELECT count(*), min(id), sum(id) FROM ns.t") == [(160, -1, 15899)]


def test_rows_keep_their_ids_through_updates_and_compaction(sql: Sql, catalog: Catalog, namespace: str) -> None:
    sql(f"CREATE TABLE ns.t (id INT) TBLPROPERTIES ('format-version' = '3', {MERGE_ON_READ})")
    sql("INSERT INTO ns.t VALUES (1)")
    sql("INSERT INTO ns.t VALUES (2)")
    sql("UPDATE ns.t SET id = 20 WHERE id = 2")
    assert rows(sql, LINEAGE) == [(1, 0, 1), (20, 1, 3)]
    sql("CALL system.rewrite_data_files(table => 'ns.t', options => map('rewrite-all', 'true'))")
    assert rows(sql, LINEAGE) == [(1, 0, 1), (20, 1, 3)]
    before = catalog.load_table((namespace, "t")).metadata.next_row_id
    assert before is not None
    sql("INSERT INTO ns.t VALUES (3)")
    assert rows(sql, f"{LINEAGE} WHERE id = 3")[0][1] >= before


def test_a_table_of_version_2_gets_row_ids_when_it_is_raised(sql: Sql, catalog: Catalog, namespace: str) -> None:
    sql("CREATE TABLE ns.t TBLPROPERTIES ('format-version' = '2') AS SELECT CAST(id AS INT) FROM range(0, 3, 1, 1)")
    sql("ALTER TABLE ns.t SET TBLPROPERTIES ('format-version' = '3')")
    assert rows(sql, LINEAGE) == [(number, None, None) for number in range(3)]
    sql("INSERT INTO ns.t VALUES (10)")
    lineage = rows(sql, LINEAGE)
    assert sorted(row_id for _, row_id, _ in lineage) == [0, 1, 2, 3]
    assert {number: sequence for number, _, sequence in lineage} == {0: 1, 1: 1, 2: 1, 10: 2}
    assert catalog.load_table((namespace, "t")).metadata.next_row_id == 4


def test_variants(sql: Sql) -> None:
    sql("CREATE TABLE ns.t (id INT, data VARIANT) TBLPROPERTIES ('format-version' = '3')")
    sql("""INSERT INTO ns.t SELECT 1, parse_json('{"a": 1, "b": [true, null, {"c": "ü"}], "d": 1.50}')""")
    sql("INSERT INTO ns.t SELECT 2, parse_json('[1, 2]') UNION ALL SELECT 3, NULL")
    sql("UPDATE ns.t SET data = parse_json('\"text\"') WHERE id = 3")
    assert rows(sql, "SELECT id, to_json(data) FROM ns.t") == [
        (1, '{"a":1,"b":[true,null,{"c":"ü"}],"d":1.5}'), (2, "[1,2]"), (3, '"text"'),
    ]  # fmt: skip
    found = "variant_get(data, '$.b[2].c', 'string')"
    assert rows(sql, f"SELECT id, {found} FROM ns.t WHERE {found} IS NOT NULL") == [(1, "ü")]
    sql("ALTER TABLE ns.t ADD COLUMN more STRUCT<v: VARIANT>")
    assert rows(sql, "SELECT id, more.v IS NULL FROM ns.t WHERE id = 1") == [(1, True)]


@pytest.mark.parametrize("column", ["VARIANT", "VOID", "ARRAY<VARIANT>"])
def test_types_of_version_3_are_refused_in_version_2(sql: Sql, catalog: Catalog, namespace: str, column: str) -> None:
    with pytest.raises((PySparkException, Py4JJavaError), match="not supported until v3"):
        sql(f"CREATE TABLE ns.t (id INT, data {column}) TBLPROPERTIES ('format-version' = '2')")
    assert catalog.list_tables(namespace) == []
    sql("CREATE TABLE ns.t (id INT) TBLPROPERTIES ('format-version' = '2')")
    before = catalog.load_table((namespace, "t")).metadata_location
    with pytest.raises((PySparkException, Py4JJavaError), match="not supported until v3"):
        sql(f"ALTER TABLE ns.t ADD COLUMN data {column}")
    assert catalog.load_table((namespace, "t")).metadata_location == before


def test_unknown_columns(sql: Sql, catalog: Catalog, namespace: str) -> None:
    sql("CREATE TABLE ns.t (id INT, later VOID) TBLPROPERTIES ('format-version' = '3')")
    sql("INSERT INTO ns.t VALUES (1, NULL)")
    assert rows(sql, "SELECT * FROM ns.t") == [(1, None)]
    assert str(catalog.load_table((namespace, "t")).schema().find_field("later").field_type) == "unknown"


def test_default_values(
    sql: Sql, java_table: Any, live_spark: SparkSession, live_catalog: CatalogServer, catalog: Catalog, namespace: str
) -> None:
    sql("CREATE TABLE ns.t (id INT) TBLPROPERTIES ('format-version' = '3')")
    sql("INSERT INTO ns.t VALUES (1)")
    iceberg = live_spark._jvm.org.apache.iceberg
    literal, types = iceberg.expressions.Literal, iceberg.types.Types
    table = java_table()
    change = table.updateSchema().addColumn("kind", types.StringType.get(), "of what kind", literal.of("old"))
    change.addRequiredColumn("size", types.IntegerType.get(), None, literal.of(7)).commit()
    assert rows(sql, "SELECT * FROM ns.t") == [(1, "old", 7)]
    table.refresh()
    table.updateSchema().updateColumnDefault("kind", literal.of("new")).commit()
    sql("INSERT INTO ns.t (id, kind) VALUES (2, DEFAULT)")
    sql("INSERT INTO ns.t (id, size) VALUES (3, 8)")
    assert rows(sql, "SELECT * FROM ns.t") == [(1, "old", 7), (2, "new", 7), (3, "new", 8)]
    field = catalog.load_table((namespace, "t")).schema().find_field("kind")
    assert (field.initial_default, field.write_default) == ("old", "new")
