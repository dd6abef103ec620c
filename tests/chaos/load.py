"""Clients that create, change, drop and restore tables, and an operator who controls tasks, with what they know for
certain afterwards.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import requests

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}

MAX_TABLES = 6
"""Tables that a client has at one time."""

MAX_CONTROLLED = 100
"""Tasks of one call."""

TIMEOUT = 20.0

MAX_PAUSE = 0.1
"""Seconds between two requests of a client, which leave the servers and workers time for their own work."""


class Result(Enum):
    """`UNKNOWN`: the response was lost or says so; the request was executed completely or not at all."""

    DONE = "done"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Write:
    """A request that changes something, with its `x-request-id`, and the numbers of objects that it may change."""

    request_id: str
    what: str
    result: Result
    status: int
    changes: Collection[int]


@dataclass(slots=True)
class Table:
    """A table as its client knows it. `is_certain` is False after a lost response: then it is not used any more."""

    warehouse_id: str
    namespace: str
    name: str
    uuid: str = ""
    location: str = ""
    number: int = 0
    is_alive: bool = True
    is_certain: bool = True
    files: list[str] = field(default_factory=list)
    """Keys of files that the client has written below the location."""


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse on the bucket `bucket`; `is_soft`: dropped tables can be restored for a short time."""

    id: str
    bucket: str
    is_soft: bool


class Sender(ABC):
    """Sends requests to any of the servers, and records those that change something."""

    def __init__(self, servers: list[str], name: str, seed: int) -> None:
        self.servers = servers
        self.random = random.Random(f"{seed} {name}")
        self.writes: list[Write] = []
        self.counts: Counter[str] = Counter()

    def run(self, until: float) -> None:
        """Work until `until` on the monotonic clock."""
        while time.monotonic() < until:
            try:
                self._step()
            except requests.RequestException:
                time.sleep(0.2)

    @abstractmethod
    def _step(self) -> None:
        """Send the next requests."""

    def _write(
        self,
        what: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        method: str = "POST",
        changes: Collection[int] = (1,),
    ) -> tuple[Result, int, Any]:
        """Send a request once; raise `ConnectionError` when it was certainly not sent."""
        request_id, server = str(uuid4()), self.random.choice(self.servers)
        status, content = 0, None
        try:
            response = requests.request(
                method, server + path, json=body, headers={"x-request-id": request_id}, timeout=TIMEOUT
            )
            status = response.status_code
            content = response.json() if response.content else None
        except requests.ConnectionError as error:
            if "NewConnectionError" in repr(error):
                raise
        except (requests.RequestException, ValueError):
            status = 0
        result = _result_of(status)
        self.counts[f"{what}: {result.value}"] += 1
        self.writes.append(Write(request_id, what, result, status, changes))
        return result, status, content

    def _tasks(self, warehouse: Warehouse, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the newest tasks of the warehouse, none if the server is interrupted."""
        path = f"/management/v1/warehouse/{warehouse.id}/task/list"
        response = requests.post(self.random.choice(self.servers) + path, json=filters, timeout=TIMEOUT)
        if response.status_code >= 500:
            return []
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["tasks"]
        return found

    def _control(self, action: str, warehouse: Warehouse, task_ids: Sequence[str], *, changes: Collection[int]) -> None:
        body = {"task-ids": list(task_ids), "action": {"action-type": action}}
        path = f"/management/v1/warehouse/{warehouse.id}/task/control"
        self._write(f"{action} tasks", path, body, changes=changes)


class Client(Sender):
    """One sequential client with a namespace of its own in each warehouse. No other client changes its tables."""

    def __init__(self, number: int, servers: list[str], warehouses: list[Warehouse], store: Any, seed: int) -> None:
        super().__init__(servers, f"client {number}", seed)
        self.warehouses, self.store = warehouses, store
        self.namespace = f"client_{number}"
        self.tables: list[Table] = []
        self.dropped: list[Table] = []
        self._named = 0
        self._created: set[str] = set()

    def _step(self) -> None:
        time.sleep(self.random.uniform(0, MAX_PAUSE))
        warehouse = self.random.choice(self.warehouses)
        if warehouse.id not in self._created:
            self._create_namespace(warehouse)
            return
        own = [table for table in self.tables if table.warehouse_id == warehouse.id]
        if not own or (len(own) < MAX_TABLES and self.random.random() < 0.25):
            self._create(warehouse)
        elif self.random.random() < 0.25:
            self._drop(warehouse, self.random.choice(own))
        elif len(own) > 1 and self.random.random() < 0.2:
            self._commit_two(self.random.sample(own, 2))
        else:
            self._commit(self.random.choice(own))

    def _create_namespace(self, warehouse: Warehouse) -> None:
        result = self._write(
            "create namespace", f"/catalog/v1/{warehouse.id}/namespaces", {"namespace": [self.namespace]}
        )
        if result[0] is Result.DONE or result[1] == 409:
            self._created.add(warehouse.id)

    def _create(self, warehouse: Warehouse) -> None:
        self._named += 1
        table = Table(warehouse.id, self.namespace, f"t{self._named}")
        body = {"name": table.name, "schema": SCHEMA, "properties": {"number": "0"}}
        result, _, response = self._write("create table", self._tables(table), body)
        if result is Result.REJECTED:
            return
        self.tables.append(table)
        if result is Result.UNKNOWN:
            self._give_up(table)
            return
        metadata = response["metadata"]
        table.uuid, table.location = metadata["table-uuid"], metadata["location"]
        for number in range(self.random.randrange(4)):
            self._put(warehouse.bucket, table, f"data/{number:05}.parquet")

    def _put(self, bucket: str, table: Table, name: str) -> None:
        key = f"{urlsplit(table.location).path.lstrip('/')}/{name}"
        try:
            self.store.put_object(Bucket=bucket, Key=key, Body=b"x" * 100)
        except Exception:  # noqa: BLE001 - the store is down: the file may be there or not
            return
        table.files.append(key)

    def _commit(self, table: Table) -> None:
        result, _, _ = self._write("commit", f"{self._tables(table)}/{table.name}", self._next_number(table))
        if result is Result.UNKNOWN:
            self._give_up(table)
        elif result is Result.DONE:
            table.number += 1

    def _commit_two(self, tables: list[Table]) -> None:
        changes = [
            {"identifier": {"namespace": [table.namespace], "name": table.name}} | self._next_number(table)
            for table in tables
        ]
        path = f"/catalog/v1/{tables[0].warehouse_id}/transactions/commit"
        result, _, _ = self._write("transaction", path, {"table-changes": changes}, changes=(2,))
        for table in tables:
            if result is Result.UNKNOWN:
                self._give_up(table)
            elif result is Result.DONE:
                table.number += 1

    @staticmethod
    def _next_number(table: Table) -> dict[str, Any]:
        return {
            "requirements": [{"type": "assert-table-uuid", "uuid": table.uuid}],
            "updates": [{"action": "set-properties", "updates": {"number": str(table.number + 1)}}],
        }

    def _drop(self, warehouse: Warehouse, table: Table) -> None:
        path = f"{self._tables(table)}/{table.name}?purgeRequested=true"
        result, status, _ = self._write("drop", path, method="DELETE")
        if result is Result.UNKNOWN:
            self._give_up(table)
        elif result is Result.DONE:
            table.is_alive = False
            self._remove(table)
            if warehouse.is_soft and self.random.random() < 0.4:
                self._undrop(warehouse, table)
            elif warehouse.is_soft and self.random.random() < 0.2:
                self._cancel_expiration(warehouse, table)
        elif status == 404:
            raise AssertionError(f"table {table} was acknowledged and does not exist")

    def _undrop(self, warehouse: Warehouse, table: Table) -> None:
        path = f"/management/v1/warehouse/{warehouse.id}/deleted-tabulars/undrop"
        result, _, _ = self._write("undrop", path, {"targets": [{"type": "table", "id": table.uuid}]})
        if result is Result.UNKNOWN:
            table.is_certain = False
        elif result is Result.DONE:
            table.is_alive = True
            self.dropped.remove(table)
            self.tables.append(table)

    def _cancel_expiration(self, warehouse: Warehouse, table: Table) -> None:
        """Restore a table by ending its task; this does nothing if the table has expired."""
        table.is_certain = False
        entity = {"type": "table", "table-id": table.uuid}
        for task in self._tasks(warehouse, {"queue-name": ["soft_deletion"], "entities": [entity]}):
            self._control("cancel", warehouse, [task["task-id"]], changes=(0, 2))

    def _give_up(self, table: Table) -> None:
        table.is_certain = False
        self._remove(table)

    def _remove(self, table: Table) -> None:
        self.tables.remove(table)
        self.dropped.append(table)

    @staticmethod
    def _tables(table: Table) -> str:
        return f"/catalog/v1/{table.warehouse_id}/namespaces/{table.namespace}/tables"


class Operator(Sender):
    """Stops, starts and retries tasks at random, and each must still be executed once."""

    def __init__(self, servers: list[str], warehouses: list[Warehouse], seed: int) -> None:
        super().__init__(servers, "operator", seed)
        self.warehouses = warehouses

    def start_all(self) -> None:
        """Let all waiting tasks start now, whatever pause they are in."""
        for warehouse in self.warehouses:
            waiting = self._tasks(warehouse, {"status": ["SCHEDULED"], "page-size": MAX_CONTROLLED})
            self._control(
                "run-now", warehouse, [task["task-id"] for task in waiting], changes=range(MAX_CONTROLLED + 1)
            )

    def _step(self) -> None:
        time.sleep(self.random.uniform(0, 1))
        warehouse = self.random.choice(self.warehouses)
        action, statuses = self.random.choice(
            [("stop", ["RUNNING"]), ("run-now", ["SCHEDULED", "STOPPING"]), ("retry", ["FAILED", "SUCCESS"])]
        )
        found = self._tasks(warehouse, {"status": statuses, "page-size": MAX_CONTROLLED})
        some = self.random.sample(found, min(len(found), self.random.randint(1, 5)))
        if some:
            self._control(action, warehouse, [task["task-id"] for task in some], changes=range(len(some) + 1))


def _result_of(status: int) -> Result:
    if 200 <= status < 300:
        return Result.DONE
    if 400 <= status < 500 or status == 503:
        return Result.REJECTED
    return Result.UNKNOWN
