"""Spark on a table's history: metadata tables, branches and tags, time travel, maintenance procedures."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from pyiceberg.catalog import Catalog
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from tests.spark.statement_fixtures import Sql, ids, one, setting, snapshots

FOUR_DAYS = 4 * 24 * 3600


@pytest.fixture
def events(sql: Sql) -> Sql:
    """A table of four snapshots, each with one file of one more row."""
    sql("CREATE TABLE ns.t (id INT, kind STRING)")
    for number in range(1, 5):
        sql(f"INSERT INTO ns.t VALUES ({number}, 'kind {number % 2}')")
    return sql


def test_metadata_tables(events: Sql) -> None:
    counts = {
        "snapshots": 4, "history": 4, "files": 4, "data_files": 4, "delete_files": 0, "manifests": 4, "entries": 4,
        "refs": 1, "metadata_log_entries": 5, "partitions": 1, "position_deletes": 0, "all_data_files": 4,
        "all_delete_files": 0, "all_files": 4, "all_manifests": 10, "all_entries": 4,
    }  # fmt: skip
    assert {name: one(events(f"SELECT count(*) FROM ns.t.{name}"))[0] for name in counts} == counts
    summary = one(events("SELECT operation, summary['added-records'] FROM ns.t.snapshots ORDER BY 1 LIMIT 1"))
    assert summary[:] == ("append", "1")
    assert events("SELECT is_current_ancestor FROM ns.t.history WHERE NOT is_current_ancestor") == []


def test_time_travel(events: Sql, live_spark: SparkSession, namespace: str) -> None:
    second = snapshots(events)[1]
    assert ids(events, f"ns.t VERSION AS OF {second}") == [1, 2]
    moments = events("SELECT CAST(made_current_at AS STRING) FROM ns.t.history ORDER BY made_current_at")
    assert ids(events, f"ns.t TIMESTAMP AS OF '{moments[2][0]}'") == [1, 2, 3]
    selected = live_spark.table(f"{namespace}.t.snapshot_id_{second}")
    assert sorted(row.id for row in selected.collect()) == [1, 2]
    with pytest.raises(IllegalArgumentException, match="Cannot find a snapshot older than"):
        ids(events, "ns.t TIMESTAMP AS OF '2001-01-01'")


def test_changes_between_snapshots(events: Sql, live_spark: SparkSession, namespace: str) -> None:
    first, _, third, _ = snapshots(events)
    between = live_spark.read.option("start-snapshot-id", first).option("end-snapshot-id", third)
    assert sorted(row.id for row in between.table(f"{namespace}.t").collect()) == [2, 3]


def test_branches_and_tags(events: Sql) -> None:
    events("ALTER TABLE ns.t CREATE TAG monthly RETAIN 30 DAYS")
    events("ALTER TABLE ns.t CREATE BRANCH audit WITH SNAPSHOT RETENTION 2 SNAPSHOTS")
    events("INSERT INTO ns.t.branch_audit VALUES (5, 'kind 1')")
    events("DELETE FROM ns.t.branch_audit WHERE id = 1")
    assert ids(events) == [1, 2, 3, 4]
    assert ids(events, "ns.t VERSION AS OF 'audit'") == ids(events, "ns.t.branch_audit") == [2, 3, 4, 5]
    assert ids(events, "ns.t.tag_monthly") == [1, 2, 3, 4]
    refs = {row.name: row for row in events("SELECT * FROM ns.t.refs")}
    assert {name: row.type for name, row in refs.items()} == {"main": "BRANCH", "monthly": "TAG", "audit": "BRANCH"}
    assert refs["monthly"].max_reference_age_in_ms == 30 * 24 * 3600 * 1000
    assert refs["audit"].min_snapshots_to_keep == 2
    events("CALL system.fast_forward('ns.t', 'main', 'audit')")
    assert ids(events) == [2, 3, 4, 5]
    events("ALTER TABLE ns.t DROP BRANCH audit")
    events("ALTER TABLE ns.t DROP TAG monthly")
    assert [row.name for row in events("SELECT name FROM ns.t.refs")] == ["main"]
    with pytest.raises(IllegalArgumentException, match="audit"):
        ids(events, "ns.t VERSION AS OF 'audit'")


def test_rollback_and_return(events: Sql) -> None:
    first, _, _, last = snapshots(events)
    events(f"CALL system.rollback_to_snapshot('ns.t', {first})")
    assert ids(events) == [1]
    events(f"CALL system.set_current_snapshot('ns.t', {last})")
    assert ids(events) == [1, 2, 3, 4]
    assert len(events("SELECT * FROM ns.t.history")) == 6


def test_staged_write_is_published_by_cherry_pick(events: Sql, live_spark: SparkSession) -> None:
    events("ALTER TABLE ns.t SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    with setting(live_spark, "spark.wap.id", "nightly"):
        events("INSERT INTO ns.t VALUES (5, 'staged')")
    assert ids(events) == [1, 2, 3, 4]
    staged = one(events("SELECT snapshot_id FROM ns.t.snapshots WHERE summary['wap.id'] = 'nightly'"))[0]
    events(f"CALL system.cherrypick_snapshot('ns.t', {staged})")
    assert ids(events) == [1, 2, 3, 4, 5]


def test_expire_with_nothing_to_do_changes_nothing(events: Sql, catalog: Catalog, namespace: str) -> None:
    before = catalog.load_table((namespace, "t")).metadata_location
    done = one(events("CALL system.expire_snapshots(table => 'ns.t', older_than => TIMESTAMP '2001-01-01')"))
    assert set(done[:]) == {0}
    assert catalog.load_table((namespace, "t")).metadata_location == before


def test_expire_removes_snapshots_and_their_files(events: Sql) -> None:
    events("DELETE FROM ns.t WHERE id = 1")
    time.sleep(0.01)
    moment = one(events("SELECT CAST(current_timestamp() AS STRING)"))[0]
    done = one(events(f"CALL system.expire_snapshots('ns.t', TIMESTAMP '{moment}', 1)"))
    assert done.deleted_data_files_count == 1
    assert done.deleted_manifest_lists_count == 4
    assert len(snapshots(events)) == 1
    assert ids(events) == [2, 3, 4]


def test_compaction_puts_files_together(events: Sql) -> None:
    done = one(events("CALL system.rewrite_data_files(table => 'ns.t', options => map('min-input-files', '2'))"))
    assert (done.rewritten_data_files_count, done.added_data_files_count) == (4, 1)
    assert one(events("SELECT count(*) FROM ns.t.files"))[0] == 1
    assert ids(events) == [1, 2, 3, 4]


def test_manifests_are_put_together(events: Sql) -> None:
    done = one(events("CALL system.rewrite_manifests('ns.t')"))
    assert (done.rewritten_manifests_count, done.added_manifests_count) == (4, 1)
    assert ids(events) == [1, 2, 3, 4]


def test_orphans_are_removed_and_nothing_else(events: Sql, catalog: Catalog, namespace: str) -> None:
    folder = Path(urlparse(catalog.load_table((namespace, "t")).location()).path)
    stored = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    orphan, young = folder / "data" / "orphan.parquet", folder / "data" / "young.parquet"
    for path in (orphan, young):
        path.write_bytes(b"lost")
    four_days_ago = time.time() - FOUR_DAYS
    os.utime(orphan, (four_days_ago, four_days_ago))
    removed = [row[0] for row in events("CALL system.remove_orphan_files(table => 'ns.t')")]
    assert [Path(urlparse(location).path) for location in removed] == [orphan]
    assert not orphan.exists()
    assert young.exists()
    assert all(path.exists() for path in stored)
    assert ids(events) == [1, 2, 3, 4]


def test_a_dropped_table_is_registered_again(events: Sql, catalog: Catalog, namespace: str) -> None:
    location = catalog.load_table((namespace, "t")).metadata_location
    events("DROP TABLE ns.t")
    done = one(events(f"CALL system.register_table('ns.again', '{location}')"))
    assert done.total_records_count == 4
    assert ids(events, "ns.again") == [1, 2, 3, 4]


def test_a_table_is_added_to_from_files(events: Sql, tmp_path: Path, live_spark: SparkSession) -> None:
    live_spark.sql("SELECT 7 AS id, 'added' AS kind").write.parquet(str(tmp_path / "plain"))
    done = one(events(f"CALL system.add_files('ns.t', '`parquet`.`{tmp_path}/plain`')"))
    assert done.added_files_count == 1
    assert ids(events) == [1, 2, 3, 4, 7]


def test_statistics_are_computed_and_kept(events: Sql, catalog: Catalog, namespace: str) -> None:
    events("CALL system.compute_table_stats('ns.t')")
    (statistics,) = catalog.load_table((namespace, "t")).metadata.statistics
    found: dict[tuple[int, ...], Any] = {
        tuple(blob.fields): blob.properties["ndv"] for blob in statistics.blob_metadata
    }
    assert found == {(1,): "4", (2,): "2"}
