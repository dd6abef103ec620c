"""The rows of the report: the requests of each operation."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.perf import contents
from tests.perf.connection import Connection, request
from tests.perf.contents import Contents
from tests.perf.load import Requests

CONFLICT, UNAVAILABLE = 409, 503
MAX_TRIES = 500


@dataclass(frozen=True)
class Read:
    """One request that is repeated; `key` names its floor."""

    key: str
    title: str
    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def message(self) -> bytes:
        return request(self.method, self.path, **self.headers)

    def operations(self, _client: int) -> Requests:
        return itertools.repeat([self.message])


@dataclass(frozen=True)
class Write:
    """Operations that differ each time; `clients` are the numbers of clients that it is measured with."""

    key: str
    title: str
    operations: Callable[[int], Requests]
    clients: tuple[int, ...] = (1, 8)
    retried: tuple[int, ...] = ()


def reads(catalog: Contents) -> list[Read]:
    hot = catalog.table_path(contents.HOT, contents.HOT_TABLE)
    tables = f"{catalog.prefix}/namespaces/{contents.LISTED}/tables"
    return [
        Read("config", "config", catalog.config_path),
        Read("namespaces", f"list {len(contents.NAMESPACES)} namespaces", f"{catalog.prefix}/namespaces"),
        Read("tables", f"list {contents.LISTED_TABLES} tables", tables),
        Read("load", f"loadTable, 10 columns, {contents.HOT_SNAPSHOTS} snapshots", hot),
        Read("304", "the same, response 304", hot, headers={"If_None_Match": catalog.etag(hot)}),
        Read("head", "HEAD table", hot, "HEAD"),
    ]


def long_reads(catalog: Contents) -> list[Read]:
    """Tables with long histories, whole and with the referenced snapshots only."""
    found = []
    for snapshots in contents.LONG_HISTORIES:
        path = catalog.table_path(contents.HOT, contents.long_table(snapshots))
        found.append(Read(f"load-{snapshots}", f"loadTable, {snapshots:,} snapshots", path))
        found.append(Read(f"refs-{snapshots}", "the same, snapshots=refs", f"{path}?snapshots=refs"))
    return found


def late_reads(catalog: Contents) -> list[Read]:
    """Reads that should cost the same after other tables got many snapshots and many tables exist."""
    hot = catalog.table_path(contents.HOT, contents.HOT_TABLE)
    tables = f"{catalog.prefix}/namespaces/{contents.LISTED}/tables"
    many = f"{catalog.prefix}/namespaces/{contents.MANY}/tables?pageToken=&pageSize=1000"
    return [
        Read("load-late", "loadTable in the loaded catalog", hot),
        Read("head-late", "HEAD table in the loaded catalog", hot, "HEAD"),
        Read("tables-late", f"list {contents.LISTED_TABLES} tables in it", tables),
        Read("page", f"a page of 1,000 of {contents.MANY_TABLES:,} tables", many),
    ]


def writes(catalog: Contents) -> list[Write]:
    def own_property(client: int) -> Requests:
        path = catalog.table_path(contents.OWN, contents.own_table(client, 0))
        return _set_properties(catalog, contents.own_table(client, 0), path)

    def contended_property(_client: int) -> Requests:
        return _set_properties(catalog, "contended", catalog.table_path(contents.OWN, "contended"))

    def own_append(client: int) -> Requests:
        names = [contents.own_table(client, number) for number in range(contents.OWN_TABLES_EACH)]
        chains = [(name, contents.Chain(catalog.load(contents.OWN, name))) for name in names]
        for name, chain in itertools.cycle(chains):
            yield [_post(catalog.table_path(contents.OWN, name), chain.append())]

    def contended_append(writers: int) -> Callable[[int], Requests]:
        appender = _Appender(catalog.table_path(contents.OWN, contents.contended_table(writers)))
        return lambda _client: itertools.repeat(appender)

    def create_and_drop(client: int) -> Requests:
        tables = f"{catalog.prefix}/namespaces/{contents.OWN}/tables"
        for number in itertools.count():
            name = f"short_{client}_{secrets.token_hex(4)}_{number}"
            yield [_post(tables, contents.new_table(name)), request("DELETE", f"{tables}/{name}")]

    def transaction(client: int) -> Requests:
        names = [contents.own_table(client, number) for number in range(contents.OWN_TABLES_EACH)]
        for number in itertools.count():
            update = {"action": "set-properties", "updates": {"counter": f"{secrets.token_hex(4)}-{number}"}}
            changes = [
                {"identifier": {"namespace": [contents.OWN], "name": name}, "requirements": [], "updates": [update]}
                for name in names
            ]
            yield [_post(f"{catalog.prefix}/transactions/commit", {"table-changes": changes})]

    retried = (CONFLICT, UNAVAILABLE)
    return [
        Write("property", "commit: set one property, own table", own_property),
        Write("append", "commit: append a snapshot, own table", own_append),
        Write("create-drop", "create + drop a table", create_and_drop),
        Write("transaction", f"transaction over {contents.OWN_TABLES_EACH} tables", transaction),
        Write("contended", "set a property, ONE table, no retries", contended_property, contents.CONTENDING),
        Write("contended-retry", "the same, clients retry", contended_property, (8,), retried),
        *(
            Write("contended-append", "append, ONE table, clients retry", contended_append(writers), (writers,))
            for writers in contents.CONTENDING
        ),
    ]


class _Appender:
    """A client that appends to a table with other writers: after a conflict it reloads and rebuilds its commit."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, connection: Connection) -> int:
        for again in range(MAX_TRIES):
            metadata = connection.call("GET", self._path)["metadata"]
            body = contents.Chain(metadata, snapshot_id=secrets.randbits(62)).append()
            status, _ = connection.send(_post(self._path, body))
            if status // 100 == 2:
                return again
            if status not in {CONFLICT, UNAVAILABLE}:
                raise ConnectionError(f"append returned {status}")
        raise ConnectionError("an append was refused every time")


def _set_properties(catalog: Contents, table: str, path: str) -> Requests:
    requirement = {"type": "assert-table-uuid", "uuid": catalog.load(contents.OWN, table)["table-uuid"]}
    for number in itertools.count():
        update = {"action": "set-properties", "updates": {"counter": f"{secrets.token_hex(4)}-{number}"}}
        yield [_post(path, {"requirements": [requirement], "updates": [update]})]


def _post(path: str, content: object) -> bytes:
    return request("POST", path, json.dumps(content).encode())
