"""Kafka Connect with Iceberg's sink: it creates the table, adds columns, and commits once per interval."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from tests.engines.engines_page_fixtures import engine_section, properties_of
from tests.parts.kafka_connect import KafkaConnect
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.part("kafka_connect")

WORKER, CONNECTOR = properties_of(engine_section("Kafka Connect"))
MESSAGES = 3_000
SECONDS = 240


def sink(server: CatalogServer, namespace: str) -> dict[str, str]:
    """Return the connector's settings of docs/engines.md, with this server's names and a commit every two seconds."""
    ours = {
        "tasks.max": "1",
        "iceberg.tables": f"{namespace}.orders",
        "iceberg.catalog.uri": server.uri,
        "iceberg.catalog.warehouse": server.warehouse,
        "iceberg.control.commit.interval-ms": "2000",
    }
    return CONNECTOR | ours


def ids_in(reader: Catalog, table: tuple[str, str]) -> list[int]:
    try:
        found: list[int] = reader.load_table(table).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
    except NoSuchTableError:
        return []
    return found


def wait_for(reader: Catalog, table: tuple[str, str], connect: KafkaConnect, number: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(ids_in(reader, table)) < number:
        assert connect.state() == "RUNNING", connect.state()
        assert time.monotonic() < deadline, connect.log_path.read_text(errors="replace")[-4000:]
        time.sleep(1)


def test_each_message_becomes_one_row(lake: CatalogServer, reader: Catalog, namespace: str, tmp_path: Path) -> None:
    table = (namespace, "orders")
    with KafkaConnect(tmp_path / "kafka", WORKER, sink(lake, namespace)) as connect:
        connect.produce("orders", [json.dumps({"id": number, "city": "Rome"}) for number in range(MESSAGES - 1000)])
        wait_for(reader, table, connect, MESSAGES - 1000)
        connect.produce(
            "orders",
            [json.dumps({"id": number, "city": "Oslo", "price": 1.5}) for number in range(MESSAGES - 1000, MESSAGES)],
        )
        wait_for(reader, table, connect, MESSAGES)
    written = reader.load_table(table)
    assert sorted(ids_in(reader, table)) == list(range(MESSAGES))
    assert {field.name for field in written.schema().fields} == {"id", "city", "price"}
    summaries = [snapshot.summary for snapshot in written.snapshots() if snapshot.summary]
    assert all(any(key.startswith("kafka.connect.offsets") for key in s.additional_properties) for s in summaries)
