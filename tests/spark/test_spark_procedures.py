"""Iceberg's procedures, verified by the contents of the table and its files; those on history are tested elsewhere."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import Catalog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.parts.server import CatalogServer
from tests.spark.statement_fixtures import Sql, ids, one, rows, snapshots


@pytest.fixture
def events(sql: Sql) -> Sql:
    """A table of four snapshots in two partitions, each with one file of one more row."""
    sql("CREATE TABLE ns.t (id INT, kind STRING) PARTITIONED BY (kind)")
    for number in range(1, 5):
        sql(f"INSERT INTO ns.t VALUES ({number}, 'kind {number % 2}')")
    return sql


@pytest.fixture
def plain(live_spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A partitioned table of Parquet files in Spark's own catalog, with ten rows."""
    name = "spark_catalog.default.plain"
    live_spark.sql(f"""
        CREATE TABLE {name} USING parquet PARTITIONED BY (kind) LOCATION '{(tmp_path / "plain").as_uri()}'
        AS SELECT id, CAST(id % 2 AS STRING) AS kind FROM range(0, 10, 1, 1)""")
    yield name
    live_spark.sql(f"DROP TABLE {name}")


def test_rollback_to_a_time(events: Sql) -> None:
    moments = [row[0] for row in events("SELECT made_current_at FROM ns.t.history ORDER BY made_current_at")]
    done = one(events(f"CALL system.rollback_to_timestamp('ns.t', TIMESTAMP '{moments[2]}')"))
    first, second, _, last = snapshots(events)
    assert done[:] == (last, second)
    assert ids(events) == [1, 2]
    with pytest.raises(PySparkException, match="no valid snapshot"):
        events("CALL system.rollback_to_timestamp('ns.t', TIMESTAMP '2001-01-01')")
    with pytest.raises(Py4JJavaError, match="not an ancestor"):
        events(f"CALL system.rollback_to_snapshot('ns.t', {last})")
    assert ids(events) == [1, 2]
    events(f"ALTER TABLE ns.t CREATE TAG start AS OF VERSION {first}")
    events("CALL system.set_current_snapshot(table => 'ns.t', ref => 'start')")
    assert ids(events) == [1]


def test_ancestors(events: Sql) -> None:
    first, second, third, last = snapshots(events)
    events(f"CALL system.rollback_to_snapshot('ns.t', {second})")
    events("INSERT INTO ns.t VALUES (5, 'kind 1')")
    newest = snapshots(events)[-1]
    assert [row.snapshot_id for row in events("CALL system.ancestors_of('ns.t')")] == [newest, second, first]
    ancestors = [row.snapshot_id for row in events(f"CALL system.ancestors_of('ns.t', {last})")]
    assert ancestors == [last, third, second, first]


def test_changelog_view(events: Sql) -> None:
    second = snapshots(events)[1]
    events("UPDATE ns.t SET kind = 'kind 0' WHERE id = 3")
    events("DELETE FROM ns.t WHERE id = 1")
    events(f"""
        CALL system.create_changelog_view(table => 'ns.t', changelog_view => 'changes_of_t',
          options => map('start-snapshot-id', '{second}'))""")
    changes = rows(events, "SELECT _change_ordinal, _change_type, id, kind FROM changes_of_t")
    assert changes == [
        (0, "INSERT", 3, "kind 1"), (1, "INSERT", 4, "kind 0"), (2, "DELETE", 3, "kind 1"), (2, "INSERT", 3, "kind 0"),
        (3, "DELETE", 1, "kind 1"),
    ]  # fmt: skip
    events("""
        CALL system.create_changelog_view(table => 'ns.t', changelog_view => 'updates_of_t', compute_updates => true,
          identifier_columns => array('id'))""")
    assert rows(events, "SELECT id, kind, _change_type FROM updates_of_t WHERE _change_ordinal = 4") == [
        (3, "kind 0", "UPDATE_AFTER"), (3, "kind 1", "UPDATE_BEFORE"),
    ]  # fmt: skip
    assert len(events("SELECT * FROM ns.t.changes")) == len(events("SELECT * FROM updates_of_t")) == 7


def test_position_deletes_are_put_together(sql: Sql) -> None:
    sql("""
        CREATE TABLE ns.t (id BIGINT) TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read',
          'write.delete.granularity' = 'partition')""")
    sql("INSERT INTO ns.t SELECT id FROM range(0, 100, 1, 1)")
    for remainder in range(3):
        sql(f"DELETE FROM ns.t WHERE id % 10 = {remainder}")
    assert one(sql("SELECT count(*) FROM ns.t.delete_files"))[0] == 3
    done = one(
        sql("""
        CALL system.rewrite_position_delete_files(table => 'ns.t', options => map('rewrite-all', 'true'))""")
    )
    assert (done.rewritten_delete_files_count, done.added_delete_files_count) == (3, 1)
    assert rows(sql, "SELECT content, record_count FROM ns.t.delete_files") == [(1, 30)]
    assert len(ids(sql)) == 70
    sql("""
        CALL system.rewrite_data_files(table => 'ns.t',
          options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'))""")
    assert rows(sql, "SELECT content, record_count FROM ns.t.files") == [(0, 70)]
    assert len(ids(sql)) == 70


def test_rewriting_data_files_sorted_and_in_part(sql: Sql) -> None:
    sql("CREATE TABLE ns.t (id BIGINT, other BIGINT, kind STRING) PARTITIONED BY (kind)")
    for _ in range(2):
        sql("INSERT INTO ns.t SELECT id, 100 - id, CAST(id % 2 AS STRING) FROM range(0, 100, 1, 1)")
    done = one(
        sql("""
        CALL system.rewrite_data_files(table => 'ns.t', strategy => 'sort', sort_order => 'id DESC NULLS LAST',
          where => 'kind = "1"', options => map('rewrite-all', 'true'))""")
    )
    assert (done.rewritten_data_files_count, done.added_data_files_count) == (2, 1)
    assert rows(sql, "SELECT partition.kind, record_count FROM ns.t.files") == [("0", 50), ("0", 50), ("1", 100)]
    stored = [row.id for row in sql("SELECT id FROM ns.t WHERE kind = '1'")]
    assert stored == sorted(stored, reverse=True)
    done = one(
        sql("""
        CALL system.rewrite_data_files(table => 'ns.t', strategy => 'sort', sort_order => 'zorder(id, other)',
          options => map('rewrite-all', 'true'))""")
    )
    assert (done.rewritten_data_files_count, done.added_data_files_count) == (3, 2)
    assert one(sql("SELECT count(*), sum(id) FROM ns.t"))[:] == (200, 9900)


def test_expiry_of_named_snapshots_and_of_unused_schemas(events: Sql, catalog: Catalog, namespace: str) -> None:
    first = snapshots(events)[0]
    events(f"CALL system.expire_snapshots(table => 'ns.t', snapshot_ids => array({first}))")
    assert first not in snapshots(events)
    assert ids(events) == [1, 2, 3, 4]
    events("ALTER TABLE ns.t ADD COLUMN size INT")
    events("ALTER TABLE ns.t DROP PARTITION FIELD kind")
    events("INSERT OVERWRITE ns.t VALUES (9, 'kind 1', 7)")
    events("INSERT INTO ns.t VALUES (10, 'kind 0', 8)")  # its manifests no longer name the dropped files
    assert len(catalog.load_table((namespace, "t")).metadata.schemas) == 2
    events("""
        CALL system.expire_snapshots(table => 'ns.t', older_than => TIMESTAMP '2100-01-01', retain_last => 1,
          clean_expired_metadata => true)""")
    metadata = catalog.load_table((namespace, "t")).metadata
    assert (len(metadata.snapshots), len(metadata.schemas), len(metadata.partition_specs)) == (1, 1, 1)
    assert rows(events, "SELECT * FROM ns.t") == [(10, "kind 0", 8), (9, "kind 1", 7)]
    folder = Path(urlparse(metadata.location).path)
    assert len(list(folder.rglob("*.parquet"))) == 2


def test_orphans_are_only_listed_in_a_dry_run(events: Sql, catalog: Catalog, namespace: str) -> None:
    folder = Path(urlparse(catalog.load_table((namespace, "t")).location()).path)
    orphan = folder / "data" / "orphan.parquet"
    orphan.write_bytes(b"lost")
    four_days_ago = time.time() - 4 * 24 * 3600
    os.utime(orphan, (four_days_ago, four_days_ago))
    listed = events("CALL system.remove_orphan_files(table => 'ns.t', dry_run => true)")
    assert [Path(urlparse(row[0]).path) for row in listed] == [orphan]
    assert orphan.exists()


def test_partition_statistics(events: Sql, catalog: Catalog, namespace: str) -> None:
    (created,) = one(events("CALL system.compute_partition_stats('ns.t')"))
    (kept,) = catalog.load_table((namespace, "t")).metadata.partition_statistics
    assert (kept.snapshot_id, kept.statistics_path) == (snapshots(events)[-1], created)
    assert Path(urlparse(created).path).stat().st_size == kept.file_size_in_bytes


def test_a_table_is_copied_by_its_rewritten_paths(
    sql: Sql, catalog: Catalog, namespace: str, live_catalog: CatalogServer, live_spark: SparkSession
) -> None:
    # Hadoop writes file:/x where others write file:///x, and this procedure compares text.
    root = live_catalog.storage_root / live_catalog.warehouse / namespace
    old, new = f"file:{root}/old", f"file:{root}/new"
    sql(f"CREATE TABLE ns.t LOCATION '{old}' AS SELECT id FROM range(5)")
    sql("DELETE FROM ns.t WHERE id = 0")
    done = one(
        sql(f"""
        CALL system.rewrite_table_path(table => 'ns.t', source_prefix => '{old}', target_prefix => '{new}')""")
    )
    for row in live_spark.read.csv(done.file_list_location).collect():
        source, target = (Path(urlparse(location).path) for location in row)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    sql("DROP TABLE ns.t")
    shutil.rmtree(root / "old")
    sql(f"CALL system.register_table('ns.copy', '{new}/metadata/{done.latest_version}')")
    assert ids(sql, "ns.copy") == [1, 2, 3, 4]
    assert catalog.load_table((namespace, "copy")).location() == new


def test_a_plain_table_is_snapshotted(sql: Sql, plain: str, namespace: str, live_spark: SparkSession) -> None:
    done = one(sql(f"CALL system.snapshot(source_table => '{plain}', table => 'live.ns.t')"))
    assert done.imported_files_count == 2
    assert one(sql("SELECT count(*), sum(id) FROM ns.t"))[:] == (10, 45)
    sql("DELETE FROM ns.t WHERE id < 5")
    sql("INSERT INTO ns.t VALUES (100, '0')")
    assert ids(sql) == [5, 6, 7, 8, 9, 100]
    assert live_spark.table(plain).count() == 10
    assert {row.kind for row in sql("SELECT partition.kind FROM ns.t.partitions")} == {"0", "1"}
    assert namespace in one(sql("SHOW CREATE TABLE ns.t"))[0]


def test_chosen_partitions_of_a_plain_table_are_added(sql: Sql, plain: str) -> None:
    sql("CREATE TABLE ns.t (id BIGINT, kind STRING) PARTITIONED BY (kind)")
    add = f"CALL system.add_files(table => 'ns.t', source_table => '{plain}'"
    done = one(sql(f"{add}, partition_filter => map('kind', '1'))"))
    assert done.added_files_count == 1
    assert ids(sql) == [1, 3, 5, 7, 9]
    with pytest.raises(Exception, match="already exist within the target table"):
        sql(f"{add})")
    assert ids(sql) == [1, 3, 5, 7, 9]
