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

from tests.chaos.load import Warehouse
from tests.parts import process
from tests.parts.minio import Minio
from tests.parts.postgres import Postgres
from tests.parts.server import ROOT, CatalogServer

EXPIRATION_SECONDS = 3
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

    def kill(self) -> None:
        if self._process is not None:
            process.kill(self._process)
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            process.stop(self._process, gently=signal.SIGTERM, seconds=30)
            self._process = None


class Cluster:
    """Two servers, two workers, PostgreSQL and MinIO. A context manager."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home = home
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
        self.servers = [
            CatalogServer(
                self.home / f"server{number}", database_url=self.postgres.url, workers=2,
                arguments=["--without-worker"], settings=SETTINGS,
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
        command = [sys.executable, ROOT / "manage.py", "worker"]
        self.workers = [Program(f"worker{number}", command, self.servers[0]) for number in (1, 2)]
        for worker in self.workers:
            worker.start()
            self._stack.callback(worker.kill)

    def disturb(self, until: float) -> None:
        """Inject one fault at a time until `until` on the monotonic clock; on return everything runs."""
        faults = self._faults()
        while time.monotonic() < until:
            time.sleep(min(self.random.expovariate(1 / PAUSE_SECONDS), 2 * PAUSE_SECONDS))
            name = self.random.choice(list(faults))
            self.counts[name] += 1
            faults[name]()

    def _faults(self) -> dict[str, Callable[[], None]]:
        return {
            "kill a server": self._kill_server,
            "stop a server": self._stop_server,
            "kill a worker": lambda: self._restart(self.random.choice(self.workers), Program.kill),
            "stop a worker": lambda: self._restart(self.random.choice(self.workers), Program.stop),
            "kill PostgreSQL": self._kill_postgres,
            "cut database sessions": self._cut_sessions,
            "kill MinIO": lambda: self.minio.restart_after_kill(self.random.uniform(0, 2)),
            "MinIO does not respond": self._silence_minio,
        }

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
