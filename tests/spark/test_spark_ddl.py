"""Spark's DDL statements for tables, each verified in the metadata of the catalog."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlparse

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyspark.errors import AnalysisException, PySparkException

from tests.parts.server import CatalogServer
from tests.spark.statement_fixtures import Sql, rows

Load = Callable[[], Table]
_numbers = itertools.count(1)

ALL_TYPES = """
    a_boolean BOOLEAN, an_int INT, a_long BIGINT, a_float FLOAT, a_double DOUBLE, a_decimal DECIMAL(38, 10),
    a_date DATE, a_time TIMESTAMP, a_local_time TIMESTAMP_NTZ, a_string STRING, a_binary BINARY,
    a_list ARRAY<STRING>, a_map MAP<STRING, DECIMAL(9, 2)>,
    a_struct STRUCT<x: INT, y: STRUCT<z: ARRAY<STRUCT<w: DATE>>>>"""


@pytest.fixture
def loaded(catalog: Catalog, namespace: str) -> Load:
    """Load `ns.t` from the catalog, not from a cache of Spark."""
    return lambda: catalog.load_table((namespace, "t"))


@pytest.fixture
def locations(sql: Sql) -> Sql:
    """A table with every kind of nested type and one row."""
    sql("""
        CREATE TABLE ns.t (id INT NOT NULL, name STRING, point STRUCT<x: INT, y: FLOAT>,
          stops ARRAY<STRUCT<at: INT>>, prices MAP<STRING, STRUCT<low: DECIMAL(5, 2)>>)""")
    sql("""
        INSERT INTO ns.t
        VALUES (1, 'Rome', named_struct('x', 7, 'y', 0.5), array(named_struct('at', 8)),
          map('a', named_struct('low', 9.25)))""")
    return sql


def columns(table: Table) -> list[str]:
    return [f"{field.field_id} {field.name} {field.field_type}" for field in table.schema().fields]


def partitioning(table: Table) -> list[tuple[str, str]]:
    return [(field.name, str(field.transform)) for field in table.spec().fields]


def order(table: Table) -> list[str]:
    names = table.schema()
    return [
        f"{field.transform} {names.find_column_name(field.source_id)} {field.direction} {field.null_order}"
        for field in table.sort_order().fields
    ]


def test_create_with_every_type(sql: Sql, loaded: Load) -> None:
    sql(f"CREATE TABLE ns.t ({ALL_TYPES}) USING iceberg")
    assert [str(field.field_type) for field in loaded().schema().fields] == [
        "boolean", "int", "long", "float", "double", "decimal(38, 10)", "date", "timestamptz", "timestamp", "string",
        "binary", "list<string>", "map<string, decimal(9, 2)>",
        "struct<18: x: optional int, 19: y: optional struct<20: z: optional list<struct<22: w: optional date>>>>",
    ]  # fmt: skip
    sql("""
        INSERT INTO ns.t VALUES (true, -1, 9223372036854775807, 0.5, 1e300, 12345678901234567890.0123456789,
          DATE '0001-01-01', TIMESTAMP '2024-02-29 12:00:00.123456', TIMESTAMP_NTZ '1969-12-31 23:59:59', 'ü', X'00FF',
          array('a', null), map('k', 1.25),
          named_struct('x', 1, 'y', named_struct('z', array(named_struct('w', null)))))
        """)
    (stored,) = sql("SELECT * EXCEPT (a_time), CAST(a_time AS STRING) FROM ns.t")
    assert (stored.a_long, stored.a_double, stored.a_string, stored.a_binary) == (2**63 - 1, 1e300, "ü", b"\x00\xff")
    assert (str(stored.a_decimal), str(stored.a_date)) == ("12345678901234567890.0123456789", "0001-01-01")
    assert (stored.a_list, stored.a_struct.y.z[0].w) == (["a", None], None)
    assert stored.a_time == "2024-02-29 12:00:00.123456"


def test_create_with_all_clauses(sql: Sql, loaded: Load, live_catalog: CatalogServer) -> None:
    folder = live_catalog.storage_root / live_catalog.warehouse / f"chosen-{next(_numbers)}"
    sql(f"""
        CREATE TABLE ns.t
          (id BIGINT NOT NULL COMMENT 'the key', born DATE, met DATE, seen TIMESTAMP, at TIMESTAMP, name STRING)
        USING iceberg
        PARTITIONED BY (years(born), months(met), days(seen), hours(at), bucket(16, id), truncate(3, name), name)
        LOCATION '{folder.as_uri()}'
        COMMENT 'everything at once'
        TBLPROPERTIES ('format-version' = '2', 'team' = 'maps')""")
    table = loaded()
    assert partitioning(table) == [
        ("born_year", "year"), ("met_month", "month"), ("seen_day", "day"), ("at_hour", "hour"),
        ("id_bucket", "bucket[16]"), ("name_trunc", "truncate[3]"), ("name", "identity"),
    ]  # fmt: skip
    assert urlparse(table.location()).path == str(folder)
    assert table.schema().find_field("id").doc == "the key"
    assert table.schema().find_field("id").required
    assert (table.properties["comment"], table.properties["team"]) == ("everything at once", "maps")
    sql("""
        INSERT INTO ns.t VALUES (1, DATE '1999-12-31', DATE '1999-12-31', TIMESTAMP '2024-02-29 12:34:56',
          TIMESTAMP '2024-02-29 12:34:56', 'Iceberg')""")
    (partition,) = sql("SELECT partition.* FROM ns.t.files")
    assert (partition.born_year, partition.met_month, partition.at_hour) == (29, 359, 474780)
    assert (str(partition.seen_day), partition.name_trunc) == ("2024-02-29", "Ice")
    assert list(folder.rglob("*.parquet"))


def test_a_location_outside_the_warehouse_is_refused(
    sql: Sql, catalog: Catalog, namespace: str, tmp_path: Path
) -> None:
    with pytest.raises(Py4JJavaError, match=r"(?i)location"):
        sql(f"CREATE TABLE ns.t (id INT) LOCATION '{(tmp_path / 'elsewhere').as_uri()}'")
    assert catalog.list_tables(namespace) == []
    assert not (tmp_path / "elsewhere").exists()


def test_replace_keeps_identity_and_history(sql: Sql, loaded: Load) -> None:
    sql("CREATE TABLE ns.t PARTITIONED BY (kind) TBLPROPERTIES ('a' = '1') AS SELECT 1 AS id, 'x' AS kind")
    before = loaded()
    sql("""
        REPLACE TABLE ns.t PARTITIONED BY (bucket(4, id)) TBLPROPERTIES ('b' = '2')
        AS SELECT id, 'new' AS label FROM ns.t""")
    after = loaded()
    assert after.metadata.table_uuid == before.metadata.table_uuid
    assert columns(after) == ["1 id int", "3 label string"]
    assert partitioning(after) == [("id_bucket", "bucket[4]")]
    assert (after.properties["a"], after.properties["b"]) == ("1", "2")
    assert rows(sql, "SELECT * FROM ns.t") == [(1, "new")]
    first = before.metadata.current_snapshot_id
    assert after.snapshots()[0].snapshot_id == first
    assert rows(sql, f"SELECT * FROM ns.t VERSION AS OF {first}") == [(1, "x")]


def test_create_or_replace(sql: Sql, loaded: Load) -> None:
    sql("CREATE OR REPLACE TABLE ns.t AS SELECT 1 AS a")
    first = loaded().metadata.table_uuid
    sql("CREATE OR REPLACE TABLE ns.t AS SELECT 'two' AS b")
    assert loaded().metadata.table_uuid == first
    assert rows(sql, "SELECT * FROM ns.t") == [("two",)]
    sql("CREATE OR REPLACE TABLE ns.t (c DATE)")
    assert rows(sql, "SELECT * FROM ns.t") == []
    assert columns(loaded()) == ["3 c date"]
    assert len(loaded().snapshots()) == 2


def test_replacing_a_missing_table_creates_nothing(sql: Sql, catalog: Catalog, namespace: str) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("REPLACE TABLE ns.t AS SELECT 1 AS a")
    assert catalog.list_tables(namespace) == []


def test_a_failing_query_leaves_neither_a_new_table_nor_a_replaced_one(
    sql: Sql, catalog: Catalog, namespace: str, loaded: Load
) -> None:
    failing = "SELECT CAST(raise_error('no more') AS INT) AS a"
    with pytest.raises(PySparkException, match="no more"):
        sql(f"CREATE TABLE ns.t AS {failing}")
    assert catalog.list_tables(namespace) == []
    sql("CREATE TABLE ns.t AS SELECT 1 AS a")
    before = loaded().metadata_location
    with pytest.raises(PySparkException, match="no more"):
        sql(f"CREATE OR REPLACE TABLE ns.t AS {failing}")
    assert loaded().metadata_location == before


def test_columns_are_added_at_their_positions(locations: Sql, loaded: Load) -> None:
    locations("ALTER TABLE ns.t ADD COLUMNS (zip STRING COMMENT 'postal', area DOUBLE AFTER id, first BOOLEAN FIRST)")
    locations("ALTER TABLE ns.t ADD COLUMN point.z DOUBLE COMMENT 'up' AFTER x")
    locations("ALTER TABLE ns.t ADD COLUMN stops.element.by STRING FIRST")
    locations("ALTER TABLE ns.t ADD COLUMN prices.value.high DECIMAL(5, 2)")
    table = loaded()
    assert columns(table) == [
        "15 first boolean",
        "1 id int",
        "14 area double",
        "2 name string",
        "3 point struct<6: x: optional int, 16: z: optional double (up), 7: y: optional float>",
        "4 stops list<struct<17: by: optional string, 9: at: optional int>>",
        "5 prices map<string, struct<12: low: optional decimal(5, 2), 18: high: optional decimal(5, 2)>>",
        "13 zip string",
    ]
    assert table.schema().find_field("zip").doc == "postal"
    assert rows(locations, "SELECT first, id, point.z, point.x, stops[0].by, stops[0].at FROM ns.t") == [
        (None, 1, None, 7, None, 8)
    ]


def test_columns_are_changed(locations: Sql, loaded: Load) -> None:
    locations("ALTER TABLE ns.t ALTER COLUMN id TYPE BIGINT")
    locations("ALTER TABLE ns.t ALTER COLUMN point.y TYPE DOUBLE")
    locations("ALTER TABLE ns.t ALTER COLUMN prices.value.low TYPE DECIMAL(12, 2)")
    locations("ALTER TABLE ns.t ALTER COLUMN name COMMENT 'in the local language'")
    locations("ALTER TABLE ns.t ALTER COLUMN point.y FIRST")
    locations("ALTER TABLE ns.t ALTER COLUMN stops AFTER id")
    locations("ALTER TABLE ns.t ALTER COLUMN id DROP NOT NULL")
    locations("ALTER TABLE ns.t RENAME COLUMN point.x TO east")
    locations("ALTER TABLE ns.t RENAME COLUMN stops.element.at TO since")
    table = loaded()
    assert columns(table) == [
        "1 id long",
        "4 stops list<struct<9: since: optional int>>",
        "2 name string",
        "3 point struct<7: y: optional double, 6: east: optional int>",
        "5 prices map<string, struct<12: low: optional decimal(12, 2)>>",
    ]
    assert table.schema().find_field("name").doc == "in the local language"
    assert not table.schema().find_field("id").required
    assert rows(locations, "SELECT id, stops[0].since, name, point.y, point.east FROM ns.t") == [(1, 8, "Rome", 0.5, 7)]


def test_columns_are_dropped_and_their_ids_never_used_again(locations: Sql, loaded: Load) -> None:
    locations("ALTER TABLE ns.t DROP COLUMN name")
    locations("ALTER TABLE ns.t DROP COLUMNS (point.x, prices)")
    locations("ALTER TABLE ns.t ADD COLUMN name STRING")
    assert columns(loaded()) == [
        "1 id int",
        "3 point struct<7: y: optional float>",
        "4 stops list<struct<9: at: optional int>>",
        "13 name string",
    ]
    assert rows(locations, "SELECT id, name FROM ns.t") == [(1, None)]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER COLUMN id TYPE STRING",
        "ALTER COLUMN name SET NOT NULL",
        "ADD COLUMN name INT",
        "DROP COLUMN nothing",
        "RENAME COLUMN name TO id",
        "ADD COLUMN point.x STRING",
        "DROP PARTITION FIELD nothing",
        "SET IDENTIFIER FIELDS name",
        "SET TBLPROPERTIES ('format-version' = '1')",
    ],
)
def test_a_refused_change_changes_nothing(locations: Sql, loaded: Load, change: str) -> None:
    before = loaded().metadata_location
    with pytest.raises((PySparkException, Py4JJavaError)):
        locations(f"ALTER TABLE ns.t {change}")
    assert loaded().metadata_location == before


def test_partition_fields_come_and_go(sql: Sql, loaded: Load) -> None:
    sql("CREATE TABLE ns.t (id INT, at TIMESTAMP, name STRING)")
    sql("INSERT INTO ns.t VALUES (1, TIMESTAMP '2024-01-31 23:30:00', 'a')")
    for field in ("name", "bucket(8, id)", "truncate(2, name) AS letters", "months(at)"):
        sql(f"ALTER TABLE ns.t ADD PARTITION FIELD {field}")
    added = [("name", "identity"), ("id_bucket_8", "bucket[8]"), ("letters", "truncate[2]"), ("at_month", "month")]
    assert partitioning(loaded()) == added
    sql("INSERT INTO ns.t VALUES (2, TIMESTAMP '2024-02-01 00:30:00', 'bb')")
    sql("ALTER TABLE ns.t REPLACE PARTITION FIELD months(at) WITH days(at) AS day")
    sql("ALTER TABLE ns.t DROP PARTITION FIELD bucket(8, id)")
    sql("ALTER TABLE ns.t DROP PARTITION FIELD letters")
    assert partitioning(loaded()) == [("name", "identity"), ("day", "day")]
    sql("INSERT INTO ns.t VALUES (3, TIMESTAMP '2024-02-02 00:30:00', 'ccc')")
    assert sorted(row.spec_id for row in sql("SELECT spec_id FROM ns.t.files")) == [0, 4, 7]
    assert rows(sql, "SELECT id FROM ns.t WHERE at >= TIMESTAMP '2024-02-01 00:00:00' AND name > 'a'") == [(2,), (3,)]


def test_write_order_and_distribution(sql: Sql, loaded: Load) -> None:
    sql("CREATE TABLE ns.t (id INT, name STRING, at TIMESTAMP) PARTITIONED BY (days(at))")
    sql("ALTER TABLE ns.t WRITE ORDERED BY name DESC NULLS LAST, bucket(4, id)")
    assert order(loaded()) == ["identity name DESC NULLS LAST", "bucket[4] id ASC NULLS FIRST"]
    assert loaded().properties["write.distribution-mode"] == "range"
    sql("ALTER TABLE ns.t WRITE LOCALLY ORDERED BY id")
    assert order(loaded()) == ["identity id ASC NULLS FIRST"]
    sql("ALTER TABLE ns.t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY name")
    assert order(loaded()) == ["identity name ASC NULLS FIRST"]
    assert loaded().properties["write.distribution-mode"] == "hash"
    sql("ALTER TABLE ns.t WRITE DISTRIBUTED BY PARTITION")
    assert (order(loaded()), loaded().properties["write.distribution-mode"]) == ([], "hash")
    sql("ALTER TABLE ns.t WRITE UNORDERED")
    assert (order(loaded()), loaded().properties["write.distribution-mode"]) == ([], "none")
    sql("ALTER TABLE ns.t WRITE ORDERED BY id")
    sql("INSERT INTO ns.t SELECT id, 'x', TIMESTAMP '2024-01-01 00:00:00' FROM range(10) ORDER BY id DESC")
    assert {row.sort_order_id for row in sql("SELECT sort_order_id FROM ns.t.files")} == {2}


def test_identifier_fields(locations: Sql, loaded: Load) -> None:
    locations("ALTER TABLE ns.t SET IDENTIFIER FIELDS id")
    assert loaded().schema().identifier_field_names() == {"id"}
    locations("ALTER TABLE ns.t DROP IDENTIFIER FIELDS id")
    assert loaded().schema().identifier_field_names() == set()


def test_properties_comment_and_location(locations: Sql, loaded: Load) -> None:
    locations("ALTER TABLE ns.t SET TBLPROPERTIES ('read.split.target-size' = '1048576', 'owner.team' = 'ü')")
    locations("COMMENT ON TABLE ns.t IS 'stations'")
    assert {**loaded().properties}.items() >= {
        "read.split.target-size": "1048576", "owner.team": "ü", "comment": "stations",
    }.items()  # fmt: skip
    locations("ALTER TABLE ns.t UNSET TBLPROPERTIES ('read.split.target-size', 'never.was')")
    assert "read.split.target-size" not in loaded().properties
    elsewhere = f"{loaded().location()}/moved"
    locations(f"ALTER TABLE ns.t SET LOCATION '{elsewhere}'")
    locations("INSERT INTO ns.t (id) VALUES (2)")
    assert loaded().location() == elsewhere
    assert rows(locations, "SELECT id FROM ns.t") == [(1,), (2,)]
    found = [row.file_path for row in locations("SELECT file_path FROM ns.t.files")]
    assert sorted("/moved/data/" in path for path in found) == [False, True]


def test_the_format_version_is_raised(locations: Sql, loaded: Load) -> None:
    for version in (2, 3):
        locations(f"ALTER TABLE ns.t SET TBLPROPERTIES ('format-version' = '{version}')")
        assert loaded().metadata.format_version == version
        assert "format-version" not in loaded().properties
    assert rows(locations, "SELECT id FROM ns.t") == [(1,)]


def test_namespaces_of_any_depth_and_name(sql: Sql, catalog: Catalog, namespace: str) -> None:
    deep = (namespace, "a.b", "two words", "表/%2F", 'it\'s "so"')
    for depth in range(2, 6):
        quoted = ".".join(f"`{level}`" for level in deep[:depth])
        sql(f"CREATE NAMESPACE {quoted} COMMENT 'level {depth}' WITH PROPERTIES ('depth' = '{depth}')")
    assert catalog.load_namespace_properties(deep) == {
        **catalog.load_namespace_properties(deep), "depth": "5", "comment": "level 5",
    }  # fmt: skip
    quoted = ".".join(f"`{level}`" for level in deep)
    sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted} COMMENT 'another'")
    sql(f"COMMENT ON NAMESPACE {quoted} IS 'the last'")
    sql(f"ALTER NAMESPACE {quoted} SET PROPERTIES ('depth' = 'five')")
    assert catalog.load_namespace_properties(deep).items() >= {"depth": "five", "comment": "the last"}.items()
    assert catalog.list_namespaces(deep[:-1]) == [deep]
    assert len(sql(f"SHOW NAMESPACES IN {quoted.rpartition('.')[0]}")) == 1
    sql(f"CREATE TABLE {quoted}.`t.1` AS SELECT 1 AS a")
    assert rows(sql, f"SELECT * FROM {quoted}.`t.1`") == [(1,)]
    assert [row.tableName for row in sql(f"SHOW TABLES IN {quoted}")] == ["t.1"]
    sql(f"ALTER TABLE {quoted}.`t.1` RENAME TO ns.up")
    assert rows(sql, "SELECT * FROM ns.up") == [(1,)]
    sql(f"DROP NAMESPACE {quoted}")
    assert not catalog.namespace_exists(deep)
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql(f"DROP NAMESPACE {quoted}")
    sql(f"DROP NAMESPACE IF EXISTS {quoted}")
