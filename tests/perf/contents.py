"""The contents of the measured catalog, created through its API: namespaces, tables and snapshots of the benchmark."""

from __future__ import annotations

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.perf.connection import Connection

NAMESPACES = [f"ns_{number:02d}" for number in range(13)]
LISTED, HOT, OWN, OTHERS = NAMESPACES[:4]
LISTED_TABLES = 100
HOT_TABLE = "hot"
HOT_SNAPSHOTS = 10
LONG_HISTORIES = (1_000, 10_000)
MANY, MANY_TABLES = "many", 10_000
CONTENDING = (2, 8, 32)
"""Numbers of writers of one table."""

MAKERS = 8
OTHER_TABLES, SNAPSHOTS_EACH = 20, 100
MAX_CLIENTS = 8
OWN_TABLES_EACH = 10
"""A client appends to several tables in turn, so that a fast server is not measured on ever longer tables."""

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": number, "name": f"column_{number}", "required": False, "type": kind}
        for number, kind in enumerate(
            ("long", "string", "double", "date", "timestamptz", "int", "boolean", "decimal(12, 2)", "uuid", "binary"), 1
        )
    ],
}


class Contents:
    """Fills one warehouse; `prefix` is the path of its tables."""

    def __init__(self, port: int, warehouse: str) -> None:
        self._port = port
        self._connection = Connection(port)
        self.config_path = f"/catalog/v1/config?warehouse={warehouse}"
        config = self._connection.call("GET", self.config_path)
        self.prefix = f"/catalog/v1/{(config['overrides'] | config['defaults'])['prefix']}"

    def table_path(self, namespace: str, table: str) -> str:
        return f"{self.prefix}/namespaces/{namespace}/tables/{table}"

    def create(self) -> None:
        """Create everything but the snapshots of the other tables."""
        for namespace in NAMESPACES:
            self._connection.call("POST", f"{self.prefix}/namespaces", {"namespace": [namespace], "properties": {}})
        for number in range(LISTED_TABLES):
            self._create_table(LISTED, f"table_{number:03d}")
        self._create_table(HOT, HOT_TABLE)
        for _ in range(HOT_SNAPSHOTS):
            self._append(HOT, HOT_TABLE, 1)
        self._create_written_tables()

    def create_written(self) -> None:
        """Create the tables that are only written."""
        self._connection.call("POST", f"{self.prefix}/namespaces", {"namespace": [OWN], "properties": {}})
        self._create_written_tables()

    def _create_written_tables(self) -> None:
        self._create_table(OWN, "contended")
        for writers in CONTENDING:
            self._create_table(OWN, contended_table(writers))
        for client in range(MAX_CLIENTS):
            for number in range(OWN_TABLES_EACH):
                self._create_table(OWN, own_table(client, number))

    def add_long_histories(self) -> None:
        for snapshots in LONG_HISTORIES:
            self._create_table(HOT, long_table(snapshots))
            for _ in range(snapshots // 1_000):
                self._append(HOT, long_table(snapshots), 1_000)

    def add_many_tables(self) -> None:
        """Create so many tables with several clients that a list needs pages."""
        self._connection.call("POST", f"{self.prefix}/namespaces", {"namespace": [MANY], "properties": {}})
        tables = f"{self.prefix}/namespaces/{MANY}/tables"

        def create(maker: int) -> None:
            connection = Connection(self._port)
            for number in range(maker, MANY_TABLES, MAKERS):
                connection.call("POST", tables, new_table(f"table_{number:05d}"))
            connection.close()

        with ThreadPoolExecutor(MAKERS) as makers:
            list(makers.map(create, range(MAKERS)))

    def etag(self, path: str) -> str:
        """Return the current ETag of `path`, for If-None-Match."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}") as response:
            return str(response.headers["ETag"])

    def add_other_snapshots(self) -> int:
        """Add snapshots to tables that are not measured; return their number."""
        for number in range(OTHER_TABLES):
            self._create_table(OTHERS, f"other_{number}")
            self._append(OTHERS, f"other_{number}", SNAPSHOTS_EACH)
        return OTHER_TABLES * SNAPSHOTS_EACH

    def load(self, namespace: str, table: str) -> dict[str, Any]:
        """Return the table's metadata, over a new connection: load processes must not share an inherited one."""
        connection = Connection(self._port)
        metadata: dict[str, Any] = connection.call("GET", self.table_path(namespace, table))["metadata"]
        connection.close()
        return metadata

    def config_of(self, namespace: str, table: str, headers: dict[str, str]) -> dict[str, str]:
        """Return the table config of a load with these headers."""
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{self.table_path(namespace, table)}", headers=headers
        )
        with urllib.request.urlopen(asked) as response:  # noqa: S310
            reported: dict[str, str] = json.load(response)["config"]
        return reported

    def _create_table(self, namespace: str, name: str) -> None:
        self._connection.call("POST", f"{self.prefix}/namespaces/{namespace}/tables", new_table(name))

    def _append(self, namespace: str, table: str, count: int) -> None:
        metadata = self.load(namespace, table)
        chain = Chain(metadata)
        updates = [update for _ in range(count) for update in chain.append()["updates"]]
        self._connection.call("POST", self.table_path(namespace, table), {"requirements": [], "updates": updates})


class Chain:
    """The commits that append one snapshot after another to a table with no other writer."""

    def __init__(self, metadata: dict[str, Any], *, snapshot_id: int | None = None) -> None:
        self._first_id = snapshot_id
        self._uuid = metadata["table-uuid"]
        self._location = metadata["location"]
        self._sequence = metadata["last-sequence-number"]
        self._parent = metadata.get("refs", {}).get("main", {}).get("snapshot-id")

    def append(self) -> dict[str, Any]:
        """Return the body of the next commit."""
        self._sequence += 1
        snapshot_id = self._first_id or 4_000_000_000_000_000_000 + self._sequence
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": self._sequence,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": f"{self._location}/metadata/snap-{snapshot_id}-1-0f6c2b1e-4000-8000-00000000abcd.avro",
            "summary": {
                "operation": "append", "spark.app.id": "local-1700000000000", "added-data-files": "4",
                "added-records": "84194", "added-files-size": "2291714", "changed-partition-count": "1",
                "total-records": str(84194 * self._sequence), "total-files-size": str(2291714 * self._sequence),
                "total-data-files": str(4 * self._sequence), "total-delete-files": "0",
            },
            "schema-id": 0,
        }  # fmt: skip
        reference = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": self._parent}
        if self._parent is not None:
            snapshot["parent-snapshot-id"] = self._parent
        self._parent = snapshot_id
        return {
            "requirements": [{"type": "assert-table-uuid", "uuid": self._uuid}, reference],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
            ],
        }


def new_table(name: str) -> dict[str, Any]:
    return {"name": name, "schema": SCHEMA, "properties": {"owner": "bench", "write.parquet.compression-codec": "zstd"}}


def long_table(snapshots: int) -> str:
    return f"long_{snapshots}"


def contended_table(writers: int) -> str:
    """Create one table for each number of writers, each without history."""
    return f"appended_{writers}"


def own_table(client: int, number: int) -> str:
    return f"own_{client}_{number}"
