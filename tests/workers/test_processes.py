"""The worker as a separate process: killed during its work, stopped, and parallel to a server."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from django.conf import settings

from tasks.runtime.jobs import Where
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import ROOT, CatalogServer
from tests.workers.process_fixtures import Home
from tests.workers.wait_fixtures import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.both_databases]

SOON = {"LAKEKEEPER__TASK_POLL_INTERVAL": "100ms"}


@pytest.fixture(scope="module")
def home(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    url = run_environment.own_database("workers")
    folder = tmp_path_factory.mktemp("workers")
    with CatalogServer(folder, database_url=url, arguments=["--without-worker"], settings=SOON) as server:
        yield Home(server)


@contextmanager
def _caught_in_the_midst(home: Home, name: str) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A worker stopped by SIGSTOP after it has deleted some of the files of a dropped table."""
    for files in (100, 400, 1600):
        folder = home.table(f"{name}{files}", folders=20, files=files)
        data = folder / "data"
        home.drop(f"{name}{files}")
        with home.worker() as worker:
            until(lambda: len(list(data.iterdir())) < 20 if data.exists() else True)  # noqa: B023
            worker.send_signal(signal.SIGSTOP)
            until(lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED)
            if data.exists() and len(list(data.iterdir())) > 5:  # threads may do a little more before they are stopped
                yield folder, worker
                return
        home.let_leases_end()
        with home.worker():
            until(lambda: not home.tasks())
    raise AssertionError("the worker is too fast")


def test_a_purge_that_is_killed_in_the_midst_is_finished_by_the_next_worker(home: Home) -> None:
    living = home.table("living", folders=2, files=10)
    before = sorted(living.rglob("*"))
    with _caught_in_the_midst(home, "killed") as (folder, worker):
        worker.kill()
        worker.wait()
        assert home.tasks() == [("running", 1)]
        home.server.manage("worker", "--once")
        assert home.tasks() == [("running", 1)], "its lease has not ended yet"
        left = len(list(folder.rglob("*")))
        assert left
        home.let_leases_end()
        with home.worker():
            until(lambda: not home.tasks())
        assert not folder.exists()
    assert sorted(living.rglob("*")) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_stopped_gives_its_task_back(home: Home, number: signal.Signals) -> None:
    with _caught_in_the_midst(home, f"stopped{number}") as (folder, worker):
        worker.send_signal(number)
        worker.send_signal(signal.SIGCONT)
        assert worker.wait(60) == 0
        assert folder.exists()
        assert home.tasks() == [("scheduled", 1)]
        home.server.manage("worker", "--once")
        assert home.tasks() == []
        assert not folder.exists()


def test_an_idle_worker_stops_at_once(home: Home) -> None:
    home.log.unlink(missing_ok=True)
    with home.worker() as worker:
        until(lambda: b"worker started" in home.log.read_bytes())
        worker.terminate()
        assert worker.wait(30) == 0
    assert b"Traceback" not in home.log.read_bytes()


def test_two_workers_share_the_work(home: Home) -> None:
    folders = [home.table(f"shared{number}", folders=1, files=3) for number in range(12)]
    for folder in folders:
        home.drop(folder.name)
    with home.worker(), home.worker():
        until(lambda: not home.tasks())
    assert not any(folder.exists() for folder in folders)
    done = [line for line in home.log.read_text().splitlines() if '"task done"' in line]
    assert len(done) >= 12


def test_two_workers_run_each_periodic_job_once(home: Home) -> None:
    home.execute("DELETE FROM tasks_periodicjob")
    home.log.unlink(missing_ok=True)
    with home.worker(), home.worker():
        until(lambda: home.log.read_text().count("worker started") == 2)
        until(lambda: home.execute("SELECT count(*) FROM tasks_periodicjob WHERE last_finished_at IS NOT NULL")[0][0])
        until(lambda: not home.execute("SELECT 1 FROM tasks_periodicjob WHERE last_finished_at IS NULL"))
    rows = home.execute("SELECT name, runs, last_error FROM tasks_periodicjob ORDER BY name")
    expected = sorted(job.name for job in settings.PERIODIC_JOBS if job.where is Where.ONE_WORKER and job.is_needed())
    assert rows == [(name, 1, "") for name in expected]
    assert "icekeeper.jobs" not in home.log.read_text(), "no error, and nothing was taken over"


def test_a_periodic_job_of_a_killed_worker_is_taken_over_when_its_lease_expires(home: Home) -> None:
    home.server.manage("worker", "--once")  # all jobs have a row and are not due
    soon = {True: "now() + interval '2 seconds'", False: "strftime('%Y-%m-%d %H:%M:%f', 'now', '+2 seconds')"}[
        "LAKEKEEPER__PG_DATABASE_URL_WRITE" in home.server.environment
    ]
    home.execute(
        f"UPDATE tasks_periodicjob SET next_run_at = '2020-01-01 00:00:00', leased_until = {soon}, runs = 7"  # noqa: S608
        " WHERE name = 'old-tokens'"
    )
    home.server.manage("worker", "--once")
    query = "SELECT runs FROM tasks_periodicjob WHERE name = 'old-tokens' AND leased_until IS "
    with home.worker():
        until(lambda: home.execute(query + "NULL"))
    assert home.execute(query + "NULL") == [(8,)]


def test_a_database_that_is_not_migrated_is_refused(home: Home, tmp_path: Path) -> None:
    environment = {
        name: value for name, value in home.server.environment.items() if not name.startswith("LAKEKEEPER__PG")
    } | {"ICEKEEPER__DATA_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "worker", "--once"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Run: manage.py migrate" in done.stderr
    assert "Traceback" not in done.stderr
