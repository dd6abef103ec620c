"""The rows of the report: what each operation sends."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from tests.perf import contents
from tests.perf.connection import request
from tests.perf.contents import Contents
from tests.perf.load import Requests

CONFLICT, UNAVAILABLE = 409, 503


@dataclass(frozen=True)
class Read:
    """One request sent again and again; `key` names its floor."""

    key: str
    title: str
    path: str
    method: str = "GET"

    @property
    def message(self) -> bytes:
        return request(self.method, self.path)

    def operations(self, _client: int) -> Requests:
        return itertools.repeat([self.message])


@dataclass(frozen=True)
class Write:
    """Operations that differ each time; `clients` are the numbers of clients it is measured with."""

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
        Read("head", "HEAD table", hot, "HEAD"),
    ]


def late_read(catalog: Contents, others: int) -> Read:
    """The same load once other tables hold many snapshots: it should cost what it cost before."""
    hot = catalog.table_path(contents.HOT, contents.HOT_TABLE)
    return Read("load-late", f"loadTable, {others:,} snapshots on other tables", hot)


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

    def create_and_drop(client: int) -> Requests:
        tables = f"{catalog.prefix}/namespaces/{contents.OWN}/tables"
        for number in itertools.count():
            name = f"short_{client}_{secrets.token_hex(4)}_{number}"
            yield [_post(tables, contents.new_table(name)), request("DELETE", f"{tables}/{name}")]

    return [
        Write("property", "commit: set one property, own table", own_property),
        Write("append", "commit: append a snapshot, own table", own_append),
        Write("create-drop", "create + drop a table", create_and_drop),
        Write("contended", "set a property, ONE table, retrying", contended_property, (8,), (CONFLICT, UNAVAILABLE)),
    ]


def _set_properties(catalog: Contents, table: str, path: str) -> Requests:
    requirement = {"type": "assert-table-uuid", "uuid": catalog.load(contents.OWN, table)["table-uuid"]}
    for number in itertools.count():
        update = {"action": "set-properties", "updates": {"counter": f"{secrets.token_hex(4)}-{number}"}}
        yield [_post(path, {"requirements": [requirement], "updates": [update]})]


def _post(path: str, content: object) -> bytes:
    return request("POST", path, json.dumps(content).encode())
