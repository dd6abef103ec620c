"""Flink's SQL client: batches, upserts, and a streaming job that loses responses to its commits."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from tests.engines.engines_page_fixtures import blocks_of_kind, engine_section
from tests.engines.lost_response_fixtures import LosingResponses
from tests.parts import flink
from tests.parts.recorder import Recorder
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.part("flink")

ROWS = 2_000


def catalog_statement(server: CatalogServer, uri: str) -> str:
    """Return the first statements of docs/engines.md, with this server's address and warehouse."""
    [on_page] = blocks_of_kind(engine_section("Flink"), "sql")
    ours = {"'uri' = 'http://127.0.0.1:8181/catalog'": f"'uri' = '{uri}'", "'lake'": f"'{server.warehouse}'"}
    for of_page, of_this_run in ours.items():
        assert on_page.count(of_page) == 1
        on_page = on_page.replace(of_page, of_this_run)
    return on_page


def shown(said: str) -> list[tuple[str, str]]:
    """Return the rows of a number and a word in the tables that the client printed."""
    return re.findall(r"^\| *(\d+) \| *(\w+) \|", said, re.MULTILINE)


def test_batches(lake: CatalogServer, reader: Catalog, namespace: str, tmp_path: Path) -> None:
    said = flink.run_sql(
        f"""{catalog_statement(lake, lake.uri)}
        SET 'execution.runtime-mode' = 'batch';
        USE {namespace};
        CREATE TABLE cities (id BIGINT, city STRING) PARTITIONED BY (city);
        INSERT INTO cities VALUES (1, 'Rome'), (2, 'Oslo');
        INSERT INTO cities VALUES (3, 'Lima');
        INSERT OVERWRITE cities PARTITION (city = 'Oslo') SELECT CAST(20 AS BIGINT);
        ALTER TABLE cities ADD (price DECIMAL(9, 2));
        ALTER TABLE cities SET ('owner' = 'ann');
        CREATE TABLE copied AS SELECT id, city FROM cities;
        ALTER TABLE copied RENAME TO renamed;
        CREATE TABLE dropped (id BIGINT);
        DROP TABLE dropped;
        CREATE DATABASE {namespace}_created;
        DROP DATABASE {namespace}_created;
        SELECT id, city FROM cities ORDER BY id;
        SELECT count(*) AS n FROM cities$snapshots;
        """,
        tmp_path / "flink",
    )
    assert shown(said) == [("1", "Rome"), ("3", "Lima"), ("20", "Oslo")], said
    cities = reader.load_table((namespace, "cities"))
    rows = sorted((row["id"], row["city"]) for row in cities.scan().to_arrow().to_pylist())
    assert rows == [(1, "Rome"), (3, "Lima"), (20, "Oslo")]
    assert [field.name for field in cities.schema().fields] == ["id", "city", "price"]
    assert cities.properties["owner"] == "ann"
    assert sorted(reader.list_tables(namespace)) == [(namespace, "cities"), (namespace, "renamed")]


def test_a_stream_writes_each_row_once_though_responses_are_lost(
    lake: CatalogServer, reader: Catalog, namespace: str, tmp_path: Path
) -> None:
    losing = LosingResponses()
    with Recorder(lake.port) as proxy:
        proxy.answerer = losing
        flink.run_sql(
            f"""
            CREATE TABLE numbers (id BIGINT) WITH (
                'connector' = 'datagen', 'rows-per-second' = '100',
                'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{ROWS}'
            );
            {catalog_statement(lake, f"{proxy.endpoint}catalog")}
            SET 'execution.runtime-mode' = 'streaming';
            SET 'execution.checkpointing.interval' = '1s';
            CREATE TABLE {namespace}.streamed (id BIGINT);
            INSERT INTO {namespace}.streamed SELECT id FROM default_catalog.default_database.numbers;
            """,
            tmp_path / "flink",
        )
    streamed = reader.load_table((namespace, "streamed"))
    ids = streamed.scan().to_arrow()["id"].to_pylist()
    assert sorted(ids) == list(range(1, ROWS + 1))
    summaries = [snapshot.summary.additional_properties for snapshot in streamed.snapshots() if snapshot.summary]
    checkpoints = [int(summary["flink.max-committed-checkpoint-id"]) for summary in summaries]
    assert checkpoints == sorted(set(checkpoints)), "each checkpoint was committed once, in order"
    assert len(checkpoints) >= 5
    assert losing.lost.total() >= 3, f"of {losing.commits} commits too few responses were lost: {losing.lost}"
    assert losing.unarrived >= 1
    assert None not in losing.keys, "each commit has an idempotency key"


def test_upserts(lake: CatalogServer, reader: Catalog, namespace: str, tmp_path: Path) -> None:
    said = flink.run_sql(
        f"""{catalog_statement(lake, lake.uri)}
        USE {namespace};
        SET 'execution.runtime-mode' = 'streaming';
        SET 'execution.checkpointing.interval' = '1s';
        CREATE TABLE latest (id BIGINT, city STRING, PRIMARY KEY (id) NOT ENFORCED)
            WITH ('format-version' = '2', 'write.upsert.enabled' = 'true');
        INSERT INTO latest VALUES (1, 'Rome'), (2, 'Oslo');
        INSERT INTO latest VALUES (1, 'Roma'), (3, 'Lima');
        SET 'execution.runtime-mode' = 'batch';
        SELECT id, city FROM latest ORDER BY id;
        """,
        tmp_path / "flink",
    )
    assert shown(said) == [("1", "Roma"), ("2", "Oslo"), ("3", "Lima")], said
