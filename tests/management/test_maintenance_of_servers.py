"""Maintenance mode of servers and workers, by setting and by switch."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.parts import process
from tests.parts.server import ROOT, CatalogServer
from tests.workers.wait_fixtures import until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> CatalogServer:
    """A prepared server that is not started."""
    url = run_environment.own_database("maintenance")
    return CatalogServer(
        tmp_path_factory.mktemp("maintenance"),
        database_url=url,
        workers=2,
        arguments=["--with-worker"],
        settings={"LAKEKEEPER__TASK_POLL_INTERVAL": "100ms"},
    ).prepare()


def statuses(server: CatalogServer, body: dict[str, Any]) -> set[int]:
    """Return the statuses of a change on many connections, so that every process responds."""
    target = f"{server.uri}/v1/{server.warehouse_id}/namespaces"
    return {requests.post(target, json=body, timeout=30).status_code for _ in range(12)}


def test_servers_and_workers_follow_the_switch_and_keep_it(server: CatalogServer) -> None:
    server.start()
    try:
        server.create_warehouse("wh")
        assert statuses(server, {"namespace": ["a"]}) == {200, 409}
        assert "is on; every" in server.manage("maintenance", "on")
        until(lambda: statuses(server, {"namespace": ["b"]}) == {503})
        assert requests.get(f"{server.base_url}/health", timeout=30).json()["maintenance_mode"] == "read-only"
        switched = [line for line in server.log_lines("icekeeper.maintenance") if "switched on" in line["message"]]
        assert {line["level"] for line in switched} == {"WARNING"}
        until(lambda: len(server.log_lines("icekeeper.maintenance")) >= 2)  # an idle worker reads it before it claims
        server.stop()
        server.start()
        assert statuses(server, {"namespace": ["b"]}) == {503}, "already the first request"
        assert "is off; every" in server.manage("maintenance", "off")
        until(lambda: statuses(server, {"namespace": ["b"]}) <= {200, 409})
    finally:
        server.kill()


def test_a_server_with_the_setting_runs_no_worker(server: CatalogServer) -> None:
    server.log_path.unlink(missing_ok=True)
    server._settings["LAKEKEEPER__MAINTENANCE_MODE"] = "read-only"
    server.start()
    try:
        assert requests.get(f"{server.base_url}/health", timeout=30).json()["maintenance_mode"] == "read-only"
        said = [line["message"] for line in server.log_lines("icekeeper.server")]
        assert any("read-only by LAKEKEEPER__MAINTENANCE_MODE" in message for message in said)
        assert server.log_lines("icekeeper.tasks") == []
        log = server.home / "worker.log"
        worker = process.start(
            [sys.executable, ROOT / "manage.py", "worker"], log=log, env=server.environment, cwd=server.home
        )
        assert worker.wait(60) == 1
        assert "Maintenance mode is read-only: the worker does not run" in log.read_text()
        server._process.send_signal(signal.SIGTERM)  # type: ignore[union-attr]
        assert server.wait() == 0
    finally:
        server.kill()
        del server._settings["LAKEKEEPER__MAINTENANCE_MODE"]
