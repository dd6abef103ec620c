"""Many processes commit to one table at the same time: each acknowledged commit is applied once, failed ones leave
nothing.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests.catalog_fixtures import SCHEMA, chosen
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.timeout(600)

PROCESSES, COMMITS_EACH = 16, 8
ATTEMPTS = 200


def commit_until_done(address: str, writer: int, results: Any) -> None:
    """Append `COMMITS_EACH` times, rebuilding each commit on the newest metadata until it is acknowledged."""
    acknowledged, refused = [], 0
    with requests.Session() as session:
        for number in range(COMMITS_EACH):
            snapshot_id = (writer + 1) * 1000 + number
            for _ in range(ATTEMPTS):
                metadata = session.get(address, timeout=30).json()["metadata"]
                response = session.post(address, json=append(metadata, snapshot_id), timeout=60)
                if response.status_code == 200:
                    acknowledged.append((snapshot_id, response.json()["metadata-location"]))
                    break
                assert response.status_code in {409, 503}, response.text
                refused += 1
                time.sleep(random.uniform(0, 0.05))
            else:
                raise AssertionError(f"writer {writer} was refused {ATTEMPTS} times")
    results.put((acknowledged, refused))


def append(
    metadata: dict[str, Any], snapshot_id: int, *, branch: str = "main", parent: int | None = None
) -> dict[str, Any]:
    current = parent or metadata.get("refs", {}).get(branch, {}).get("snapshot-id")
    created = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if current is not None:
        created["parent-snapshot-id"] = current
    return {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": branch, "snapshot-id": current}],
        "updates": [
            {"action": "add-snapshot", "snapshot": created},
            {"action": "set-snapshot-ref", "ref-name": branch, "type": "branch", "snapshot-id": snapshot_id},
        ],
    }


def test_sixteen_processes_append_to_one_table(live_catalog: CatalogServer) -> None:
    api = f"{live_catalog.uri}/v1/{live_catalog.warehouse_id}/namespaces"
    requests.post(api, json={"namespace": ["contended"]}, timeout=30).raise_for_status()
    created = requests.post(f"{api}/contended/tables", json={"name": "t", "schema": SCHEMA}, timeout=30).json()
    address = f"{api}/contended/tables/t"
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    writers = [context.Process(target=commit_until_done, args=(address, n, results)) for n in range(PROCESSES)]
    for writer in writers:
        writer.start()
    collected = [results.get(timeout=500) for _ in writers]
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    acknowledged = [each for one, _ in collected for each in one]

    final = requests.get(address, timeout=30).json()
    snapshots = [each["snapshot-id"] for each in final["metadata"]["snapshots"]]
    assert len(acknowledged) == PROCESSES * COMMITS_EACH
    assert sorted(snapshots) == sorted(snapshot_id for snapshot_id, _ in acknowledged), "lost or doubled"
    assert len(set(snapshots)) == len(snapshots)
    assert len({location for _, location in acknowledged}) == len(acknowledged), "two commits share a metadata file"
    assert [each["snapshot-id"] for each in final["metadata"]["snapshot-log"]] == snapshots

    # One file per commit and the initial one; a failed commit left no file.
    folder = Path(created["metadata"]["location"].removeprefix("file://")) / "metadata"
    files = {f"file://{path}" for path in folder.glob("*.metadata.json")}
    assert files == {location for _, location in acknowledged} | {created["metadata-location"]}
    assert json.loads(Path(final["metadata-location"].removeprefix("file://")).read_bytes()) == final["metadata"]


def test_concurrent_property_changes_of_a_namespace_are_all_kept(live_catalog: CatalogServer) -> None:
    api = f"{live_catalog.uri}/v1/{live_catalog.warehouse_id}/namespaces"
    requests.post(api, json={"namespace": ["merged"]}, timeout=30).raise_for_status()
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=set_properties, args=(f"{api}/merged", n)) for n in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    properties = requests.get(f"{api}/merged", timeout=30).json()["properties"]
    assert chosen(properties) == {f"w{writer}-{number}": "x" for writer in range(8) for number in range(20)}


def set_properties(address: str, writer: int) -> None:
    with requests.Session() as session:
        for number in range(20):
            body = {"updates": {f"w{writer}-{number}": "x"}}
            session.post(f"{address}/properties", json=body, timeout=60).raise_for_status()


def with_lease_board(server: CatalogServer) -> list[int]:
    """Return the process ids of the server's children that have the memory of its leases."""
    children = [child.pid for child in psutil.Process(server.pid).children(recursive=True)]
    return [pid for pid in children if any("icekeeper-leases" in name for name in names_of_open_files(pid))]


def names_of_open_files(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in the meantime
            yield str(descriptor.readlink())


WRITERS, ROUNDS = 32, 6


def test_disjoint_writers_need_no_retry(run_environment: RunEnvironment, tmp_path: Path) -> None:
    """Each writer has its own properties and branches: 32 clients over 2 server processes prepare each commit on an
    older version. No requirement fails, so every commit succeeds and none is lost.
    """
    database_url = run_environment.own_database("disjoint_writers")
    with CatalogServer(tmp_path / "server", database_url=database_url, workers=2) as server:
        server.create_warehouse("wh")
        assert len(with_lease_board(server)) >= 2, "its workers share no leases"
        api = f"{server.uri}/v1/{server.warehouse_id}/namespaces"
        requests.post(api, json={"namespace": ["n"]}, timeout=30).raise_for_status()
        requests.post(f"{api}/n/tables", json={"name": "t", "schema": SCHEMA}, timeout=30).raise_for_status()
        address = f"{api}/n/tables/t"
        begun = append(requests.get(address, timeout=30).json()["metadata"], 1)
        branches = [
            {"action": "set-snapshot-ref", "ref-name": f"b{n}", "type": "branch", "snapshot-id": 1}
            for n in range(WRITERS)
        ]
        begun["updates"] += branches
        requests.post(address, json=begun, timeout=30).raise_for_status()
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        writers = [
            context.Process(target=write_disjointly, args=(address, n, results), daemon=True) for n in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        responses = [response for _ in writers for response in results.get(timeout=300)]
        final = requests.get(address, timeout=30).json()["metadata"]
    assert [response for response in responses if response[0] != 200] == []
    assert len(responses) == WRITERS * ROUNDS
    kinds = [n % 4 for n in range(WRITERS)]
    assert {name: value for name, value in final["properties"].items() if name.startswith("w")} == {
        f"w{n}": str(ROUNDS - 1) for n in range(WRITERS) if kinds[n] == 0
    }
    for n in range(WRITERS):
        head = final["refs"][f"b{n}"]["snapshot-id"]
        assert head == (1 if kinds[n] == 0 else (n + 1) * 1000 + ROUNDS - 1), f"branch {n}"
    numbers = [snapshot["sequence-number"] for snapshot in final["snapshots"]]
    assert len(set(numbers)) == len(numbers) == 1 + ROUNDS * sum(kind != 0 for kind in kinds)
    assert final["last-sequence-number"] == max(numbers)


def write_disjointly(address: str, writer: int, results: Any) -> None:
    """Send commits that conflict with no other writer, each once: a property, or an append to an own branch."""
    responses, head = [], 1
    with requests.Session() as session:
        for number in range(ROUNDS):
            if writer % 4 == 0:
                body = {
                    "requirements": [],
                    "updates": [{"action": "set-properties", "updates": {f"w{writer}": str(number)}}],
                }
            else:
                metadata = session.get(address, timeout=60).json()["metadata"]
                snapshot_id = (writer + 1) * 1000 + number
                body = append(metadata, snapshot_id, branch=f"b{writer}", parent=head)
                head = snapshot_id
            response = session.post(address, json=body, timeout=60)
            responses.append((response.status_code, "" if response.ok else response.text))
    results.put(responses)


def test_of_tables_and_generic_tables_of_one_name_or_location_one_is_created(live_catalog: CatalogServer) -> None:
    tables = f"{live_catalog.uri}/v1/{live_catalog.warehouse_id}/namespaces"
    generic = tables.replace("/catalog/", "/lakekeeper/")
    created = requests.post(tables, json={"namespace": ["raced"]}, timeout=30).json()
    location = f"{created['properties']['location']}chosen"
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    start = context.Barrier(8)
    bodies = [
        body
        for name in ("same", "other")
        for body in (
            (f"{tables}/raced/tables", {"name": name, "schema": SCHEMA, "location": f"{location}-{name}"}),
            (
                f"{tables}/raced/tables",
                {"name": f"{name}-table", "schema": SCHEMA, "location": f"{location}-{name}/inner"},
            ),
            (
                f"{generic}/raced/generic-tables",
                {"name": name, "format": "lance", "base-location": f"{location}-{name}/"},
            ),
            (
                f"{generic}/raced/generic-tables",
                {"name": name, "format": "lance", "base-location": f"{location}-{name}"},
            ),
        )
    ]
    rivals = [context.Process(target=create_at_once, args=(start, *body, results)) for body in bodies]
    for rival in rivals:
        rival.start()
    responses = [results.get(timeout=120) for _ in rivals]
    for rival in rivals:
        rival.join(60)
        assert rival.exitcode == 0
    errors = {response for response in responses if response[0] != 200}
    assert errors <= {
        (409, "AlreadyExistsException"),
        (409, "GenericTableAlreadyExists"),
        (409, "LocationAlreadyTaken"),
        (400, "InvalidLocation"),  # the file of a concurrent commit that has no row yet
    }, responses
    assert sum(status == 200 for status, _ in responses) == 2, responses
    listed = requests.get(f"{tables}/raced/tables", timeout=30).json()["identifiers"]
    listed += requests.get(f"{generic}/raced/generic-tables", timeout=30).json()["identifiers"]
    assert len(listed) == 2


def create_at_once(start: Any, address: str, body: dict[str, Any], results: Any) -> None:
    start.wait(60)
    response = requests.post(address, json=body, timeout=60)
    results.put((response.status_code, None if response.ok else response.json()["error"]["type"]))
