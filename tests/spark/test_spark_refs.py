"""Branches and tags in Spark: create, change, write, read and publish."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import Catalog
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.spark.statement_fixtures import Sql, ids, one, rows, setting, snapshots

DAY = 24 * 3600 * 1000


@pytest.fixture
def table(sql: Sql) -> Sql:
    """A table of three snapshots, each with one more row."""
    sql("CREATE TABLE ns.t (id INT, kind STRING)")
    for number in range(1, 4):
        sql(f"INSERT INTO ns.t VALUES ({number}, 'kind {number % 2}')")
    return sql


def refs(sql: Sql) -> dict[str, Row]:
    return {row.name: row for row in sql("SELECT * FROM ns.t.refs")}


def test_tags_with_every_clause(table: Sql) -> None:
    first, second, third = snapshots(table)
    table(f"ALTER TABLE ns.t CREATE TAG `v 1.0/ü` AS OF VERSION {first} RETAIN 365 DAYS")
    table("ALTER TABLE ns.t CREATE TAG IF NOT EXISTS `v 1.0/ü` RETAIN 1 DAYS")
    assert (refs(table)["v 1.0/ü"].snapshot_id, refs(table)["v 1.0/ü"].max_reference_age_in_ms) == (first, 365 * DAY)
    assert ids(table, "ns.t VERSION AS OF 'v 1.0/ü'") == [1]
    with pytest.raises((PySparkException, Py4JJavaError), match="already exists"):
        table("ALTER TABLE ns.t CREATE TAG `v 1.0/ü`")
    table(f"ALTER TABLE ns.t REPLACE TAG `v 1.0/ü` AS OF VERSION {second}")
    assert refs(table)["v 1.0/ü"].snapshot_id == second
    table("ALTER TABLE ns.t CREATE OR REPLACE TAG eod RETAIN 7 DAYS")
    table(f"ALTER TABLE ns.t CREATE OR REPLACE TAG eod AS OF VERSION {third} RETAIN 2 HOURS")
    assert (refs(table)["eod"].snapshot_id, refs(table)["eod"].max_reference_age_in_ms) == (third, DAY // 12)
    table("ALTER TABLE ns.t DROP TAG eod")
    table("ALTER TABLE ns.t DROP TAG IF EXISTS eod")
    with pytest.raises((PySparkException, Py4JJavaError), match="eod"):
        table("ALTER TABLE ns.t DROP TAG eod")
    assert set(refs(table)) == {"main", "v 1.0/ü"}


def test_branches_with_every_clause(table: Sql) -> None:
    first, second, third = snapshots(table)
    table(f"""
        ALTER TABLE ns.t CREATE BRANCH audit AS OF VERSION {first} RETAIN 30 DAYS
        WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS""")
    table("ALTER TABLE ns.t CREATE BRANCH IF NOT EXISTS audit")
    created = refs(table)["audit"]
    assert (created.type, created.snapshot_id, created.max_reference_age_in_ms) == ("BRANCH", first, 30 * DAY)
    assert (created.min_snapshots_to_keep, created.max_snapshot_age_in_ms) == (3, 2 * DAY)
    table(f"ALTER TABLE ns.t REPLACE BRANCH audit AS OF VERSION {second} WITH SNAPSHOT RETENTION 1 DAYS")
    created = refs(table)["audit"]
    assert (created.snapshot_id, created.max_snapshot_age_in_ms) == (second, DAY)
    table("ALTER TABLE ns.t CREATE OR REPLACE BRANCH audit")
    assert refs(table)["audit"].snapshot_id == third
    table("ALTER TABLE ns.t DROP BRANCH audit")
    table("ALTER TABLE ns.t DROP BRANCH IF EXISTS audit")
    assert set(refs(table)) == {"main"}


def test_a_branch_of_a_table_without_snapshots(sql: Sql) -> None:
    sql("CREATE TABLE ns.t (id INT, kind STRING)")
    sql("ALTER TABLE ns.t CREATE BRANCH audit")
    sql("INSERT INTO ns.t.branch_audit VALUES (1, 'first')")
    assert ids(sql) == []
    assert ids(sql, "ns.t.branch_audit") == [1]


@pytest.mark.parametrize(
    "refused", ["DROP BRANCH main", "CREATE BRANCH other AS OF VERSION 1", "CREATE TAG main", "REPLACE TAG nothing"]
)
def test_a_refused_change_of_refs_changes_nothing(table: Sql, catalog: Catalog, namespace: str, refused: str) -> None:
    before = catalog.load_table((namespace, "t")).metadata_location
    with pytest.raises((PySparkException, Py4JJavaError)):
        table(f"ALTER TABLE ns.t {refused}")
    assert catalog.load_table((namespace, "t")).metadata_location == before


def test_every_kind_of_write_goes_to_a_branch(table: Sql, live_spark: SparkSession, namespace: str) -> None:
    table("ALTER TABLE ns.t CREATE BRANCH audit")
    table("INSERT INTO ns.t.branch_audit VALUES (4, 'new')")
    table("UPDATE ns.t.branch_audit SET kind = 'changed' WHERE id = 1")
    table("DELETE FROM ns.t.branch_audit WHERE id = 2")
    table("""
        MERGE INTO ns.t.branch_audit AS t USING (SELECT 3 AS id UNION SELECT 9) AS n ON t.id = n.id
        WHEN MATCHED THEN UPDATE SET kind = 'merged' WHEN NOT MATCHED THEN INSERT (id, kind) VALUES (n.id, 'merged')""")
    frame = live_spark.sql("SELECT 10 AS id, 'written' AS kind")
    frame.writeTo(f"{namespace}.t.branch_audit").append()
    assert rows(table, "SELECT * FROM ns.t VERSION AS OF 'audit'") == [
        (1, "changed"), (10, "written"), (3, "merged"), (4, "new"), (9, "merged"),
    ]  # fmt: skip
    assert ids(table) == [1, 2, 3]
    table("INSERT OVERWRITE ns.t.branch_audit VALUES (11, 'alone')")
    assert ids(table, "ns.t.branch_audit") == [11]
    table("TRUNCATE TABLE ns.t.branch_audit")
    assert ids(table, "ns.t.branch_audit") == []
    assert ids(table) == [1, 2, 3]


def test_every_way_to_read_history(table: Sql, live_spark: SparkSession, namespace: str) -> None:
    first, second, _ = snapshots(table)
    table(f"ALTER TABLE ns.t CREATE TAG start AS OF VERSION {first}")
    table(f"ALTER TABLE ns.t CREATE BRANCH two AS OF VERSION {second}")
    when = one(table(f"SELECT CAST(made_current_at AS STRING) FROM ns.t.history WHERE snapshot_id = {second}"))[0]
    for clause in (
        f"VERSION AS OF {second}", "VERSION AS OF 'two'", f"FOR SYSTEM_VERSION AS OF {second}",
        f"TIMESTAMP AS OF '{when}'", f"FOR SYSTEM_TIME AS OF '{when}'",
    ):  # fmt: skip
        assert ids(table, f"ns.t {clause}") == [1, 2], clause
    options = [("versionAsOf", first), ("versionAsOf", "two"), ("timestampAsOf", when)]
    found = [
        sorted(row.id for row in live_spark.read.option(name, value).table(f"{namespace}.t").collect())
        for name, value in options
    ]
    assert found == [[1], [1, 2], [1, 2]]
    assert one(table(f"SELECT count(*) FROM ns.t.files VERSION AS OF {first}"))[0] == 1


def test_a_branch_keeps_the_schema_of_the_table_and_a_tag_that_of_its_snapshot(table: Sql) -> None:
    table("ALTER TABLE ns.t CREATE BRANCH audit")
    table("ALTER TABLE ns.t CREATE TAG before")
    table("ALTER TABLE ns.t RENAME COLUMN kind TO sort")
    table("ALTER TABLE ns.t ADD COLUMN size INT")
    assert table("SELECT * FROM ns.t.branch_audit ORDER BY id")[0].asDict() == {"id": 1, "sort": "kind 1", "size": None}
    assert table("SELECT * FROM ns.t VERSION AS OF 'before' ORDER BY id")[0].asDict() == {"id": 1, "kind": "kind 1"}


def test_write_audit_publish_on_a_branch(table: Sql, live_spark: SparkSession) -> None:
    table("ALTER TABLE ns.t SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    with setting(live_spark, "spark.wap.branch", "staging"):
        table("INSERT INTO ns.t VALUES (4, 'staged')")
        table("DELETE FROM ns.t WHERE id = 1")
        assert ids(table) == [2, 3, 4]
    assert ids(table) == [1, 2, 3]
    moved = one(table("CALL system.fast_forward('ns.t', 'main', 'staging')"))
    assert (moved.branch_updated, moved.previous_ref) == ("main", snapshots(table)[2])
    assert ids(table) == [2, 3, 4]
    assert refs(table)["main"].snapshot_id == refs(table)["staging"].snapshot_id


def test_fast_forward_refuses_what_has_parted(table: Sql) -> None:
    table("ALTER TABLE ns.t CREATE BRANCH other")
    table("INSERT INTO ns.t.branch_other VALUES (4, 'there')")
    table("INSERT INTO ns.t VALUES (5, 'here')")
    with pytest.raises((PySparkException, Py4JJavaError), match="not an ancestor"):
        table("CALL system.fast_forward('ns.t', 'main', 'other')")
    assert ids(table) == [1, 2, 3, 5]
    assert ids(table, "ns.t.branch_other") == [1, 2, 3, 4]


def test_staged_changes_are_published_once(table: Sql, live_spark: SparkSession) -> None:
    table("ALTER TABLE ns.t SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    with setting(live_spark, "spark.wap.id", "nightly"):
        table("INSERT INTO ns.t VALUES (4, 'staged')")
    assert ids(table) == [1, 2, 3]
    assert set(refs(table)) == {"main"}
    table("INSERT INTO ns.t VALUES (5, 'in between')")
    published = one(table("CALL system.publish_changes('ns.t', 'nightly')"))
    assert published.current_snapshot_id == refs(table)["main"].snapshot_id
    assert ids(table) == [1, 2, 3, 4, 5]
    with pytest.raises((PySparkException, Py4JJavaError), match="nightly"):
        table("CALL system.publish_changes('ns.t', 'nightly')")
    assert ids(table) == [1, 2, 3, 4, 5]


def test_expiry_spares_what_branches_and_tags_name(table: Sql) -> None:
    first, second, third = snapshots(table)
    table(f"ALTER TABLE ns.t CREATE TAG start AS OF VERSION {first}")
    done = one(table("CALL system.expire_snapshots(table => 'ns.t', older_than => TIMESTAMP '2100-01-01')"))
    assert done.deleted_data_files_count == 0
    assert snapshots(table) == [first, third]
    assert ids(table, "ns.t VERSION AS OF 'start'") == [1]
    with pytest.raises((PySparkException, Py4JJavaError), match=str(second)):
        ids(table, f"ns.t VERSION AS OF {second}")
