"""A whole deployment in separate processes, and its faults: each part killed, stopped, interrupted or restarted."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import psycopg
import requests
from celery import Celery

from tests.chaos.load import Warehouse
from tests.chaos.receivers import Receivers
from tests.parts import process
from tests.parts.minio import Minio
from tests.parts.postgres import Postgres
from tests.parts.redis import Redis
from tests.parts.server import ROOT, CatalogServer

FORMS = ("worker", "celery")
START_SECONDS = 60
EXPIRATION_SECONDS = 3
LEASE_SECONDS = 60
"""Without a heartbeat: the tasks of a killed worker are taken over after that time."""
MAX_WARNINGS = 5
PAUSE_SECONDS = 2.0
"""Between two faults, on average."""

SETTINGS = {
    "LAKEKEEPER__PG_ENCRYPTION_KEY": "chaos-encryption-key-0123456789abcdef",
    "LAKEKEEPER__TASK_POLL_INTERVAL": "2s",
    "ICEKEEPER__STORAGE__ALLOW_PRIVATE_ENDPOINTS": "true",
    "ICEKEEPER__STORAGE__ALLOW_HTTP_ENDPOINTS": "true",
}


class Program:
    """A process of the deployment that can be killed and started again."""

    def __init__(self, name: str, command: Sequence[str | Path], server: CatalogServer) -> None:
        self.name, self.command, self._server = name, command, server
        self.log_path = server.home / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = process.start(
            self.command, log=self.log_path, env=self._server.environment | {"PYTHONPATH": str(ROOT)},
            cwd=self._server.home,
        )  # fmt: skip

    def wait_for(self, text: str) -> None:
        """Wait until the log contains a text. Raises `TimeoutError` after a minute."""
        end = time.monotonic() + START_SECONDS
        while text not in self.log_path.read_text(errors="replace"):
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name} did not log {text!r}")
            time.sleep(0.1)

    def kill(self) -> None:
        if self._process is not None:
            process.kill(self._process)
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            process.stop(self._process, gently=signal.SIGTERM, seconds=30)
            self._process = None


class Cluster:
    """Two servers, PostgreSQL, MinIO, receivers of events, and what executes tasks. A context manager.

    In the form `worker` these are two workers, and Kafka is one of the receivers; in the form `celery` two Celery
    workers, two beats and Redis.
    """

    def __init__(self, home: Path, seed: int, form: str) -> None:
        self.home, self.form, self.seed = home, form, seed
        self.random = random.Random(f"{seed} faults")
        self.counts: Counter[str] = Counter()
        self._stack = ExitStack()
        self.warehouses: list[Warehouse] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        enter = self._stack.enter_context
        self.postgres = enter(Postgres())
        self.minio = enter(Minio(self.home / "minio"))
        self.receivers = enter(Receivers(self.home / "receivers", self.seed, has_kafka=self.form == "worker"))
        settings = SETTINGS | self.receivers.settings
        if self.form == "celery":
            self.redis = enter(Redis(self.home / "redis"))
            settings |= {"ICEKEEPER__CELERY__BROKER_URL": self.redis.url}
        self.servers = [
            CatalogServer(
                self.home / f"server{number}", database_url=self.postgres.url, workers=2,
                arguments=["--without-worker"], settings=settings,
            )
            for number in (1, 2)
        ]  # fmt: skip
        self.servers[0].prepare()
        for server in self.servers:
            server.storage_root.mkdir(parents=True, exist_ok=True)
            server.start()
            self._stack.callback(server.kill)
        for name, profile in (
            ("hard", {"type": "hard"}),
            ("soft", {"type": "soft", "expiration-seconds": EXPIRATION_SECONDS}),
        ):
            bucket = self.minio.create_bucket(name)
            storage = self.minio.storage(bucket, "lake") | {"delete-profile": profile}
            identifier = self.servers[0].create_warehouse_on(name, storage)
            self.warehouses.append(Warehouse(identifier, bucket, name == "soft"))
            for queue in ("soft_deletion", "tabular_purge"):
                self._let_leases_end_soon(identifier, queue)
        self.receivers.create_webhook(self.servers[0])
        self._start_workers()

    def _let_leases_end_soon(self, warehouse_id: str, queue: str) -> None:
        target = f"{self.servers[0].base_url}/management/v1/warehouse/{warehouse_id}/task-queue/{queue}/config"
        body = {"queue-config": {}, "max-seconds-since-last-heartbeat": LEASE_SECONDS}
        requests.post(target, json=body, timeout=20).raise_for_status()

    def _start_workers(self) -> None:
        worker, beat = [sys.executable, ROOT / "manage.py", "worker"], list[str | Path]()
        if self.form == "celery":
            celery = [sys.executable, "-m", "celery", "-A", "icekeeper"]
            worker = [*celery, "worker", "--concurrency", "3", "--hostname", "{name}@%h"]
            beat = [*celery, "beat"]
        self.workers = [self._program(f"worker{number}", worker) for number in (1, 2)]
        self.beats = [self._program(f"beat{number}", beat) for number in (1, 2)] if beat else []
        for program in [*self.workers, *self.beats]:
            program.start()
            self._stack.callback(program.kill)
        if (
            self.form == "worker"
        ):  # a worker that cannot reach the database while it starts exits, and nothing restarts it
            for program in self.workers:
                program.wait_for("worker started")

    def _program(self, name: str, command: Sequence[str | Path]) -> Program:
        return Program(name, [str(word).replace("{name}", name) for word in command], self.servers[0])

    def last_warnings(self) -> list[str]:
        """Return the last warnings and errors in the log of each worker and beat."""
        found: list[str] = []
        for program in [*self.workers, *self.beats]:
            lines = program.log_path.read_text(errors="replace").splitlines()
            warnings = [line for line in lines if '"level":"WARNING"' in line or '"level":"ERROR"' in line]
            found += [f"{program.name}: {line}" for line in warnings[-MAX_WARNINGS:]]
        return found

    def disturb(self, until: float) -> None:
        """Inject one fault at a time until `until` on the monotonic clock; on return everything runs."""
        faults = self._faults()
        while time.monotonic() < until:
            time.sleep(min(self.random.expovariate(1 / PAUSE_SECONDS), 2 * PAUSE_SECONDS))
            name = self.random.choice(list(faults))
            self.counts[name] += 1
            faults[name]()

    def _faults(self) -> dict[str, Callable[[], None]]:
        faults: dict[str, Callable[[], None]] = {
            "kill a server": self._kill_server,
            "stop a server": self._stop_server,
            "kill a worker": lambda: self._restart(self.random.choice(self.workers), Program.kill),
            "stop a worker": lambda: self._restart(self.random.choice(self.workers), Program.stop),
            "kill PostgreSQL": self._kill_postgres,
            "cut database sessions": self._cut_sessions,
            "kill MinIO": lambda: self.minio.restart_after_kill(self.random.uniform(0, 2)),
            "MinIO does not respond": self._silence_minio,
            **self.receivers.faults(),
        }
        if self.form == "celery":
            faults |= {
                "kill a beat": lambda: self._restart(self.random.choice(self.beats), Program.kill),
                "stop a beat": lambda: self._restart(self.random.choice(self.beats), Program.stop),
                "kill Redis": self._kill_redis,
                "Redis does not respond": self._silence_redis,
                "duplicate messages": self._repeat_messages,
            }
        return faults

    def _kill_server(self) -> None:
        server = self.random.choice(self.servers)
        server.kill()
        time.sleep(self.random.uniform(0, 1))
        server.start()

    def _stop_server(self) -> None:
        self.random.choice(self.servers).restart()

    def _restart(self, program: Program, end: Callable[[Program], None]) -> None:
        end(program)
        time.sleep(self.random.uniform(0, 2))
        program.start()

    def _kill_postgres(self) -> None:
        self.postgres.kill()
        time.sleep(self.random.uniform(0, 1))
        self.postgres.resume()

    def _cut_sessions(self) -> None:
        with psycopg.connect(self.postgres.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE datname = "
                "current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 3) AS sessions"
            )

    def _silence_minio(self) -> None:
        with self.minio.relay.silent():
            time.sleep(self.random.uniform(0.5, 3))

    def _kill_redis(self) -> None:
        self.redis.kill()
        time.sleep(self.random.uniform(0, 3))
        self.redis.start()

    def _silence_redis(self) -> None:
        self.redis.suspend()
        time.sleep(self.random.uniform(0.5, 8))
        self.redis.resume()

    def _repeat_messages(self) -> None:
        app = Celery(broker=self.redis.url)
        for queue in ("soft_deletion", "tabular_purge", "task_log_cleanup", "statistics"):
            for _ in range(10):
                app.send_task(f"icekeeper.{queue}", queue=queue)
