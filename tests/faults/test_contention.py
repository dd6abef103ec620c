"""Many processes commit to one table at once: what was acknowledged is there, once; what was refused left nothing."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.catalog_fixtures import SCHEMA, chosen
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.timeout(600)

PROCESSES, COMMITS_EACH = 16, 8
ATTEMPTS = 200


def commit_until_done(address: str, writer: int, outcomes: Any) -> None:
    """`COMMITS_EACH` appends of one writer, each rebuilt on the newest metadata until it is acknowledged."""
    acknowledged, refused = [], 0
    with requests.Session() as session:
        for number in range(COMMITS_EACH):
            snapshot_id = (writer + 1) * 1000 + number
            for _ in range(ATTEMPTS):
                metadata = session.get(address, timeout=30).json()["metadata"]
                answer = session.post(address, json=append(metadata, snapshot_id), timeout=60)
                if answer.status_code == 200:
                    acknowledged.append((snapshot_id, answer.json()["metadata-location"]))
                    break
                assert answer.status_code in {409, 503}, answer.text
                refused += 1
                time.sleep(random.uniform(0, 0.05))
            else:
                raise AssertionError(f"writer {writer} was refused {ATTEMPTS} times")
    outcomes.put((acknowledged, refused))


def append(metadata: dict[str, Any], snapshot_id: int) -> dict[str, Any]:
    current = metadata.get("refs", {}).get("main", {}).get("snapshot-id")
    made = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if current is not None:
        made["parent-snapshot-id"] = current
    return {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": current}],
        "updates": [
            {"action": "add-snapshot", "snapshot": made},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
        ],
    }


def test_sixteen_processes_append_to_one_table(live_catalog: CatalogServer) -> None:
    api = f"{live_catalog.uri}/v1/{live_catalog.warehouse_id}/namespaces"
    requests.post(api, json={"namespace": ["contended"]}, timeout=30).raise_for_status()
    made = requests.post(f"{api}/contended/tables", json={"name": "t", "schema": SCHEMA}, timeout=30).json()
    address = f"{api}/contended/tables/t"
    context = multiprocessing.get_context("fork")
    outcomes = context.Queue()
    writers = [context.Process(target=commit_until_done, args=(address, n, outcomes)) for n in range(PROCESSES)]
    for writer in writers:
        writer.start()
    collected = [outcomes.get(timeout=500) for _ in writers]
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

    # One file a commit and the first; a refused commit left none behind.
    folder = Path(made["metadata"]["location"].removeprefix("file://")) / "metadata"
    files = {f"file://{path}" for path in folder.glob("*.metadata.json")}
    assert files == {location for _, location in acknowledged} | {made["metadata-location"]}
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


def test_of_tables_and_generic_tables_of_one_name_or_place_one_is_made(live_catalog: CatalogServer) -> None:
    tables = f"{live_catalog.uri}/v1/{live_catalog.warehouse_id}/namespaces"
    generic = tables.replace("/catalog/", "/lakekeeper/")
    made = requests.post(tables, json={"namespace": ["raced"]}, timeout=30).json()
    place = f"{made['properties']['location']}place"
    context = multiprocessing.get_context("fork")
    outcomes = context.Queue()
    start = context.Barrier(8)
    bodies = [
        body
        for name in ("same", "other")
        for body in (
            (f"{tables}/raced/tables", {"name": name, "schema": SCHEMA, "location": f"{place}-{name}"}),
            (
                f"{tables}/raced/tables",
                {"name": f"{name}-table", "schema": SCHEMA, "location": f"{place}-{name}/inner"},
            ),
            (f"{generic}/raced/generic-tables", {"name": name, "format": "lance", "base-location": f"{place}-{name}/"}),
            (f"{generic}/raced/generic-tables", {"name": name, "format": "lance", "base-location": f"{place}-{name}"}),
        )
    ]
    rivals = [context.Process(target=make_at_once, args=(start, *body, outcomes)) for body in bodies]
    for rival in rivals:
        rival.start()
    answers = [outcomes.get(timeout=120) for _ in rivals]
    for rival in rivals:
        rival.join(60)
        assert rival.exitcode == 0
    assert sorted(status for status, _ in answers) == [200] * 2 + [409] * 6, answers
    refusals = {wire_type for status, wire_type in answers if status == 409}
    assert refusals <= {"AlreadyExistsException", "GenericTableAlreadyExists", "LocationAlreadyTaken"}
    listed = requests.get(f"{tables}/raced/tables", timeout=30).json()["identifiers"]
    listed += requests.get(f"{generic}/raced/generic-tables", timeout=30).json()["identifiers"]
    assert len(listed) == 2


def make_at_once(start: Any, address: str, body: dict[str, Any], outcomes: Any) -> None:
    start.wait(60)
    answer = requests.post(address, json=body, timeout=60)
    outcomes.put((answer.status_code, None if answer.ok else answer.json()["error"]["type"]))
