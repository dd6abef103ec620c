"""Two Spark sessions in two processes that change one table at the same time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.server import CatalogServer
from tests.spark.statement_fixtures import Sql, one, rows

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 4

SECOND = """
import sys

from tasks.spark.session import spark_session
from tests.spark.session_fixtures import SPARK_SETTINGS

uri, warehouse, table, rounds = sys.argv[1:]
spark = spark_session(catalog_uri=uri, warehouse=warehouse, name="live", extra=SPARK_SETTINGS)
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(rounds)):
    spark.sql(f"INSERT INTO live.{table} VALUES ({100 + number}, 'second', 1)")
    spark.sql(f"UPDATE live.{table} SET amount = amount + 1 WHERE writer = 'second' AND id = 100")
    print(number, flush=True)
spark.stop()
"""


@pytest.fixture
def second_session(live_catalog: CatalogServer, namespace: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start another process with its own Spark, which waits for a line on standard input."""
    command = [sys.executable, "-c", SECOND, live_catalog.uri, live_catalog.warehouse, f"{namespace}.t", str(ROUNDS)]
    with subprocess.Popen(
        command,
        env={**live_catalog.environment, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_two_sessions_lose_nothing_of_each_other(sql: Sql, second_session: subprocess.Popen[str]) -> None:
    sql("""
        CREATE TABLE ns.t (id INT, writer STRING, amount INT) PARTITIONED BY (writer)
        TBLPROPERTIES ('commit.retry.num-retries' = '50', 'commit.retry.max-wait-ms' = '1000')""")
    sql("INSERT INTO ns.t VALUES (0, 'first', 0)")
    assert second_session.stdout is not None
    assert second_session.stdin is not None
    assert second_session.stdout.readline() == "ready\n"
    second_session.stdin.write("go\n")
    second_session.stdin.flush()
    for number in range(1, ROUNDS + 1):
        sql(f"""
            MERGE INTO ns.t AS t USING (SELECT {number} AS id UNION ALL SELECT 0) AS n
            ON t.writer = 'first' AND t.id = n.id
            WHEN MATCHED THEN UPDATE SET amount = t.amount + 1
            WHEN NOT MATCHED THEN INSERT (id, writer, amount) VALUES (n.id, 'first', 1)""")  # noqa: S608
    said, complained = second_session.communicate()
    assert second_session.returncode == 0, complained
    assert said.split() == [str(number) for number in range(ROUNDS)]
    assert rows(sql, "SELECT id, amount FROM ns.t WHERE writer = 'first'") == sorted(
        [(0, ROUNDS), *((number, 1) for number in range(1, ROUNDS + 1))], key=str
    )
    assert rows(sql, "SELECT id, amount FROM ns.t WHERE writer = 'second'") == sorted(
        [(100, 1 + ROUNDS), *((100 + number, 1) for number in range(1, ROUNDS))], key=str
    )
    # each statement created exactly one snapshot, however often it was retried
    assert len(sql("SELECT * FROM ns.t.snapshots")) == 1 + ROUNDS + 2 * ROUNDS
    assert one(sql("SELECT count(*) FROM ns.t.refs"))[0] == 1
