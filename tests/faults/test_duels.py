"""A storm of everything at once from several processes on few names: afterwards answers, pointers and files agree."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.catalog_fixtures import SCHEMA
from tests.faults.test_contention import append
from tests.parts.server import CatalogServer
from tests.run_environment import RunEnvironment

pytestmark = pytest.mark.timeout(600)

PROCESSES = 6
SECONDS = 60.0 if os.environ.get("ICEKEEPER_TEST_LONG") == "1" else 6.0
STABLE, VOLATILE = ("calm", "calmer"), ("here", "gone")
"""Namespaces that stay, and those that come and go."""

TABLES = ("a", "b", "c")
DUELS = 30
REFUSALS = {404, 409, 503}


@dataclass
class Diary:
    """What one process was told: `statuses` by operation, `acknowledged` metadata files with the snapshot they add."""

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    surprises: list[str] = field(default_factory=list)
    acknowledged: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    registered: set[str] = field(default_factory=set)
    created: set[str] = field(default_factory=set)


class Client:
    """One process of the storm: random operations on the shared names until the time is over."""

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
            self.create_namespace: 2, self.drop_namespace: 2, self.load: 2,
        }  # fmt: skip
        while time.time() < until:
            self.random.choices(list(acts), list(acts.values()))[0]()
        return self.diary

    def ask(self, what: str, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON when it was done ({} when it has none), None when it was refused."""
        answer = self.session.request(method, self.api + path, json=body, timeout=60)
        self.diary.statuses[what, answer.status_code] += 1
        if answer.status_code < 300:
            return answer.json() if answer.content else {}
        if answer.status_code not in REFUSALS:
            self.diary.surprises.append(f"{what}: {answer.status_code} {answer.text[:500]}")
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
        if self.random.random() < 0.3:  # the same place as others
            body["location"] = f"{self.base}/shared-{self.random.randrange(3)}"
        made = self.ask("create", "POST", f"/namespaces/{namespace}/tables", body)
        self.note(made)
        if made is not None:
            self.diary.created.add(made["metadata"]["table-uuid"])

    def commit(self) -> None:
        table = self.table()
        loaded = self.ask("load", "GET", table)
        if loaded is not None:
            self.next_snapshot += 1
            body = append(loaded["metadata"], self.next_snapshot)
            body["requirements"].append({"type": "assert-table-uuid", "uuid": loaded["metadata"]["table-uuid"]})
            self.note(self.ask("commit", "POST", table, body), self.next_snapshot)

    def move(self) -> None:
        """Several statements instead of one."""
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
            made = self.ask("register", "POST", f"/namespaces/{self.namespace()}/register", body)
            if made is not None:
                self.diary.registered.add(made["metadata"]["table-uuid"])

    def create_namespace(self) -> None:
        self.ask("create namespace", "POST", "/namespaces", {"namespace": [self.random.choice(VOLATILE)]})

    def drop_namespace(self) -> None:
        self.ask("drop namespace", "DELETE", f"/namespaces/{self.random.choice(VOLATILE)}")

    def load(self) -> None:
        self.ask("list", "GET", f"/namespaces/{self.namespace()}/tables")
        self.ask("load", "GET", self.table())


def rage(api: str, base: str, number: int, until: float, diaries: Any) -> None:
    diaries.put(Client(api, base, number).run(until))


@pytest.fixture(scope="module")
def two_workers(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """Each worker has a cache of its own, which the other's writes make stale."""
    postgres = run_environment.postgres
    url = postgres.create_database("storm") if postgres else None
    with CatalogServer(tmp_path_factory.mktemp("storm"), database_url=url, workers=2) as server:
        yield server


@pytest.fixture
def duel(two_workers: CatalogServer) -> Iterator[Callable[..., list[requests.Response]]]:
    """Send up to two requests (method, path, body) in one moment, each on a connection of its own; their answers."""
    two_workers.create_warehouse("duels")
    api = f"{two_workers.uri}/v1/{two_workers.warehouse_id}"
    with requests.Session() as one, requests.Session() as other, ThreadPoolExecutor(2) as pool:

        def ask(*asked: tuple[str, str, Any]) -> list[requests.Response]:
            start = threading.Barrier(len(asked))

            def send(session: requests.Session, method: str, path: str, body: Any) -> requests.Response:
                start.wait(30)
                return session.request(method, api + path, json=body, timeout=60)

            sent = [pool.submit(send, who, *what) for who, what in zip((one, other), asked, strict=False)]
            return [each.result(90) for each in sent]

        yield ask
    for address in (
        f"{api}/namespaces/ns",
        f"{two_workers.base_url}/management/v1/warehouse/{two_workers.warehouse_id}",
    ):
        assert requests.delete(address, timeout=30).status_code == 204, "something is left in it"


def test_two_commits_on_the_same_metadata(duel: Any) -> None:
    """One of them is in the table, and the other one is told that it is not."""
    duel(("POST", "/namespaces", {"namespace": ["ns"]}))
    [made] = duel(("POST", "/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}))
    metadata, done = made.json()["metadata"], []
    for number in range(1, DUELS + 1):
        bodies = [append(metadata, number * 10 + which) for which in (1, 2)]
        answers = duel(*(("POST", "/namespaces/ns/tables/t", body) for body in bodies))
        assert sorted(answer.status_code for answer in answers) == [200, 409], [answer.text for answer in answers]
        [lost] = [answer for answer in answers if answer.status_code == 409]
        assert lost.json()["error"]["type"] == "CommitFailedException"
        [won] = [which for which in (0, 1) if answers[which].status_code == 200]
        done.append(number * 10 + won + 1)
        [loaded] = duel(("GET", "/namespaces/ns/tables/t", None))
        assert loaded.json()["metadata-location"] == answers[won].json()["metadata-location"]
        metadata = loaded.json()["metadata"]
        assert [each["snapshot-id"] for each in metadata["snapshots"]] == done
    folder = Path(metadata["location"].removeprefix("file://")) / "metadata"
    assert len(list(folder.iterdir())) == DUELS + 1, "a refused commit left its file"
    duel(("DELETE", "/namespaces/ns/tables/t", None))


def test_drop_against_rename(duel: Any) -> None:
    """Dropped under the old name or there under the new one: one of both was done, the other finds no table."""
    duel(("POST", "/namespaces", {"namespace": ["ns"]}))
    names = [{"namespace": ["ns"], "name": name} for name in ("old", "new")]
    rename = ("POST", "/tables/rename", {"source": names[0], "destination": names[1]})
    for _ in range(DUELS):
        [made] = duel(("POST", "/namespaces/ns/tables", {"name": "old", "schema": SCHEMA}))
        renamed, dropped = duel(rename, ("DELETE", "/namespaces/ns/tables/old", None))
        assert {renamed.status_code, dropped.status_code} == {204, 404}, (renamed.text, dropped.text)
        old, new = duel(("GET", "/namespaces/ns/tables/old", None), ("GET", "/namespaces/ns/tables/new", None))
        assert old.status_code == 404
        if renamed.ok:
            assert new.json() == made.json()
            duel(("DELETE", "/namespaces/ns/tables/new", None))
        else:
            assert new.status_code == 404


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
    for what in ("create", "commit", "move", "rename", "drop", "register", "create namespace", "drop namespace"):
        assert any(count for (each, status), count in counts.items() if each == what and status < 300), (what, counts)

    _files_are_those_that_were_acknowledged(folder, diaries)
    tables = _tables(api)
    _tables_agree(tables, diaries)
    _nothing_else_is_there(two_workers, api, tables)


def _files_are_those_that_were_acknowledged(folder: Path, diaries: list[Diary]) -> None:
    """No refusal left a file behind, and none took one away that somebody else was told of."""
    acknowledged = {location for diary in diaries for location in diary.acknowledged}
    assert {f"file://{path}" for path in folder.rglob("*.metadata.json")} == acknowledged
    for diary in diaries:
        for location, (table_uuid, snapshot_id) in diary.acknowledged.items():
            written = json.loads(Path(location.removeprefix("file://")).read_bytes())
            assert written["table-uuid"] == table_uuid
            assert snapshot_id is None or snapshot_id == written["current-snapshot-id"]


def _tables(api: str) -> dict[str, Any]:
    """What is listed, each asked for more often than there are workers: all of them see the same."""
    found = {}
    listed = requests.get(f"{api}/namespaces", timeout=30).json()["namespaces"]
    assert {name for (name,) in listed} >= set(STABLE)
    for (namespace,) in listed:
        assert requests.get(f"{api}/namespaces/{namespace}", timeout=30).status_code == 200
        for identifier in requests.get(f"{api}/namespaces/{namespace}/tables", timeout=30).json()["identifiers"]:
            assert identifier["namespace"] == [namespace]
            address = f"/namespaces/{namespace}/tables/{identifier['name']}"
            answers = [requests.get(api + address, timeout=30) for _ in range(6)]
            assert [answer.status_code for answer in answers] == [200] * 6, address
            assert len({answer.content for answer in answers}) == 1
            found[address] = answers[0].json()
    return found


def _tables_agree(tables: dict[str, Any], diaries: list[Diary]) -> None:
    registered = set().union(*(diary.registered for diary in diaries))
    uuids = [table["metadata"]["table-uuid"] for table in tables.values()]
    assert len(set(uuids)) == len(uuids), "one table under two names"
    assert set(uuids) <= set().union(*(diary.created for diary in diaries))
    locations = [table["metadata"]["location"] for table in tables.values()]
    assert len(set(locations)) == len(locations), "two tables in one place"
    for table in tables.values():
        metadata = table["metadata"]
        assert json.loads(Path(table["metadata-location"].removeprefix("file://")).read_bytes()) == metadata
        for entry in metadata["metadata-log"]:
            assert Path(entry["metadata-file"].removeprefix("file://")).exists()
        if metadata["table-uuid"] not in registered:  # one that was registered may go on from an older file
            committed = {
                snapshot_id
                for diary in diaries
                for table_uuid, snapshot_id in diary.acknowledged.values()
                if table_uuid == metadata["table-uuid"] and snapshot_id is not None
            }
            assert committed == {each["snapshot-id"] for each in metadata.get("snapshots", [])}, "lost or doubled"


def _nothing_else_is_there(server: CatalogServer, api: str, tables: dict[str, Any]) -> None:
    """What is listed can be dropped, and then not one row is left that holds its namespace or its warehouse."""
    for address in tables:
        assert requests.delete(api + address, timeout=30).status_code == 204
    for (namespace,) in requests.get(f"{api}/namespaces", timeout=30).json()["namespaces"]:
        dropped = requests.delete(f"{api}/namespaces/{namespace}", timeout=30)
        assert dropped.status_code == 204, dropped.text
    deleted = requests.delete(f"{server.base_url}/management/v1/warehouse/{server.warehouse_id}", timeout=30)
    assert deleted.status_code == 204, deleted.text
