"""Random concurrent operations of several processes on few names: afterwards responses, metadata pointers and files
agree.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.catalog_fixtures import SCHEMA
from tests.faults.test_contention import append
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.timeout(600)

PROCESSES = 6
SECONDS = 60.0 if os.environ.get("ICEKEEPER_TEST_LONG") == "1" else 6.0
STABLE, VOLATILE = ("calm", "calmer"), ("here", "dropped")
"""Namespaces that stay, and those that come and go."""

TABLES = ("a", "b", "c")
ERRORS = {404, 409, 503}


@dataclass
class Diary:
    """The responses of one process: `statuses` by operation, `acknowledged` metadata files with the snapshot
    they add.
    """

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    surprises: list[str] = field(default_factory=list)
    acknowledged: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    registered: set[str] = field(default_factory=set)
    created: set[str] = field(default_factory=set)


class Client:
    """One process of the storm: random operations on the shared names until the deadline."""

    def __init__(self, api: str, base: str, number: int) -> None:
        self.api, self.base, self.number = api, base, number
        self.random = random.Random(number)
        self.session = requests.Session()
        self.diary = Diary()
        self.next_snapshot = number * 1_000_000
        self.seen: list[str] = []

    def run(self, until: float) -> Diary:
        acts = {
            self.create: 3, self.commit: 8, self.move: 1, self.rename: 4, self.drop: 3, self.register: 3,
            self.create_namespace: 2, self.drop_namespace: 2, self.drop_tree: 1, self.load: 2,
        }  # fmt: skip
        while time.time() < until:
            self.random.choices(list(acts), list(acts.values()))[0]()
        return self.diary

    def ask(self, what: str, method: str, path: str, body: Any = None) -> Any:
        """Return the response's JSON on success ({} if it has none), None on an error."""
        response = self.session.request(method, self.api + path, json=body, timeout=60)
        self.diary.statuses[what, response.status_code] += 1
        if response.status_code < 300:
            return response.json() if response.content else {}
        is_expected = response.status_code in ERRORS
        if what == "create" and response.status_code == 400:  # files of a table that was dropped without purge
            is_expected = response.json()["error"]["type"] == "InvalidLocation"
        if not is_expected:
            self.diary.surprises.append(f"{what}: {response.status_code} {response.text[:500]}")
        return None

    def namespace(self) -> str:
        return self.random.choice(STABLE * 2 + VOLATILE)

    def table(self) -> str:
        return f"/namespaces/{self.namespace()}/tables/{self.random.choice(TABLES)}"

    def note(self, result: Any, snapshot_id: int | None = None) -> None:
        if result is not None:
            location = result["metadata-location"]
            self.diary.acknowledged[location] = (result["metadata"]["table-uuid"], snapshot_id)
            self.seen.append(location)

    def create(self) -> None:
        namespace, _, name = self.table().removeprefix("/namespaces/").split("/")
        body: dict[str, Any] = {"name": name, "schema": SCHEMA}
        if self.random.random() < 0.3:  # the same location as others
            body["location"] = f"{self.base}/shared-{self.random.randrange(3)}"
        new = self.ask("create", "POST", f"/namespaces/{namespace}/tables", body)
        self.note(new)
        if new is not None:
            self.diary.created.add(new["metadata"]["table-uuid"])

    def commit(self) -> None:
        table = self.table()
        loaded = self.ask("load", "GET", table)
        if loaded is not None:
            self.next_snapshot += 1
            body = append(loaded["metadata"], self.next_snapshot)
            body["requirements"].append({"type": "assert-table-uuid", "uuid": loaded["metadata"]["table-uuid"]})
            self.note(self.ask("commit", "POST", table, body), self.next_snapshot)

    def move(self) -> None:
        """A commit of several statements."""
        self.next_snapshot += 1
        update = {"action": "set-location", "location": f"{self.base}/moved-{self.next_snapshot}"}
        self.note(self.ask("move", "POST", self.table(), {"requirements": [], "updates": [update]}))

    def rename(self) -> None:
        names = [{"namespace": [self.namespace()], "name": self.random.choice(TABLES)} for _ in range(2)]
        self.ask("rename", "POST", "/tables/rename", {"source": names[0], "destination": names[1]})

    def drop(self) -> None:
        purge = "?purgeRequested=true" if self.random.random() < 0.3 else ""
        self.ask("drop", "DELETE", self.table() + purge)

    def register(self) -> None:
        if self.seen:
            body = {"name": self.random.choice(TABLES), "metadata-location": self.random.choice(self.seen)}
            new = self.ask("register", "POST", f"/namespaces/{self.namespace()}/register", body)
            if new is not None:
                self.diary.registered.add(new["metadata"]["table-uuid"])

    def create_namespace(self) -> None:
        self.ask("create namespace", "POST", "/namespaces", {"namespace": [self.random.choice(VOLATILE)]})

    def drop_namespace(self) -> None:
        self.ask("drop namespace", "DELETE", f"/namespaces/{self.random.choice(VOLATILE)}")

    def drop_tree(self) -> None:
        purge = self.random.choice(["", "&purge=true"])
        self.ask("drop tree", "DELETE", f"/namespaces/{self.random.choice(VOLATILE)}?recursive=true{purge}")

    def load(self) -> None:
        self.ask("list", "GET", f"/namespaces/{self.namespace()}/tables")
        self.ask("load", "GET", self.table())


def rage(api: str, base: str, number: int, until: float, diaries: Any) -> None:
    diaries.put(Client(api, base, number).run(until))


@pytest.fixture(scope="module")
def two_workers(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """Each server process has its own cache, which is stale after writes of the others. Purges run meanwhile."""
    url = run_environment.own_database("storm")
    soon = {"LAKEKEEPER__TASK_POLL_INTERVAL": "200ms"}
    home = tmp_path_factory.mktemp("storm")
    with CatalogServer(home, database_url=url, workers=2, arguments=["--with-worker"], settings=soon) as server:
        yield server


def test_storm(two_workers: CatalogServer) -> None:
    two_workers.create_warehouse("storm")
    api = f"{two_workers.uri}/v1/{two_workers.warehouse_id}"
    folder = two_workers.storage_root / "storm"
    for name in STABLE + VOLATILE:
        requests.post(f"{api}/namespaces", json={"namespace": [name]}, timeout=30).raise_for_status()

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    until = time.time() + SECONDS
    clients = [
        context.Process(target=rage, args=(api, f"file://{folder}", number, until, queue))
        for number in range(1, PROCESSES + 1)
    ]
    for client in clients:
        client.start()
    diaries: list[Diary] = [queue.get(timeout=SECONDS + 120) for _ in clients]
    for client in clients:
        client.join(60)
        assert client.exitcode == 0
    counts = sum((diary.statuses for diary in diaries), Counter())
    assert not [surprise for diary in diaries for surprise in diary.surprises], counts
    for what in (
        "create",
        "commit",
        "move",
        "rename",
        "drop",
        "register",
        "create namespace",
        "drop namespace",
        "drop tree",
    ):
        assert any(count for (each, status), count in counts.items() if each == what and status < 300), (what, counts)

    purged = _purged_locations(two_workers, api)
    _files_are_those_that_were_acknowledged(folder, diaries, purged)
    tables = _tables(api)
    _tables_agree(tables, diaries, purged)
    _nothing_else_is_there(two_workers, api, tables)


def _purged_locations(server: CatalogServer, api: str) -> set[str]:
    """Return the deleted locations from the log, of the worker and of creates, once no purge is left."""
    probe = {"name": "probe", "schema": SCHEMA}
    requests.post(f"{api}/namespaces", json={"namespace": ["probe"]}, timeout=30).raise_for_status()
    requests.post(f"{api}/namespaces/probe/tables", json=probe, timeout=30).raise_for_status()
    dropped = requests.delete(f"{api}/namespaces/probe?recursive=true&purge=true", timeout=30)
    assert dropped.status_code == 204, dropped.text
    until = time.time() + 60
    while server.manage("shell", "--no-imports", "-c", _COUNT_TASKS).strip() != "0":
        assert time.time() < until, "the worker does not come to an end"
    failures = [line for line in server.log_lines("icekeeper.tasks") if line["level"] in {"WARNING", "ERROR"}]
    assert not failures
    return {line["location"] for line in server.log_lines("icekeeper.tasks") if line["message"] == "files are deleted"}


_COUNT_TASKS = "from tasks.models import Task; print(Task.objects.live().filter(queue='tabular_purge').count())"


def _files_are_those_that_were_acknowledged(folder: Path, diaries: list[Diary], purged: set[str]) -> None:
    """Check that no failed request left a file, and no acknowledged file is missing unless a purge deleted it."""
    acknowledged = {location for diary in diaries for location in diary.acknowledged}
    there = {f"file://{path}" for path in folder.rglob("*.metadata.json")}
    assert there <= acknowledged
    assert {location for location in acknowledged - there if not _is_below(location, purged)} == set()
    for diary in diaries:
        for location, (table_uuid, snapshot_id) in diary.acknowledged.items():
            if location in there:
                written = json.loads(Path(location.removeprefix("file://")).read_bytes())
                assert written["table-uuid"] == table_uuid
                assert snapshot_id is None or snapshot_id == written["current-snapshot-id"]


def _is_below(location: str, locations: set[str]) -> bool:
    return any(location.startswith(f"{target_location}/") for target_location in locations)


def _tables(api: str) -> dict[str, Any]:
    """List the tables, with more requests than workers, and check that all responses are equal."""
    found = {}
    listed = requests.get(f"{api}/namespaces", timeout=30).json()["namespaces"]
    assert {name for (name,) in listed} >= set(STABLE)
    for (namespace,) in listed:
        assert requests.get(f"{api}/namespaces/{namespace}", timeout=30).status_code == 200
        for identifier in requests.get(f"{api}/namespaces/{namespace}/tables", timeout=30).json()["identifiers"]:
            assert identifier["namespace"] == [namespace]
            address = f"/namespaces/{namespace}/tables/{identifier['name']}"
            responses = [requests.get(api + address, timeout=30) for _ in range(6)]
            assert [response.status_code for response in responses] == [200] * 6, address
            assert len({response.content for response in responses}) == 1
            found[address] = responses[0].json()
    return found


def _tables_agree(tables: dict[str, Any], diaries: list[Diary], purged: set[str]) -> None:
    registered = set().union(*(diary.registered for diary in diaries))
    uuids = [table["metadata"]["table-uuid"] for table in tables.values()]
    assert len(set(uuids)) == len(uuids), "one table under two names"
    assert set(uuids) <= set().union(*(diary.created for diary in diaries))
    locations = [table["metadata"]["location"] for table in tables.values()]
    assert len(set(locations)) == len(locations), "two tables at one location"
    for table in tables.values():
        metadata = table["metadata"]
        assert json.loads(Path(table["metadata-location"].removeprefix("file://")).read_bytes()) == metadata
        missing = [
            entry["metadata-file"]
            for entry in metadata["metadata-log"]
            if not Path(entry["metadata-file"].removeprefix("file://")).exists()
        ]
        if metadata["table-uuid"] in registered:
            # A drop without purge released the location before a move; a purge of a later table there may follow.
            missing = [
                file for file in missing if _is_below(file, {metadata["location"]}) or not _is_below(file, purged)
            ]
        assert not missing
        if metadata["table-uuid"] not in registered:  # a registered table may continue from an older file
            committed = {
                snapshot_id
                for diary in diaries
                for table_uuid, snapshot_id in diary.acknowledged.values()
                if table_uuid == metadata["table-uuid"] and snapshot_id is not None
            }
            assert committed == {each["snapshot-id"] for each in metadata.get("snapshots", [])}, "lost or doubled"


def _nothing_else_is_there(server: CatalogServer, api: str, tables: dict[str, Any]) -> None:
    """Drop everything that is listed; then no row with the namespace or the warehouse remains."""
    for address in tables:
        assert requests.delete(api + address, timeout=30).status_code == 204
    for (namespace,) in requests.get(f"{api}/namespaces", timeout=30).json()["namespaces"]:
        dropped = requests.delete(f"{api}/namespaces/{namespace}", timeout=30)
        assert dropped.status_code == 204, dropped.text
    deleted = requests.delete(f"{server.base_url}/management/v1/warehouse/{server.warehouse_id}", timeout=30)
    assert deleted.status_code == 204, deleted.text
