"""Celery workers, beat, and a real Redis or RabbitMQ: interrupted, killed, and with duplicate and late messages."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from celery import Celery

from tests.harness.run_environment import RunEnvironment
from tests.parts import process
from tests.parts.faketime import Clock
from tests.parts.rabbitmq import RabbitMq
from tests.parts.redis import Redis
from tests.parts.server import ROOT, CatalogServer
from tests.workers.process_fixtures import Home
from tests.workers.wait_fixtures import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.django_db(databases=[])]

CELERY = [sys.executable, "-m", "celery", "-A", "icekeeper"]
NEVER = {"LAKEKEEPER__TASK_POLL_INTERVAL": "600s"}
"""No poll helps: what happens was woken."""
OFTEN = {"LAKEKEEPER__TASK_POLL_INTERVAL": "1s"}


class Deployment(Home):
    """A catalog whose tasks Celery executes."""

    def __init__(self, server: CatalogServer, broker: str) -> None:
        super().__init__(server)
        self.broker = broker

    @contextmanager
    def celery(self, *arguments: str, settings: dict[str, str] | None = None) -> Iterator[CeleryProcess]:
        """Run `celery -A icekeeper` with these arguments."""
        log = self.server.home / f"celery-{time.monotonic_ns()}.log"
        environment = self.server.environment | {"PYTHONPATH": str(ROOT)} | (settings or {})
        running = process.start([*CELERY, *arguments], log=log, env=environment, cwd=self.server.home)
        try:
            yield CeleryProcess(running, log)
        finally:
            for child in children_of(running.pid):
                child.kill()
            process.kill(running)

    @contextmanager
    def worker(  # type: ignore[override]
        self, *arguments: str, name: str = "w", concurrency: int = 2, settings: dict[str, str] | None = None
    ) -> Iterator[CeleryProcess]:
        """Run a worker that is ready."""
        options = [
            "worker",
            "--hostname",
            f"{name}@%h",
            "--concurrency",
            str(concurrency),
            "--without-mingle",
            "--without-gossip",
        ]
        with self.celery(*options, *arguments, settings=settings) as running:
            until(lambda: " ready." in running.text)
            yield running

    @contextmanager
    def beat(self, **settings: str) -> Iterator[CeleryProcess]:
        with self.celery("beat", settings=settings) as running:
            until(lambda: "worker started" in running.text)
            yield running

    def ask(self, *arguments: str) -> str:
        return subprocess.run(
            [*CELERY, *arguments], env=self.server.environment | {"PYTHONPATH": str(ROOT)}, cwd=self.server.home,
            capture_output=True, text=True, check=False, timeout=60,
        ).stdout  # fmt: skip

    def purged(self) -> bool:
        return not self.tasks()

    def attempts(self, *statuses: str) -> list[tuple[str, int]]:
        found = self.execute("SELECT a.status, a.attempt FROM tasks_taskattempt AS a ORDER BY a.created_at")
        return [row for row in found if not statuses or row[0] in statuses]


class CeleryProcess:
    """A process of Celery, with its log."""

    def __init__(self, running: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = running, log

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def done(self, queue: str) -> int:
        """Return how many tasks of a queue it has executed."""
        return len(re.findall(rf'"task done","task":"[^"]+","queue":"{queue}"', self.text))


def children_of(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with Redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    with RabbitMq(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server


@pytest.fixture(scope="module")
def deploy(
    run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Deployment]]:
    with ExitStack() as started:

        def start(broker: str) -> Deployment:
            settings = NEVER | {"ICEKEEPER__CELERY__BROKER_URL": broker}
            name = f"celery-{broker.partition(':')[0]}"
            server = CatalogServer(
                tmp_path_factory.mktemp(name), database_url=run_environment.own_database(name),
                arguments=["--without-worker"], settings=settings,
            )  # fmt: skip
            return Deployment(started.enter_context(server), broker)

        yield start


@pytest.fixture(scope="module")
def on_redis(redis: Redis, deploy: Callable[[str], Deployment]) -> Deployment:
    return deploy(redis.url)


@pytest.fixture(autouse=True)
def broker_is_up(request: pytest.FixtureRequest) -> None:
    if "redis" in request.fixturenames:
        server: Redis = request.getfixturevalue("redis")
        server.kill()  # without the messages of the test before
        server.start()


@pytest.mark.part("redis")
def test_a_drop_wakes_a_worker_and_beat_keeps_the_timers(on_redis: Deployment, redis: Redis) -> None:
    """The table is purged after the drop, without beat and polls; what is due later is started by beat."""
    folder = on_redis.table("purged", folders=1, files=3)
    with on_redis.worker() as worker:
        on_redis.drop("purged")
        until(on_redis.purged)
        assert not folder.exists()
        on_redis.execute(
            "UPDATE tasks_task SET status = 'scheduled', finished_at = NULL, scheduled_for = now() + interval '3 s'"
            " WHERE queue = 'tabular_purge'"
        )
        with on_redis.beat():
            until(on_redis.purged)
        until(lambda: worker.done("tabular_purge") == 2)
        registered = on_redis.ask("inspect", "registered")
        assert re.findall(r"icekeeper\.\w+", registered) == [
            "icekeeper.file_statistics", "icekeeper.soft_deletion", "icekeeper.statistics", "icekeeper.tabular_purge",
            "icekeeper.task_log_cleanup",
        ]  # fmt: skip


@pytest.mark.part("rabbitmq")
def test_rabbitmq(rabbitmq: RabbitMq, deploy: Callable[[str], Deployment]) -> None:
    deployment = deploy(rabbitmq.url)
    folders = [deployment.table(f"t{number}") for number in range(5)]
    with deployment.worker() as worker, deployment.beat():
        for folder in folders:
            deployment.drop(folder.name)
        until(deployment.purged)
        until(lambda: worker.done("tabular_purge") == 5)
    assert not any(folder.exists() for folder in folders)


@pytest.mark.part("redis")
def test_two_workers_two_beats_and_many_messages_execute_each_task_once(on_redis: Deployment, redis: Redis) -> None:
    on_redis.execute("DELETE FROM tasks_taskattempt")
    folders = [on_redis.table(f"shared{number}", folders=1, files=3) for number in range(20)]
    messages = Celery(broker=redis.url)
    for folder in folders:
        on_redis.drop(folder.name)
        for _ in range(5):
            messages.send_task("icekeeper.tabular_purge", queue="tabular_purge")
    with on_redis.worker(name="a") as a, on_redis.worker(name="b") as b, on_redis.beat(), on_redis.beat():
        until(on_redis.purged)
        until(lambda: a.done("tabular_purge") + b.done("tabular_purge") == 20)
    assert not any(folder.exists() for folder in folders)
    assert on_redis.attempts("success", "failed").count(("success", 1)) >= 20
    assert on_redis.attempts("failed") == []


@pytest.mark.part("redis")
@pytest.mark.parametrize("fault", ["killed", "suspended"])
def test_while_the_broker_is_away_beat_executes_tasks(on_redis: Deployment, redis: Redis, fault: str) -> None:
    folder, later = on_redis.table(f"away-{fault}"), on_redis.table(f"back-{fault}")
    with on_redis.worker() as worker, on_redis.beat(**OFTEN) as beat:
        redis.kill() if fault == "killed" else redis.suspend()
        on_redis.drop(folder.name)
        until(on_redis.purged)
        assert not folder.exists()
        until(lambda: beat.done("tabular_purge") == 1)
        assert worker.done("tabular_purge") == 0
        assert "tasks are executed here, the broker cannot be reached" in beat.text
        redis.start() if fault == "killed" else redis.resume()
        if fault == "killed":
            until(lambda: worker.text.count("Connected to redis") > 1)
        on_redis.drop(later.name)
        until(on_redis.purged)
        assert not later.exists()


@pytest.mark.part("redis")
def test_a_worker_that_is_killed_during_a_purge_and_the_other_one(on_redis: Deployment, redis: Redis) -> None:
    living = on_redis.table("living", folders=2, files=10)
    before = sorted(living.rglob("*"))
    with on_redis.beat(**OFTEN), on_redis.worker(name="second", concurrency=1) as second:
        second.process.send_signal(signal.SIGSTOP)
        for child in children_of(second.process.pid):
            child.suspend()
        with on_redis.worker(name="first", concurrency=1) as first:
            folder = suspended_purge(on_redis, first, "killed")
            for each in [*children_of(first.process.pid), psutil.Process(first.process.pid)]:
                each.kill()
        assert on_redis.tasks() == [("running", 1)]
        assert folder.exists()
        for child in children_of(second.process.pid):
            child.resume()
        second.process.send_signal(signal.SIGCONT)
        on_redis.let_leases_end()
        until(on_redis.purged)
        until(lambda: second.done("tabular_purge") == 1)
    assert not folder.exists()
    assert sorted(living.rglob("*")) == before


@pytest.mark.part("redis")
def test_a_worker_that_is_stopped_gives_its_task_back(on_redis: Deployment, redis: Redis) -> None:
    with on_redis.worker(concurrency=1) as worker:
        folder = suspended_purge(on_redis, worker, "stopped")
        worker.process.send_signal(signal.SIGTERM)
        time.sleep(1)  # the main process sets the flag before its children continue
        for child in children_of(worker.process.pid):
            child.resume()
        assert worker.process.wait(60) == 0
        assert "task released" in worker.text
        assert on_redis.tasks() == [("scheduled", 1)]
        assert folder.exists()
    with on_redis.worker(), on_redis.beat():
        until(on_redis.purged)
    assert not folder.exists()


def suspended_purge(deployment: Deployment, worker: CeleryProcess, name: str) -> Path:
    """Drop a table, and suspend the processes of `worker` in the middle of the purge; return its folder."""
    for files in (100, 400, 1600):
        folder = deployment.table(f"{name}{files}", folders=20, files=files)
        data = folder / "data"
        deployment.drop(folder.name)
        until(lambda: len(list(data.iterdir())) < 20 if data.exists() else True)  # noqa: B023
        for child in children_of(worker.process.pid):
            child.suspend()
        if data.exists() and len(list(data.iterdir())) > 5:
            return folder
        for child in children_of(worker.process.pid):
            child.resume()
        until(deployment.purged)
    raise AssertionError("the worker is too fast")


@pytest.mark.part("redis")
@pytest.mark.part("faketime")
def test_clocks_that_jump_by_an_hour(on_redis: Deployment, redis: Redis, tmp_path: Path) -> None:
    """The clock of the database decides what is due: the workers' clocks start nothing early, and nothing twice."""
    on_redis.execute("DELETE FROM tasks_taskattempt")
    clock = Clock(tmp_path / "clock")
    early = on_redis.table("early", folders=1, files=3)
    on_redis.drop("early")
    on_redis.execute(
        "UPDATE tasks_task SET scheduled_for = now() + interval '30 min' WHERE queue = 'tabular_purge'"
        " AND finished_at IS NULL"
    )
    folders = [on_redis.table(f"jump{number}", folders=2, files=20) for number in range(8)]
    with (
        on_redis.worker(settings=clock.environment) as worker,
        on_redis.beat(**OFTEN, **clock.environment) as beat,
    ):
        for number, folder in enumerate(folders):
            clock.jump("+1h" if number % 2 else "-1h")
            on_redis.drop(folder.name)
        until(lambda: len(on_redis.tasks()) == 1)
        clock.jump("+1h")
        for queue in ("tabular_purge", "soft_deletion"):
            Celery(broker=redis.url).send_task(f"icekeeper.{queue}", queue=queue)
        until(lambda: worker.text.count("succeeded") > 1)
        hours = {line[11:13] for line in re.findall(r'"timestamp":"([^"]+)"', worker.text)}
        assert len(hours) >= 2, "the clock of the worker did not jump"
        assert on_redis.tasks() == [("scheduled", 0)]
        assert early.exists()
        assert beat.process.poll() is None
    assert not any(folder.exists() for folder in folders)
    assert on_redis.attempts() == [("success", 1)] * 8
    on_redis.execute("UPDATE tasks_task SET scheduled_for = now() WHERE finished_at IS NULL")
    with on_redis.worker(), on_redis.beat():
        until(on_redis.purged)


@pytest.mark.part("redis")
def test_hostile_and_old_messages_change_nothing(on_redis: Deployment, redis: Redis) -> None:
    messages = Celery(broker=redis.url)
    with on_redis.worker() as worker:
        before = on_redis.execute("SELECT count(*), max(updated_at) FROM tasks_task")
        messages.send_task("icekeeper.tabular_purge", args=["../.."], kwargs={"queue": "x"}, queue="tabular_purge")
        messages.send_task("os.system", args=["touch /tmp/hacked"], queue="tabular_purge")
        for _ in range(3):
            messages.send_task("icekeeper.tabular_purge", queue="tabular_purge", countdown=-3600)
        until(lambda: worker.text.count("succeeded") >= 3)
        assert "TypeError" in worker.text
        assert "unregistered task" in worker.text
        assert on_redis.execute("SELECT count(*), max(updated_at) FROM tasks_task") == before


@pytest.mark.part("redis")
def test_a_worker_of_one_queue_and_one_of_an_unknown_queue(on_redis: Deployment, redis: Redis) -> None:
    with on_redis.worker("-Q", "tabular_purge"):
        assert "soft_deletion" not in on_redis.ask("inspect", "active_queues")
    with on_redis.celery("worker", "-Q", "tabular_purges") as running:
        assert running.process.wait(60) != 0
        assert "tabular_purges" in running.text


@pytest.mark.part("redis")
def test_without_a_broker_or_a_database_celery_does_not_start(on_redis: Deployment, redis: Redis) -> None:
    with on_redis.celery("worker", settings={"ICEKEEPER__CELERY__BROKER_URL": ""}) as running:
        assert running.process.wait(60) != 0
        assert "ICEKEEPER__CELERY__BROKER_URL" in running.text
    unusable = {"LAKEKEEPER__PG_DATABASE_URL_WRITE": "postgresql://someone@127.0.0.1:1/nothing"}
    for form in ("worker", "beat"):
        with on_redis.celery(form, settings=unusable) as running:
            assert running.process.wait(60) != 0
            assert "Traceback" not in running.text
            assert "127.0.0.1" in running.text
