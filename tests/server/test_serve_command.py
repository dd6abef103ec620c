"""`manage.py serve`: startup errors, output, and readiness once it reports that it listens."""

from __future__ import annotations

import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.run_environment import RunEnvironment
from tests.parts import process
from tests.parts.read_only import unprivileged_command
from tests.server.bare_server_fixtures import ROOT, BareServer
from tests.server.raw_client_fixtures import RawClient


@pytest.fixture
def bare(tmp_path: Path) -> BareServer:
    """A server that is not started: `manage` runs its commands with tests.server.urls."""
    server = BareServer(tmp_path / "home")
    server.environment["DJANGO_SETTINGS_MODULE"] = "tests.server.bare_settings"
    return server


def _manage(server: BareServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env=server.environment, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def _refused(server: BareServer, *words: str) -> None:
    done = _manage(server, "serve")
    assert done.returncode == 1, done.stderr
    said = [line for line in done.stderr.splitlines() if line and not line.startswith("{")]
    assert len(said) == 1
    assert said[0].startswith("CommandError: ")
    for word in words:
        assert word in said[0]
    assert "Icekeeper is serving" not in done.stdout


def _execute(server: BareServer, statement: str) -> None:
    connection = sqlite3.connect(server.home / "icekeeper.sqlite3")
    with connection:
        connection.execute(statement)
    connection.close()


def test_migrations_behind(bare: BareServer) -> None:
    _refused(bare, " migrations, first contenttypes.0001_initial", "manage.py migrate")
    assert _manage(bare, "migrate", "--verbosity", "0").returncode == 0
    assert _manage(bare, "migrate", "tenancy", "zero", "--verbosity", "0").returncode == 0
    _refused(bare, " migrations, first tenancy.0001_initial", "manage.py migrate")


def test_migrations_ahead(bare: BareServer) -> None:
    assert _manage(bare, "migrate", "--verbosity", "0").returncode == 0
    _execute(
        bare, "INSERT INTO django_migrations (app, name, applied) VALUES ('contenttypes', '0099_future', '2030-01-01')"
    )
    _refused(bare, "newer version", "contenttypes.0099_future")


def test_database_out_of_reach(bare: BareServer) -> None:
    bare.environment["LAKEKEEPER__PG_DATABASE_URL_WRITE"] = f"postgresql://me:hidden@127.0.0.1:{process.free_port()}/db"
    began = time.monotonic()
    done = _manage(bare, "serve")
    assert time.monotonic() - began < 60
    assert done.returncode == 1
    assert "the database db on 127.0.0.1 (default) cannot be reached" in done.stderr
    assert "hidden" not in done.stderr
    assert "Traceback" not in done.stderr


def test_sqlite_file_that_is_none(bare: BareServer) -> None:
    (bare.home / "icekeeper.sqlite3").write_bytes(b"not a database, not at all" * 50)
    _refused(bare, "cannot be reached", "ICEKEEPER__DATA_DIR")


def test_port_in_use(bare: BareServer) -> None:
    assert _manage(bare, "migrate", "--verbosity", "0").returncode == 0
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", bare.port))
        squatter.listen()
        _refused(bare, f"127.0.0.1:{bare.port}", "in use", "LAKEKEEPER__LISTEN_PORT")


def test_start_and_stop(bare: BareServer) -> None:
    assert _manage(bare, "migrate", "--verbosity", "0").returncode == 0
    bare.environment["LAKEKEEPER__NOT_A_SETTING"] = "1"
    running = process.start(
        [sys.executable, "manage.py", "serve", "--without-worker"], log=bare.log, env=bare.environment, cwd=ROOT
    )
    try:
        process.wait_until_ready(
            lambda: "Icekeeper is serving" in bare.log.read_text(), running, log=bare.log, seconds=60
        )
        said = bare.log.read_text()
        base = f"http://127.0.0.1:{bare.port}"
        for location in ("/catalog", "/management", "/swagger-ui", "/health"):
            assert f"{base}{location}\n" in said + "\n"
        with RawClient(bare.port) as client:  # without waiting: the printed message is true
            health = client.get("/health", "x-icekeeper-extensions: true")
            assert health.status == 200
            assert health.json["health"] == "ok"
            assert health.json["maintenance_mode"] == "off"
            assert health.json["authentication"] == "off"
            [service] = health.json["services"]["catalog"]
            assert service["status"] == "ok"
            assert abs(service["lastCheck"] / 1000 - time.time()) < 60
        warnings = [line for line in bare.lines("icekeeper.server") if line["level"] == "WARNING"]
        assert any("authentication is OFF" in line["message"] for line in warnings)
        messages = [line["message"] for line in bare.lines("icekeeper.server")]
        assert f"database: embedded SQLite {bare.home}/icekeeper.sqlite3" in messages
        assert [line["variables"] for line in warnings if "variables" in line] == [["LAKEKEEPER__NOT_A_SETTING"]]
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    finally:
        process.kill(running)


def test_migrations_behind_on_postgres(bare: BareServer, run_environment: RunEnvironment) -> None:
    if run_environment.postgres is None:
        pytest.skip("the PostgreSQL run has this")
    bare.environment["LAKEKEEPER__PG_DATABASE_URL_WRITE"] = run_environment.postgres.create_database("serve_command")
    _refused(bare, " migrations, first contenttypes.0001_initial", "manage.py migrate")


def test_an_embedded_database_that_is_read_only(bare: BareServer) -> None:
    assert _manage(bare, "migrate", "--verbosity", "0").returncode == 0
    bare.home.chmod(0o500)
    try:
        done = subprocess.run(
            unprivileged_command(sys.executable, "manage.py", "serve"),
            env=bare.environment, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
    finally:
        bare.home.chmod(0o700)
    assert done.returncode == 1
    assert "icekeeper.sqlite3 cannot be written to by this user" in done.stderr
    assert "Set ICEKEEPER__DATA_DIR to a writable folder" in done.stderr
    assert "Icekeeper is serving" not in done.stdout
