"""`serve` and its worker: started with it, restarted when it dies, stopped with it, and ended when it is killed.

That processes are started and stopped is no matter of the database; that a drop is purged is tested on both.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests

from tests.catalog_fixtures import SCHEMA
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer
from tests.workers.wait_fixtures import until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def prepared(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> CatalogServer:
    """A migrated server that is not started; by default it runs a worker on every database."""
    url = run_environment.own_database("supervised")
    settings = {"LAKEKEEPER__TASK_POLL_INTERVAL": "100ms"}
    return CatalogServer(tmp_path_factory.mktemp("supervised"), database_url=url, settings=settings).prepare()


@pytest.fixture
def server(prepared: CatalogServer) -> Iterator[CatalogServer]:
    prepared.log_path.unlink(missing_ok=True)
    prepared.arguments = []
    prepared.start()
    yield prepared
    prepared.kill()


def begun(server: CatalogServer) -> list[int]:
    """The process ids of all workers so far."""
    return [line["pid"] for line in server.log_lines("icekeeper.tasks") if line["message"] == "worker started"]


def worker_of(server: CatalogServer, number: int = 1) -> psutil.Process:
    """Return the `number`-th worker that started."""
    return psutil.Process(until(lambda: (begun(server) + [0] * number)[number - 1]))


def have_ended(*processes: psutil.Process) -> bool:
    return not any(each.is_running() for each in processes)


def zombies_of(server: CatalogServer) -> list[psutil.Process]:
    return [child for child in psutil.Process(server.pid).children() if child.status() == psutil.STATUS_ZOMBIE]


@pytest.mark.both_databases
def test_a_drop_is_purged(server: CatalogServer) -> None:
    api = f"{server.uri}/v1/{server.create_warehouse('purged')}"
    requests.post(f"{api}/namespaces", json={"namespace": ["ns"]}, timeout=30).raise_for_status()
    body = {"name": "t", "schema": SCHEMA}
    requests.post(f"{api}/namespaces/ns/tables", json=body, timeout=30).raise_for_status()
    folder = server.storage_root / "purged"
    assert list(folder.rglob("*.metadata.json"))
    drop = requests.delete(f"{api}/namespaces/ns/tables/t?purgeRequested=true", timeout=30)
    assert drop.status_code == 204
    until(lambda: not list(folder.rglob("*.metadata.json")))
    until(lambda: [line for line in server.log_lines("icekeeper.tasks") if line["message"] == "task done"])


def test_a_dead_worker_is_restarted_with_a_delay(server: CatalogServer) -> None:
    killed = []
    for number in (1, 2):
        worker = worker_of(server, number)
        assert worker.ppid() == server.pid
        worker.kill()
        killed.append(worker.pid)
    third = worker_of(server, 3)
    assert third.is_running()
    exited = [line for line in server.log_lines("icekeeper.server") if "exited" in line["message"]]
    assert [line["pid"] for line in exited] == killed
    assert [line["next_start_in_s"] for line in exited] == [1.0, 2.0]
    assert {line["status"] for line in exited} <= {-signal.SIGKILL, None}
    until(lambda: not zombies_of(server))
    assert requests.get(f"{server.base_url}/health", timeout=10).status_code == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_worker_stops_with_the_server(server: CatalogServer, number: signal.Signals) -> None:
    worker = worker_of(server)
    os.kill(server.pid, number)
    until(lambda: have_ended(worker))
    assert server.wait() == 0
    assert [line["message"] for line in server.log_lines("icekeeper.tasks")][-1] == "worker stopped"
    assert not [line for line in server.log_lines("icekeeper.server") if "exited" in line["message"]]


def test_ctrl_c_reaches_it_directly(server: CatalogServer) -> None:
    worker = worker_of(server)
    os.killpg(server.pid, signal.SIGINT)
    assert server.wait() == 0
    until(lambda: have_ended(worker))
    assert len(begun(server)) == 1, "it is not started again by a server that stops"


def test_a_worker_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    settings = {"ICEKEEPER__SERVER__GRACEFUL_TIMEOUT": "1s"}
    with CatalogServer(tmp_path, arguments=["--with-worker"], settings=settings) as server:
        worker = worker_of(server)
        worker.suspend()
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait() == 0
        assert have_ended(worker)
        assert [line for line in server.log_lines("icekeeper.server") if "is killed" in line["message"]]


@pytest.mark.parametrize("is_asleep", [False, True])
def test_no_orphan_of_a_killed_server(server: CatalogServer, is_asleep: bool) -> None:
    worker = worker_of(server)
    others = [child for child in psutil.Process(server.pid).children() if child.pid != worker.pid]
    if is_asleep:
        worker.suspend()
    os.kill(server.pid, signal.SIGKILL)  # only the arbiter
    if is_asleep:
        worker.resume()
    until(lambda: have_ended(worker, *others))


def test_no_worker_runs_when_it_is_switched_off(server: CatalogServer) -> None:
    server.stop()
    server.log_path.unlink()
    server.arguments = ["--without-worker"]
    server.start()
    time.sleep(1)
    assert begun(server) == []


def test_the_port_is_free_as_soon_as_the_server_is_dead(server: CatalogServer) -> None:
    """The worker does not inherit the socket, so not even a hanging one keeps the port."""
    worker = worker_of(server)
    worker.suspend()
    for child in psutil.Process(server.pid).children():
        if child.pid != worker.pid:
            child.kill()
    os.kill(server.pid, signal.SIGKILL)
    server.wait()

    def is_refused() -> bool:
        try:
            requests.get(f"{server.base_url}/health", timeout=1)
        except requests.RequestException as error:  # also a timeout, which means that a process has the socket open
            return "refused" in str(error)
        return False

    until(is_refused)
    worker.kill()
