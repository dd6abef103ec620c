"""Liveness and readiness probes of a real server, and the commands that send them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.parts import process
from tests.server.bare_server_fixtures import ROOT, BareServer

SOON = {"LAKEKEEPER__HEALTH_CHECK_FREQUENCY_SECONDS": "1"}


def manage(server: BareServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = server.environment | {"DJANGO_SETTINGS_MODULE": "tests.server.bare_settings"}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def ask(server: BareServer, target: str) -> tuple[int, Any]:
    with server.client() as client:
        response = client.get(target)
    assert response.headers["Cache-Control"] == "no-store"
    return response.status, response.json


def listens(server: BareServer) -> bool:
    try:
        with server.client():
            return True
    except ConnectionRefusedError:
        return False


def until(seen: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < give_up, "it does not happen"
        time.sleep(0.1)


def test_a_server_is_ready_when_its_database_is_migrated(tmp_path: Path) -> None:
    with BareServer(tmp_path / "home", **SOON) as server:
        assert ask(server, "/health/live") == (200, {"status": "live"})
        status, reported = ask(server, "/health/ready")
        assert (status, reported["status"]) == (503, "not ready")
        [reason] = reported["reasons"]
        assert re.fullmatch(r"write_pool lacks \d+ migrations: manage.py migrate", reason)
        assert ask(server, "/health")[0] == 200, "its services respond"
        assert manage(server, "migrate", "--verbosity", "0").returncode == 0
        until(lambda: ask(server, "/health/ready") == (200, {"status": "ready"}))
        done = manage(server, "healthcheck", "--all")
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
        with server.client() as client:
            assert client.get("/health/live", method="HEAD").status == 200
            assert client.get("/health/ready", method="POST").status == 405
        assert not [line for line in server.lines() if line["path"].startswith("/health") and line["status"] == 200]
    assert manage(server, "healthcheck").returncode == 1
    assert manage(server, "healthcheck", "-d").returncode == 0


def test_a_server_without_its_database_is_alive(tmp_path: Path) -> None:
    url = f"postgresql://me:canary@127.0.0.1:{process.free_port()}/db"
    with BareServer(
        tmp_path / "home", LAKEKEEPER__PG_DATABASE_URL_WRITE=url, LAKEKEEPER__PG_ACQUIRE_TIMEOUT="1s"
    ) as server:
        assert ask(server, "/health/live") == (200, {"status": "live"})
        status, reported = ask(server, "/health/ready")
        assert (status, reported["status"]) == (503, "not ready")
        assert reported["reasons"] == ["write_pool does not respond", "read_pool does not respond"]
        status, reported = ask(server, "/health")
        assert status == 503
        assert {service["name"] for service in reported["services"]["catalog"]} == {"write_pool", "read_pool"}
        assert reported["services"]["secrets"] == reported["services"]["catalog"]
        assert reported["services"]["auth"] == []
        done = manage(server, "healthcheck", "-a")
        assert done.returncode == 1
        assert "cannot be reached" in done.stderr
        assert "/health responded with status 503" in done.stderr
        assert "canary" not in done.stderr
        waited = manage(server, "wait_for_db", "--retries", "2", "--backoff", "0.1")
        assert waited.returncode == 1
        assert [line.rpartition("; ")[2] for line in waited.stderr.splitlines()[:2]] == [
            "2 attempts left",
            "1 attempts left",
        ]
        assert "canary" not in waited.stderr


def test_a_server_that_stops_is_not_ready(tmp_path: Path) -> None:
    with BareServer(tmp_path / "home", **SOON) as server:
        assert manage(server, "migrate", "--verbosity", "0").returncode == 0
        with server.client() as working, server.client() as probe, server.holding(working):
            until(lambda: probe.get("/health/ready").json == {"status": "ready"})
            probe.send(b"GET /health/ready HTTP/1.1\r\nHost: x\r\n")  # the rest follows when it stops
            server.signal(signal.SIGTERM)
            until(lambda: not listens(server))
            response = probe.send(b"\r\n").response()
            assert response.status == 503
            assert response.json["reasons"][0] == "the server is stopping"  # a busy database may be another reason
        assert server.wait() == 0


def test_waiting_for_a_database_that_is_being_migrated(tmp_path: Path) -> None:
    server = BareServer(tmp_path / "home")
    assert manage(server, "wait_for_db", "-d").stdout == "The databases respond.\n"
    assert "migrations, first contenttypes.0001_initial" in manage(server, "wait_for_db", "--retries", "0").stderr
    environment = server.environment | {"DJANGO_SETTINGS_MODULE": "tests.server.bare_settings"}
    waiting = process.start(
        [sys.executable, "manage.py", "wait_for_db", "--backoff", "0.2", "--retries", "300"],
        log=server.log, env=environment, cwd=ROOT,
    )  # fmt: skip
    try:
        until(lambda: "attempts left" in server.log.read_text())
        assert manage(server, "migrate", "--verbosity", "0").returncode == 0
        assert waiting.wait(60) == 0
    finally:
        process.kill(waiting)


def test_the_version_is_ours(tmp_path: Path) -> None:
    server = BareServer(tmp_path / "home")
    reported = json.loads(manage(server, "version", "--json").stdout)
    assert set(reported) == {"icekeeper", "commit-sha", "lakekeeper", "django", "python"}


@pytest.mark.parametrize("command", ["wait_for_db", "healthcheck", "version", "show_config"])
def test_each_command_explains_itself(tmp_path: Path, command: str) -> None:
    done = manage(BareServer(tmp_path / "home"), command, "--help")
    assert done.returncode == 0
    assert len(done.stdout) > 500
