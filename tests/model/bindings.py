"""Verifies from the journals alone which names are taken: the last one put exists, the last one removed does not.
Concurrent requests may have been executed in any order, the others in the order in which they were sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.model.contents import Contents
from tests.model.journal import Fault, Journal, Record, Result
from tests.model.names import STABLE, fold

PUTS = {"create table", "finish table", "create view", "register table", "register view"}
TAKES = {"drop table", "drop view", "unregister table"}
RENAMES = {"rename table", "rename view"}
Binding = tuple[str, str]
"""`namespace` or `tabular`, and the folded name."""


def check_bindings(contents: Contents, journal: Journal) -> None:
    """Raise `Fault` for a name that is taken or free in contradiction to acknowledged requests."""
    taken: set[Binding] = {("tabular", fold(row.levels, row.name)) for row in contents.tabulars}
    taken |= {("namespace", fold(levels)) for levels, _, __ in contents.namespaces.values()}
    puts, takes = defaultdict(list), defaultdict(list)
    for record in journal.records:
        if record.result is not Result.REFUSED:
            for binding in _put(record):
                puts[binding].append(record)
            for binding in _taken(record):
                takes[binding].append(record)
    for binding in puts.keys() | takes.keys() | taken:
        problem = _problem(binding in taken, puts[binding], takes[binding])
        if problem and binding[1] not in {fold(levels) for levels in STABLE}:
            raise Fault(f"{binding[0]} {binding[1]} {problem}", binding[1])
    _stable_namespaces_keep_properties(contents, journal)


def _problem(is_taken: bool, puts: list[Record], takes: list[Record]) -> str | None:
    last_taken = max((record.sent for record in takes if record.result is Result.DONE), default=0.0)
    if is_taken:
        is_explained = any(record.responded > last_taken for record in puts)
        return None if is_explained else "exists, although it was deleted after all writes to it"
    last_put = max((record.sent for record in puts if record.result is Result.DONE), default=0.0)
    is_explained = not last_put or any(record.responded > last_put for record in takes)
    return None if is_explained else "does not exist, although no request deleted it after it was written"


def _put(record: Record) -> Iterator[Binding]:
    if record.what in PUTS:
        yield "tabular", record.about[0].casefold()
    elif record.what in RENAMES:
        yield "tabular", record.about[-1].casefold()
    elif record.what == "create namespace":
        yield "namespace", record.about[0].casefold()


def _taken(record: Record) -> Iterator[Binding]:
    if record.what in TAKES or (record.what in RENAMES and record.about[0] != record.about[-1]):
        yield "tabular", record.about[0].casefold()
    elif record.what == "drop namespace":
        yield "namespace", record.about[0].casefold()


def _stable_namespaces_keep_properties(contents: Contents, journal: Journal) -> None:
    """Each property that all processes set has the value that was set last; a value is the token of its request."""
    said: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in journal.records:
        if record.what == "describe namespace" and record.result is not Result.REFUSED:
            for key in record.content["updates"]:
                said[record.about[0].casefold(), key].append(record)
    stable = {fold(levels) for levels in STABLE}
    for levels, _, properties in contents.namespaces.values():
        for (name, key), records in said.items():
            if name == fold(levels) and name in stable and key.startswith("shared-"):
                _check_value(name, key, properties.get(key), records)


def _check_value(name: str, key: str, value: str | None, records: list[Record]) -> None:
    done = [record for record in records if record.result is Result.DONE]
    setters: list[Record | None] = [record for record in records if record.op == value]
    [setter] = setters or [None]
    if setter is None and (value is not None or done):
        raise Fault(f"property {key} of {name} is {value}, which no request set", name)
    later = [record.op for record in done if setter is not None and record.sent > setter.responded]
    if later:
        raise Fault(f"property {key} of {name} is {value}, although {later} set it later", name)
