"""What must be true when all faults are over and no work is pending: nothing is lost, duplicated or stuck."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import psycopg
import requests

from tests.chaos.cluster import Cluster
from tests.chaos.load import Client, Operator, Result, Sender, Table

MAX_DRAIN_SECONDS = 180
"""A killed worker keeps its lease for one minute."""

MAX_TRIES = 5


def wait_until_drained(cluster: Cluster) -> str | None:
    """Wait until no task is left; return the tasks that are left when none has ended for `MAX_DRAIN_SECONDS`."""
    number, until = 0, 0.0
    while True:
        left = _rows(
            cluster,
            "SELECT queue, status, attempt, message, scheduled_for, entity_name::text FROM tasks_task"
            " WHERE finished_at IS NULL AND queue IN ('soft_deletion', 'tabular_purge')",
        )
        if not left:
            return None
        if len(left) != number:
            number, until = len(left), time.monotonic() + MAX_DRAIN_SECONDS
        if time.monotonic() > until:
            return f"{len(left)} tasks are stuck: {left[:5]}"
        time.sleep(1)


def wait_until_delivered(cluster: Cluster) -> str | None:
    """Wait until each sink has all events; return those that have not when nothing changes for `MAX_DRAIN_SECONDS`."""
    cluster.receivers.calm()
    seen: list[tuple[Any, ...]] = []
    until = 0.0
    while True:
        left = _rows(
            cluster,
            "SELECT name, position, failures, last_error FROM events_eventsink"
            " WHERE position < (SELECT max(position) FROM tenancy_outboxevent) ORDER BY name",
        )
        names = {name for (name,) in _rows(cluster, "SELECT name FROM events_eventsink")}
        if not left and names == set(cluster.receivers.names):
            return None
        if left != seen:
            seen, until = left, time.monotonic() + MAX_DRAIN_SECONDS
        if time.monotonic() > until:
            return f"events are not delivered: {left}, sinks: {sorted(names)}"
        time.sleep(0.5)


def problems(cluster: Cluster, clients: Sequence[Client], operator: Operator) -> Iterator[str]:
    """Yield each violation in words."""
    yield from _changes(cluster, [*clients, operator])
    yield from _sequences(cluster)
    yield from _tables(cluster, clients)
    yield from _tasks(cluster)
    yield from _deliveries(cluster)


def _deliveries(cluster: Cluster) -> Iterator[str]:
    """Each event was delivered to each sink, in the order of its object, and no other one; repetitions are allowed."""
    published = {
        str(event): (key, number)
        for event, key, number in _rows(cluster, "SELECT event_id, object_key, sequence FROM tenancy_outboxevent")
    }
    for name, received in cluster.receivers.received().items():
        first_times = list(dict.fromkeys(received))
        ids = {each.id for each in first_times}
        if len(ids) != len(first_times):
            yield f"{name} received an id with different contents"
        missing = sorted(set(published) - ids)
        if missing:
            yield f"{len(missing)} events did not reach {name}: {[published[each] for each in missing[:5]]}"
        for each in first_times:
            if published.get(each.id) != (each.object_key, each.sequence):
                yield f"{name} received {each}, which is no event"
        last: dict[str, int] = defaultdict(int)
        for each in first_times:
            if each.sequence != last[each.object_key] + 1:
                yield f"{name} received {each} after number {last[each.object_key]}"
            last[each.object_key] = each.sequence


def _changes(cluster: Cluster, senders: Sequence[Sender]) -> Iterator[str]:
    """An acknowledged change has its audit records and its events once, a rejected one none."""
    audited = dict(
        _rows(
            cluster,
            "SELECT request_id::text, sum(count)::int FROM tenancy_auditrecord"
            " WHERE request_id IS NOT NULL AND outcome = 'allowed' GROUP BY 1",
        )
    )
    published = dict(
        _rows(cluster, "SELECT request_id, count(*)::int FROM tenancy_outboxevent WHERE request_id <> '' GROUP BY 1")
    )
    for sender in senders:
        for write in sender.writes:
            expected = {
                Result.DONE: write.changes,
                Result.REJECTED: {0},
                Result.UNKNOWN: {0, *write.changes},
            }[write.result]
            for what, found in (("audit records", audited), ("events", published)):
                count = found.get(write.request_id, 0)
                if count not in expected:
                    yield f"{write.what} was {write.result.value} ({write.status}) and has {count} {what}: {write}"
            if audited.get(write.request_id, 0) != published.get(write.request_id, 0):
                yield f"{write} has another number of audit records than of events"


def _sequences(cluster: Cluster) -> Iterator[str]:
    """The events of an object are numbered from 1 without gaps, in the order of their times."""
    events: dict[str, list[tuple[int, Any, str]]] = defaultdict(list)
    for key, number, at, kind in _rows(
        cluster, "SELECT object_key, sequence, at, type FROM tenancy_outboxevent ORDER BY object_key, sequence"
    ):
        events[key].append((number, at, kind))
    for key, found in events.items():
        if [number for number, _, _ in found] != list(range(1, len(found) + 1)):
            yield f"the events of {key} are numbered {[number for number, _, _ in found]}"
        kinds = [kind for _, _, kind in found]
        if key.startswith("table:"):
            if kinds[0] != "createTable" or kinds.count("createTable") != 1:
                yield f"the events of {key} are {kinds}"
            if kinds.count("expireTable") > 1:
                yield f"{key} expired more than once: {kinds}"


def _tables(cluster: Cluster, clients: Sequence[Client]) -> Iterator[str]:
    """Living tables have their number and their files; of dropped ones nothing is left."""
    buckets = {warehouse.id: warehouse.bucket for warehouse in cluster.warehouses}
    keys = {bucket: set(cluster.minio.keys(bucket)) for bucket in buckets.values()}
    for client in clients:
        for table in [*client.tables, *client.dropped]:
            yield from _table(cluster, table, keys[buckets[table.warehouse_id]])


def _table(cluster: Cluster, table: Table, keys: set[str]) -> Iterator[str]:
    path = f"/catalog/v1/{table.warehouse_id}/namespaces/{table.namespace}/tables/{table.name}"
    response = _get(cluster.servers[0].base_url + path)
    if response.status_code not in {200, 404}:
        yield f"{table.name} cannot be loaded: {response.status_code} {response.text[:300]}"
        return
    is_there = response.status_code == 200
    if table.is_certain and is_there != table.is_alive:
        yield f"{table} is {'there' if is_there else 'not there'}"
    if is_there:
        found = response.json()
        number = int(found["metadata"]["properties"]["number"])
        if number != table.number and (table.is_certain or number != table.number + 1):
            yield f"{table} has number {number}"
        wanted = [urlsplit(found["metadata-location"]).path.lstrip("/"), *table.files]
        missing = [key for key in wanted if key not in keys]
        if missing:
            yield f"files of the living table {table} are missing: {missing}"
    elif table.location and not (table.is_certain and table.is_alive):
        folder = f"{urlsplit(table.location).path.lstrip('/')}/"
        left = [key for key in keys if key.startswith(folder)]
        if left:
            yield f"files of the dropped table {table} are left: {left[:5]}"


def _get(address: str) -> requests.Response:
    """Send a request, again as clients do while the status is 503: connections from before a fault end with it."""
    for _ in range(MAX_TRIES - 1):
        response = requests.get(address, timeout=20)
        if response.status_code != 503:
            return response
        time.sleep(0.2)
    return requests.get(address, timeout=20)


def _tasks(cluster: Cluster) -> Iterator[str]:
    """Each task ended, and successfully once; no purge has a reserved location left."""
    for queue, message, count in _rows(
        cluster, "SELECT queue, message, count(*) FROM tasks_task WHERE status = 'failed' GROUP BY 1, 2"
    ):
        yield f"{count} tasks of {queue} failed: {message}"
    for task, count in _rows(
        cluster,
        "SELECT task_id, count(*) FROM tasks_taskattempt WHERE status = 'success' GROUP BY 1 HAVING count(*) > 1",
    ):
        yield f"task {task} was completed {count} times"
    for (location,) in _rows(cluster, "SELECT location FROM catalog_locationclaim WHERE task_id IS NOT NULL"):
        yield f"{location} is still reserved by a purge"


def summary(cluster: Cluster, clients: Sequence[Client], operator: Operator) -> str:
    """Return what was done and what was compared."""
    senders = [*clients, operator]
    writes = [write for sender in senders for write in sender.writes]
    [(events, objects)] = _rows(cluster, "SELECT count(*), count(DISTINCT object_key) FROM tenancy_outboxevent")
    tasks = _rows(cluster, "SELECT queue, status, count(*), sum(attempt) FROM tasks_task GROUP BY 1, 2 ORDER BY 1, 2")
    tables = sum(len(client.tables) + len(client.dropped) for client in clients)
    counts: dict[str, int] = defaultdict(int)
    for sender in senders:
        for name, count in sender.counts.items():
            counts[name] += count
    return "\n".join(
        [
            f"faults: {dict(sorted(cluster.counts.items()))}",
            f"requests: {len(writes)}: {dict(sorted(counts.items()))}",
            f"compared: {len(writes)} requests with their audit records and events, {tables} tables with their files",
            f"compared: the order of {events} events of {objects} objects",
            f"received by sinks: { {name: len(each) for name, each in cluster.receivers.received().items()} }",
            f"tasks (queue, status, number, attempts): {[(q, s, n, int(a)) for q, s, n, a in tasks]}",
        ]
    )


def _rows(cluster: Cluster, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(cluster.postgres.url) as connection:
        return connection.execute(statement).fetchall()
