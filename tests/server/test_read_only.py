"""Commands of a deployment with a read-only file system, no user account and no HOME."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from icekeeper.version import VERSION
from tests.harness.run_environment import RunEnvironment
from tests.management.test_lakekeeper_deployments import CHART
from tests.parts import process
from tests.parts.read_only import read_only_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def environment() -> dict[str, str]:
    """The variables of Lakekeeper's chart, without data folder, signing key or HOME. Nothing listens at its database
    URL.
    """
    return CHART | {
        "PATH": "/usr/bin:/bin",
        "LAKEKEEPER__PG_HOST_W": "127.0.0.1",
        "LAKEKEEPER__PG_PORT": str(process.free_port()),
        "LAKEKEEPER__BIND_IP": "127.0.0.1",
        "LAKEKEEPER__LISTEN_PORT": str(process.free_port()),
        "LAKEKEEPER__METRICS__PORT": str(process.free_port()),
        "ICEKEEPER__SERVER__WORKERS": "2",
    }


def manage(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        read_only_command(sys.executable, str(ROOT / "manage.py"), *arguments),
        env=environment, cwd="/", capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture
def log(environment: dict[str, str], run_environment: RunEnvironment, tmp_path: Path) -> Iterator[Path]:
    """The output of a running server on an empty database."""
    url = run_environment.own_database("read_only")
    if url is None:
        pytest.skip("the PostgreSQL run has this")
    parts = urlsplit(url)
    environment["LAKEKEEPER__PG_PORT"] = str(parts.port)
    environment["LAKEKEEPER__PG_USER"], environment["LAKEKEEPER__PG_PASSWORD"] = (
        str(parts.username),
        str(parts.password),
    )
    environment["LAKEKEEPER__PG_DATABASE"] = parts.path.removeprefix("/")
    for arguments in (
        ["wait-for-db", "-d", "-r", "100", "-b", "2"],
        ["migrate", "--verbosity", "0"],
        ["wait-for-db", "-dm", "-r", "100", "-b", "2"],
    ):
        done = manage(environment, *arguments)
        assert done.returncode == 0, done.stderr
    written = tmp_path / "server.log"
    command = read_only_command(sys.executable, str(ROOT / "manage.py"), "serve")
    running = process.start(command, log=written, env=environment, cwd=Path("/"))
    try:
        process.wait_until_ready(
            lambda: "Icekeeper is serving" in written.read_text(), running, log=written, seconds=60
        )
        yield written
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    finally:
        process.kill(running)


def test_a_server_that_can_write_nowhere(environment: dict[str, str], log: Path) -> None:
    server = f"http://127.0.0.1:{environment['LAKEKEEPER__LISTEN_PORT']}"
    accepted = requests.post(f"{server}/management/v1/bootstrap", json={"accept-terms-of-use": True}, timeout=30)
    assert accepted.status_code == 204
    for path in ("/health", "/management/v1/info", "/swagger-ui"):
        assert requests.get(server + path, timeout=30).status_code == 200
    metrics = requests.get(f"http://127.0.0.1:{environment['LAKEKEEPER__METRICS__PORT']}/metrics", timeout=30)
    assert metrics.status_code == 200
    samples = [line.split(" ")[0] for line in metrics.text.splitlines() if not line.startswith("#")]
    assert sorted(samples) == [f'icekeeper_build_info{{version="{VERSION}"}}', "process_start_time_seconds"]
    assert "requests are not counted in the metrics" in log.read_text()
    assert manage(environment, "healthcheck", "-a").returncode == 0
    assert '"worker started"' in log.read_text(), "it runs a worker without being asked to"
    assert '"level":"ERROR"' not in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("arguments", [["version"], ["show_config"], ["check"], ["check", "--deploy"]])
def test_commands_that_need_no_database_need_no_folder(environment: dict[str, str], arguments: list[str]) -> None:
    done = manage(environment, *arguments)
    assert "Traceback" not in done.stderr
    assert done.returncode == (1 if "--deploy" in arguments else 0), done.stderr


@pytest.fixture
def embedded(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment without PostgreSQL: the data folder cannot be created."""
    without = {name: text for name, text in environment.items() if "__PG_" not in name}
    return without | {"ICEKEEPER__DATA_DIR": str(tmp_path / "state")}


@pytest.mark.parametrize("arguments", [["version"], ["show_config"], ["show-config", "--json"], ["migrate", "--help"]])
def test_commands_that_use_no_database_need_no_data_folder(embedded: dict[str, str], arguments: list[str]) -> None:
    done = manage(embedded, *arguments)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_signing_key_of_the_embedded_database_needs_a_folder(embedded: dict[str, str], tmp_path: Path) -> None:
    done = manage(embedded, "shell", "--no-imports", "-c", "from django.conf import settings; str(settings.SECRET_KEY)")
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"icekeeper: {tmp_path}/state/secret-key cannot be read or written: Permission denied."
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["migrate", "serve"])
def test_the_embedded_database_needs_a_folder(embedded: dict[str, str], tmp_path: Path, command: str) -> None:
    """The message names the folder, and how to run without it."""
    done = manage(embedded, command)
    assert done.returncode == 1
    database = tmp_path / "state" / "icekeeper.sqlite3"
    assert done.stderr.startswith(
        f"CommandError: The embedded SQLite database {database} cannot be written to by this user"
    )
    assert "ICEKEEPER__DATA_DIR" in done.stderr
    assert "LAKEKEEPER__PG_DATABASE_URL_WRITE" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()
