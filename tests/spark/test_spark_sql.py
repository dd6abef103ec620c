"""Spark as a client: create, change and drop tables with SQL on the real server."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlparse

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import Catalog
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.spark.statement_fixtures import Sql


@pytest.fixture
def books(sql: Sql) -> Sql:
    """A table of three books, partitioned by genre."""
    sql("CREATE TABLE ns.books (id BIGINT NOT NULL, title STRING, genre STRING, price DOUBLE) PARTITIONED BY (genre)")
    sql("INSERT INTO ns.books VALUES (1, 'Emma', 'novel', 9.5), (2, 'Ilias', 'epic', 12), (3, 'Faust', 'play', 7)")
    return sql


def content(sql: Sql, columns: str = "*", table: str = "ns.books") -> list[tuple[object, ...]]:
    return [tuple(row) for row in sql(f"SELECT {columns} FROM {table} ORDER BY 1")]


def test_create_insert_select(books: Sql) -> None:
    assert content(books) == [
        (1, "Emma", "novel", 9.5),
        (2, "Ilias", "epic", 12.0),
        (3, "Faust", "play", 7.0),
    ]
    assert content(books, "id", "ns.books WHERE genre = 'epic'") == [(2,)]
    created = books("SHOW CREATE TABLE ns.books")[0][0]
    assert "PARTITIONED BY (genre)" in created
    assert "id BIGINT NOT NULL" in created


def test_update_delete_merge(books: Sql) -> None:
    books("UPDATE ns.books SET price = price * 2 WHERE id < 3")
    books("DELETE FROM ns.books WHERE genre = 'play'")
    books("""
        MERGE INTO ns.books AS b
        USING (SELECT * FROM VALUES (1, 'Persuasion', 0.5), (9, 'Walden', 4.0) AS v(id, title, price)) AS n
        ON b.id = n.id
        WHEN MATCHED THEN UPDATE SET title = n.title
        WHEN NOT MATCHED THEN INSERT (id, title, genre, price) VALUES (n.id, n.title, 'essay', n.price)
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET price = 0""")
    assert content(books) == [
        (1, "Persuasion", "novel", 19.0),
        (2, "Ilias", "epic", 0.0),
        (9, "Walden", "essay", 4.0),
    ]


@pytest.mark.parametrize("version", [2, 3])
def test_merge_on_read_deletes_by_position(sql: Sql, version: int) -> None:
    sql(f"""
        CREATE TABLE ns.numbers TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')
        AS SELECT id FROM range(0, 1000, 1, 1)""")
    sql("DELETE FROM ns.numbers WHERE id % 10 = 3")
    assert content(sql, "count(*), sum(id)", "ns.numbers") == [(900, 499500 - sum(range(3, 1000, 10)))]
    wanted = "PARQUET" if version == 2 else "PUFFIN"
    assert [row[:] for row in sql("SELECT content, file_format, record_count FROM ns.numbers.delete_files")] == [
        (1, wanted, 100)
    ]


def test_row_lineage_of_version_3(sql: Sql) -> None:
    sql("CREATE TABLE ns.t (a INT) TBLPROPERTIES ('format-version' = '3')")
    sql("INSERT INTO ns.t VALUES (1)")
    sql("INSERT INTO ns.t VALUES (2), (3)")
    lineage = content(sql, "a, _row_id, _last_updated_sequence_number", "ns.t")
    assert [(row_id, sequence) for _, row_id, sequence in lineage] == [(0, 1), (1, 2), (2, 2)]


def test_create_table_as_select(books: Sql) -> None:
    books("""
        CREATE TABLE ns.dear PARTITIONED BY (bucket(4, id)) TBLPROPERTIES ('shelf' = 'top')
        AS SELECT * FROM ns.books WHERE price > 8""")
    assert content(books, "id", "ns.dear") == [(1,), (2,)]
    assert len(books("SELECT * FROM ns.dear.snapshots")) == 1
    assert "'shelf' = 'top'" in books("SHOW CREATE TABLE ns.dear")[0][0]


def test_a_query_that_fails_creates_no_table(books: Sql) -> None:
    with pytest.raises(PySparkException, match="never"):
        books("CREATE TABLE ns.broken AS SELECT CAST(raise_error('never') AS INT) AS x FROM ns.books")
    assert [row.tableName for row in books("SHOW TABLES IN ns")] == ["books"]


def test_create_or_replace_keeps_the_history(books: Sql) -> None:
    before = books("SELECT snapshot_id FROM ns.books.snapshots")[0][0]
    books("CREATE OR REPLACE TABLE ns.books PARTITIONED BY (truncate(2, name)) AS SELECT 'x' AS name, 5 AS n")
    assert content(books) == [("x", 5)]
    assert content(books, "id", f"ns.books VERSION AS OF {before}") == [(1,), (2,), (3,)]
    assert before in [row[0] for row in books("SELECT snapshot_id FROM ns.books.snapshots")]


def test_replace_of_a_missing_table_and_create_of_an_existing_one(books: Sql) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        books("REPLACE TABLE ns.nothing AS SELECT 1 AS a")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        books("CREATE TABLE ns.books (a INT)")
    books("CREATE TABLE IF NOT EXISTS ns.books (a INT)")
    assert len(content(books)) == 3


def test_insert_overwrite_replaces_the_partitions_it_names(books: Sql, live_spark: SparkSession) -> None:
    live_spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        books("INSERT OVERWRITE ns.books VALUES (7, 'Aeneis', 'epic', 1)")
    finally:
        live_spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert content(books, "id") == [(1,), (3,), (7,)]


def test_rename_within_and_across_namespaces(books: Sql, catalog: Catalog, namespace: str) -> None:
    books("ALTER TABLE ns.books RENAME TO ns.works")
    assert content(books, "count(*)", "ns.works") == [(3,)]
    catalog.create_namespace((namespace, "attic"))
    books("ALTER TABLE ns.works RENAME TO ns.attic.old")
    assert content(books, "count(*)", "ns.attic.old") == [(3,)]
    assert books("SHOW TABLES IN ns") == []
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        books("SELECT * FROM ns.works")


def test_schema_evolution(books: Sql) -> None:
    books("ALTER TABLE ns.books ADD COLUMNS (pages INT COMMENT 'printed', author STRUCT<name: STRING>)")
    books("ALTER TABLE ns.books ALTER COLUMN pages TYPE BIGINT")
    books("ALTER TABLE ns.books ADD COLUMN author.born INT")
    books("ALTER TABLE ns.books RENAME COLUMN author.name TO full_name")
    books("ALTER TABLE ns.books ALTER COLUMN pages FIRST")
    books("ALTER TABLE ns.books ALTER COLUMN id DROP NOT NULL")
    books("ALTER TABLE ns.books DROP COLUMN price")
    books("""
        INSERT INTO ns.books
        VALUES (3000000000, 4, 'Poems', 'lyric', named_struct('full_name', 'Sappho', 'born', -630))""")
    assert content(books, "id, pages, author.full_name, author.born") == [
        (1, None, None, None),
        (2, None, None, None),
        (3, None, None, None),
        (4, 3_000_000_000, "Sappho", -630),
    ]
    assert books("DESCRIBE ns.books")[0][:3] == ("pages", "bigint", "printed")


def test_partitioning_and_write_order_evolve(books: Sql) -> None:
    books("ALTER TABLE ns.books ADD PARTITION FIELD bucket(2, id) AS shard")
    books("ALTER TABLE ns.books REPLACE PARTITION FIELD genre WITH truncate(1, genre) AS letter")
    books("ALTER TABLE ns.books WRITE ORDERED BY title DESC NULLS LAST")
    books("INSERT INTO ns.books VALUES (4, 'Poems', 'lyric', 1)")
    assert {row[0] for row in books("SELECT spec_id FROM ns.books.files")} == {0, 2}
    books("ALTER TABLE ns.books DROP PARTITION FIELD shard")
    assert content(books, "id", "ns.books WHERE genre = 'lyric'") == [(4,)]


def test_properties_of_tables_and_namespaces(books: Sql) -> None:
    books("ALTER TABLE ns.books SET TBLPROPERTIES ('a.b' = 'x=y', 'empty' = '')")
    books("ALTER TABLE ns.books UNSET TBLPROPERTIES ('empty')")
    shown = {row.key: row.value for row in books("SHOW TBLPROPERTIES ns.books")}
    assert shown["a.b"] == "x=y"
    assert "empty" not in shown
    books("ALTER NAMESPACE ns SET PROPERTIES ('team' = 'ops')")
    described = {row[0]: row[1] for row in books("DESCRIBE NAMESPACE EXTENDED ns")}
    assert "(team,ops)" in described["Properties"]


def test_names_that_need_quotes(sql: Sql) -> None:
    for name in ("two words", "dot.ted", "Größe", "a+b", "50%"):
        sql(f"CREATE TABLE ns.`{name}` (`a b` INT, `ü.x` INT)")
        sql(f"INSERT INTO ns.`{name}` VALUES (1, 2)")
        assert content(sql, "`a b`, `ü.x`", f"ns.`{name}`") == [(1, 2)]
    assert {row.tableName.strip("`") for row in sql("SHOW TABLES IN ns")} == {
        "two words",
        "dot.ted",
        "Größe",
        "a+b",
        "50%",
    }


def test_drop_leaves_files_and_purge_deletes_them(books: Sql, catalog: Catalog, namespace: str) -> None:
    books("CREATE TABLE ns.kept AS SELECT 1 AS a")
    folders = {name: catalog.load_table((namespace, name)).location() for name in ("books", "kept")}
    books("DROP TABLE ns.kept")
    books("DROP TABLE ns.books PURGE")
    assert not any(catalog.table_exists((namespace, name)) for name in folders)
    assert list(Path(urlparse(folders["kept"]).path).rglob("*.parquet"))
    assert not list(Path(urlparse(folders["books"]).path).rglob("*.parquet"))
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        books("DROP TABLE ns.books")
    books("DROP TABLE IF EXISTS ns.books")


def test_a_namespace_that_is_not_empty_stays(books: Sql, catalog: Catalog, namespace: str) -> None:
    with pytest.raises(Py4JJavaError, match="not empty"):
        books("DROP NAMESPACE ns")
    assert catalog.namespace_exists(namespace)
    with pytest.raises(Py4JJavaError, match="Namespace does not exist"):
        books("CREATE TABLE ns.nowhere.t (a INT)")


def test_writers_at_the_same_time_lose_nothing(sql: Sql) -> None:
    sql("CREATE TABLE ns.log (writer INT) TBLPROPERTIES ('commit.retry.num-retries' = '20')")

    def append(writer: int) -> None:
        for _ in range(3):
            sql(f"INSERT INTO ns.log VALUES ({writer})")

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(append, range(4)))
    assert content(sql, "writer, count(*)", "ns.log GROUP BY writer") == [(writer, 3) for writer in range(4)]
    assert len(sql("SELECT * FROM ns.log.snapshots")) == 12


def test_what_spark_writes_pyiceberg_reads(books: Sql, catalog: Catalog, namespace: str) -> None:
    table = catalog.load_table((namespace, "books"))
    assert sorted(table.scan().to_arrow()["title"].to_pylist()) == ["Emma", "Faust", "Ilias"]
    table.append(table.scan(row_filter="id = 1").to_arrow())
    assert content(books, "count(*), count(DISTINCT id)") == [(4, 3)]
