"""Invariants that hold whenever no requests run: rows, files and responses agree. To add a rule, add a function to
`RULES`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import quote
from uuid import UUID

import requests

from tests.catalog_fixtures import chosen
from tests.model.contents import Contents, Row, read_file
from tests.model.journal import Fault, Journal, Result
from tests.model.names import Levels
from tests.model.quiet_requests import ask
from tests.model.state import TABLE
from tests.model.table_model import previous_files
from tests.parts.server import CatalogServer

TIMES = 4
"""How often each path is requested, to reach every worker, because each has its own cache."""


def check_contents(contents: Contents, journal: Journal) -> None:
    """Raise `Fault` for a violation."""
    if contents.deadlocks:
        raise Fault(f"the database met {contents.deadlocks} deadlocks")
    for rule in RULES:
        rule(contents)
    for row in contents.tabulars:
        for rule_of_one in RULES_OF_ONE:
            problem = rule_of_one(row, contents)
            if problem:
                raise Fault(f"{row.kind} {row}: {problem}", row, row.uuid)
    _results_are_kept(contents, journal)


def names_differ(contents: Contents) -> None:
    keys = Counter(_key(".".join((*row.levels, row.name))) for row in contents.tabulars)
    twice = [key for key, count in keys.items() if count > 1]
    spaces = Counter(_key(".".join(levels)) for levels, _, __ in contents.namespaces.values())
    twice += [key for key, count in spaces.items() if count > 1]
    if twice:
        raise Fault(f"two things have one name: {twice}", *twice)
    uuids = Counter(row.uuid for row in contents.tabulars)
    twice = [uuid for uuid, count in uuids.items() if count > 1]
    if twice:
        raise Fault(f"one table has two names: {twice}", *twice)


def locations_are_apart(contents: Contents) -> None:
    """The location of one object is not equal to, inside of or around that of another one."""
    held = [(f"{row.location}/", row.id) for row in contents.tabulars]
    held += [(f"{location}/", owner) for owner, location in contents.claims]
    around: list[tuple[str, Any]] = []
    for location, owner in sorted(held, key=lambda each: each[0]):
        around = [each for each in around if location.startswith(each[0])]
        others = [each for each in around if each[1] != owner]
        if others:
            about = [name for row in contents.tabulars if row.id in {owner, others[0][1]} for name in (row, row.uuid)]
            raise Fault(f"{location} of {owner} is not apart from {others}", *about)
        around.append((location, owner))


def securables_are_the_objects(contents: Contents) -> None:
    """Each object has its securable, below that of its parent, and there are no other securables."""
    expected = {f"namespace:{key}": parent for key, (_, parent, __) in contents.namespaces.items()}
    for row in contents.tabulars:
        expected[f"{row.kind}:{row.id}"] = row.namespace_id
    kinds = ("namespace:", "table:", "view:")
    found = {key: above for key, above in contents.securables.items() if key.startswith(kinds)}
    if found.keys() != expected.keys():
        raise Fault(f"securables without object or objects without: {sorted(found.keys() ^ expected.keys())}")
    for key, parent in expected.items():
        above, path = found[key]
        if above is None or path != f"{contents.securables[above][1]}{key}/":
            raise Fault(f"the path of securable {key} is {path}, its parent {above}")
        if above != f"namespace:{parent}" and not (parent is None and above.startswith("warehouse:")):
            raise Fault(f"securable {key} hangs below {above}, not below {parent}")


def namespaces_have_their_parents(contents: Contents) -> None:
    for levels, parent, _ in contents.namespaces.values():
        above: Levels = contents.namespaces[parent][0] if parent else ()
        if _key(".".join(above)) != _key(".".join(levels[:-1])):
            raise Fault(f"namespace {levels} has the parent {above}", ".".join(levels))


def file_is_document(row: Row, _: Contents) -> str | None:
    try:
        found = read_file(row.metadata_location)
    except FileNotFoundError:
        return f"its metadata file does not exist: {row.metadata_location}"
    if found != row.document:
        return f"the file {row.metadata_location} and the row differ"
    metadata = row.metadata
    if metadata[f"{row.kind}-uuid"] != row.uuid:
        return f"its row has the UUID {row.uuid}, its metadata {metadata[f'{row.kind}-uuid']}"
    if metadata["location"] != row.location:
        return f"its row has the location {row.location}, its metadata {metadata['location']}"
    return None


def folder_is_held(row: Row, contents: Contents) -> str | None:
    """Its metadata files are at a location that is reserved for it."""
    own = [row.location, *(location for owner, location in contents.claims if owner == row.id)]
    is_held = any(row.metadata_location.startswith(f"{location}/") for location in own)
    return None if is_held else f"its metadata file {row.metadata_location} is in none of its folders {own}"


def snapshot_rows_are_the_snapshots(row: Row, contents: Contents) -> str | None:
    expected = {
        (each["snapshot-id"], each.get("parent-snapshot-id"), each.get("sequence-number"), each.get("schema-id"),
         each["timestamp-ms"], tuple(sorted(each["summary"].items())))
        for each in row.metadata.get("snapshots") or []
    }  # fmt: skip
    found = contents.snapshots.get(row.id, set())
    return None if found == expected else f"rows of snapshots differ: {sorted(found ^ expected)}"


def metadata_log_is_in_order(row: Row, _: Contents) -> str | None:
    metadata = row.metadata
    log = metadata.get("metadata-log") or []
    times = [entry["timestamp-ms"] for entry in log] + [metadata.get("last-updated-ms", 0)]
    if row.kind == TABLE and any(later < earlier for earlier, later in pairwise(times)):
        return "its metadata log goes back in time"
    if len(log) > previous_files(metadata["properties"]):
        return f"its metadata log has {len(log)} entries"
    if len({entry["metadata-file"] for entry in log} | {row.metadata_location}) != len(log) + 1:
        return "its metadata log names a file twice"
    return None


def snapshots_named_are_there(row: Row, _: Contents) -> str | None:
    metadata = row.metadata
    log = metadata.get("snapshot-log") or []
    ids = {each["snapshot-id"] for each in metadata.get("snapshots") or []}
    current = metadata.get("current-snapshot-id")
    if current not in {None, -1} and (not log or log[-1]["snapshot-id"] != current):
        return "its snapshot log does not end with the current snapshot"
    named = {ref["snapshot-id"] for ref in (metadata.get("refs") or {}).values()}
    named |= {entry["snapshot-id"] for entry in log}
    return None if named <= ids else f"it names snapshots that do not exist: {sorted(named - ids)}"


RULES: tuple[Callable[[Contents], None], ...] = (
    names_differ, locations_are_apart, securables_are_the_objects, namespaces_have_their_parents,
)  # fmt: skip
RULES_OF_ONE: tuple[Callable[[Row, Contents], str | None], ...] = (
    file_is_document, folder_is_held, snapshot_rows_are_the_snapshots, metadata_log_is_in_order,
    snapshots_named_are_there,
)  # fmt: skip


def _results_are_kept(contents: Contents, journal: Journal) -> None:
    """Each response to a request with a key is stored under it, once."""
    for record in journal.records:
        if record.key is None or record.result is Result.UNKNOWN:
            continue
        kept = contents.results.get(UUID(record.key), [])
        expected = [200 if record.result is Result.DONE else record.status] if record.is_kept else []
        if kept != expected:
            raise Fault(f"{record.what} of {record.op} came to {expected}, and {kept} is kept", record.op)


def check_responses(server: CatalogServer, contents: Contents) -> None:
    """Every worker of the server returns the contents of the rows."""
    api = f"{server.uri}/v1/{server.warehouse_id}/namespaces"
    with requests.Session() as session:
        found = _listed_namespaces(session, api, None)
        expected = sorted(levels for levels, _, __ in contents.namespaces.values())
        if sorted(found) != expected:
            raise Fault(f"listed are the namespaces {sorted(found)}, there are {expected}")
        for key, (levels, _, properties) in contents.namespaces.items():
            address = f"{api}/{_encoded(levels)}"
            reported = ask(address, session=session).json()
            if (reported["namespace"], chosen(reported["properties"])) != (list(levels), properties):
                raise Fault(f"namespace {levels} is returned as {reported}", ".".join(levels))
            rows = [row for row in contents.tabulars if row.namespace_id == key]
            for kind in ("table", "view"):
                listed = ask(f"{address}/{kind}s", session=session).json()["identifiers"]
                names = sorted(each["name"] for each in listed)
                if names != sorted(row.name for row in rows if row.kind == kind):
                    raise Fault(f"listed in {levels} are the {kind}s {names}", ".".join(levels))
    for row in contents.tabulars:
        _is_served(api, row)


def _listed_namespaces(session: requests.Session, api: str, parent: Levels | None) -> list[Levels]:
    query = "" if parent is None else f"?parent={_encoded(parent)}"
    children = ask(api + query, session=session).json()["namespaces"]
    found = []
    for levels in children:
        found += [tuple(levels), *_listed_namespaces(session, api, tuple(levels))]
    return found


def _is_served(api: str, row: Row) -> None:
    """Assert the response on a new connection each time, which may reach another worker."""
    address = f"{api}/{_encoded(row.levels)}/{row.kind}s/{quote(row.name, safe='')}"
    for _ in range(TIMES):
        reported = ask(address)
        if reported.status_code != 200 or reported.json()["metadata-location"] != row.metadata_location:
            raise Fault(
                f"{row.kind} {row} is returned with {reported.status_code} {reported.text[:300]}", row, row.uuid
            )
        if b'"metadata":%b,' % row.document not in reported.content:
            raise Fault(f"{row.kind} {row} is not returned with the bytes of its file", row, row.uuid)


def _encoded(levels: Levels) -> str:
    return "%1F".join(quote(level, safe="") for level in levels)


def _key(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
