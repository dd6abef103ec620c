"""Two concurrent requests on a server with two workers: in either order, responses and the catalog agree."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.catalog_fixtures import SCHEMA
from tests.faults.test_contention import append
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.timeout(600)

DUELS = 30


@pytest.fixture(scope="module")
def two_workers(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """Each worker has its own cache, which is stale after writes of the other."""
    url = run_environment.own_database("duels")
    with CatalogServer(tmp_path_factory.mktemp("duels"), database_url=url, workers=2) as server:
        yield server


@pytest.fixture
def duel(two_workers: CatalogServer) -> Iterator[Callable[..., list[requests.Response]]]:
    """Send up to two concurrent requests (method, path, body), each on its own connection; return the responses."""
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
    """One commit is in the table, the other fails with a conflict."""
    duel(("POST", "/namespaces", {"namespace": ["ns"]}))
    [created] = duel(("POST", "/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}))
    metadata, done = created.json()["metadata"], []
    for number in range(1, DUELS + 1):
        bodies = [append(metadata, number * 10 + which) for which in (1, 2)]
        responses = duel(*(("POST", "/namespaces/ns/tables/t", body) for body in bodies))
        assert sorted(response.status_code for response in responses) == [200, 409], [
            response.text for response in responses
        ]
        [lost] = [response for response in responses if response.status_code == 409]
        assert lost.json()["error"]["type"] == "CommitFailedException"
        [won] = [which for which in (0, 1) if responses[which].status_code == 200]
        done.append(number * 10 + won + 1)
        [loaded] = duel(("GET", "/namespaces/ns/tables/t", None))
        assert loaded.json()["metadata-location"] == responses[won].json()["metadata-location"]
        metadata = loaded.json()["metadata"]
        assert [each["snapshot-id"] for each in metadata["snapshots"]] == done
    folder = Path(metadata["location"].removeprefix("file://")) / "metadata"
    assert len(list(folder.iterdir())) == DUELS + 1, "a refused commit left its file"
    duel(("DELETE", "/namespaces/ns/tables/t", None))


def test_drop_against_rename(duel: Any) -> None:
    """The table is dropped under its old name or exists under the new one; the other request finds no table."""
    duel(("POST", "/namespaces", {"namespace": ["ns"]}))
    names = [{"namespace": ["ns"], "name": name} for name in ("old", "new")]
    rename = ("POST", "/tables/rename", {"source": names[0], "destination": names[1]})
    for _ in range(DUELS):
        [created] = duel(("POST", "/namespaces/ns/tables", {"name": "old", "schema": SCHEMA}))
        renamed, dropped = duel(rename, ("DELETE", "/namespaces/ns/tables/old", None))
        assert {renamed.status_code, dropped.status_code} == {204, 404}, (renamed.text, dropped.text)
        old, new = duel(("GET", "/namespaces/ns/tables/old", None), ("GET", "/namespaces/ns/tables/new", None))
        assert old.status_code == 404
        if renamed.ok:
            assert new.json() == created.json()
            duel(("DELETE", "/namespaces/ns/tables/new", None))
        else:
            assert new.status_code == 404


def test_drop_against_register_of_the_same_name(duel: Any) -> None:
    """The second request sees the result of the first; neither waits for the other without limit."""
    duel(("POST", "/namespaces", {"namespace": ["ns"]}))
    [created] = duel(("POST", "/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}))
    body = {"name": "t", "metadata-location": created.json()["metadata-location"], "overwrite": True}
    register = ("POST", "/namespaces/ns/register", body)
    for _ in range(DUELS):
        registered, dropped = duel(register, ("DELETE", "/namespaces/ns/tables/t", None))
        assert (registered.status_code, dropped.status_code) in {(200, 204), (200, 404)}, (
            registered.text, dropped.text,
        )  # fmt: skip
        [found] = duel(("GET", "/namespaces/ns/tables/t", None))
        if found.status_code == 404:  # registered, then dropped
            [found] = duel(register)
        assert found.json() == created.json()
    duel(("DELETE", "/namespaces/ns/tables/t", None))


def test_rename_against_register_of_the_same_name(duel: Any) -> None:
    """A renamed table no longer occupies the name, so it must not be replaced."""
    duel(("POST", "/namespaces", {"namespace": ["ns"]}))
    duel(("POST", "/namespaces", {"namespace": ["away"]}))
    [other] = duel(("POST", "/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}))
    duel(("DELETE", "/namespaces/ns/tables/t", None))
    body = {"name": "t", "metadata-location": other.json()["metadata-location"], "overwrite": True}
    names = [{"namespace": [space], "name": "t"} for space in ("ns", "away")]
    rename = ("POST", "/tables/rename", {"source": names[0], "destination": names[1]})
    for _ in range(DUELS):
        [created] = duel(("POST", "/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}))
        registered, renamed = duel(("POST", "/namespaces/ns/register", body), rename)
        assert registered.status_code == 200, registered.text
        here, away = duel(("GET", "/namespaces/ns/tables/t", None), ("GET", "/namespaces/away/tables/t", None))
        if renamed.status_code == 204 and here.status_code == 200:
            assert here.json() == other.json()
            assert away.json() == created.json(), "it was renamed and then replaced all the same"
        elif renamed.status_code == 204:  # the registered table was renamed
            assert away.json() == other.json()
        else:
            assert (renamed.status_code, here.json(), away.status_code) == (404, other.json(), 404)
        duel(("DELETE", "/namespaces/ns/tables/t", None), ("DELETE", "/namespaces/away/tables/t", None))
    duel(("DELETE", "/namespaces/away", None))
