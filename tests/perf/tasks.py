"""Measure tasks: `python -m tests.perf.tasks`. Purge of many objects, expirations, claims, and the time until a purge.

PostgreSQL and MinIO run on this machine, too, and take most of the CPU: MinIO about 0.2 ms for each object on a disk in
memory (`TMPDIR=/dev/shm`). So compare the CPU columns, and run it on an idle machine. It prints the goal of each row;
a missed one is no error.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.parts import process
from tests.parts.minio import Minio
from tests.parts.postgres import Postgres
from tests.parts.process import PartError
from tests.parts.server import ROOT, CatalogServer
from tests.perf import cpu
from tests.perf.connection import Connection
from tests.perf.contents import MAKERS, Contents, new_table

BUCKET, NAMESPACE = "bench", "ns"
OBJECTS_PER_FOLDER: Final = 1_000
EXPIRATIONS, DROPS = 2_000, 200
FINISHED, DUE, CLAIMS = 1_000_000, 100_000, 200
SETTINGS = {"LAKEKEEPER__PG_ENCRYPTION_KEY": "of a catalog that is measured and thrown away"}
SOFT = {"type": "soft", "expiration-seconds": 86_400}


class TaskBench:
    """Starts the servers of each measurement below `home`, and prints its figures."""

    def __init__(self, options: argparse.Namespace, home: Path, postgres: Postgres) -> None:
        self.options, self.home, self.postgres = options, home, postgres

    def note(self, title: str, goal: str, measured: str) -> None:
        print(f"{title:<60}{goal:>12}  {measured}", flush=True)

    @contextmanager
    def catalog(self, name: str, *arguments: str) -> Iterator[CatalogServer]:
        """Run a server with a new database."""
        home = self.home / name
        home.mkdir()
        url = self.postgres.create_database(name)
        with CatalogServer(
            home, database_url=url, workers=1, threads=8, arguments=arguments, settings=SETTINGS
        ) as server:
            yield server

    def measure_purge(self) -> None:
        """One worker process deletes the objects of one table."""
        number = self.options.objects
        with self.catalog("purge", "--without-worker") as server, Minio(self.home / "minio") as store:
            store.create_bucket(BUCKET)
            direct = f"http://127.0.0.1:{store.port}/"
            server.create_warehouse_on("objects", store.storage(BUCKET, "wh", endpoint=direct))
            contents = Contents(server.port, server.warehouse)
            create_tables(server.port, contents, ["t"])
            location = contents.load(NAMESPACE, "t")["location"]
            began = time.monotonic()
            write_objects(store, location.removeprefix(f"s3://{BUCKET}/"), number)
            print(f"{number:,} objects written in {time.monotonic() - began:.0f} s", flush=True)
            listed = json.loads(run_module(server, "tests.perf.listing", server.warehouse_id, location))
            self.note("objects listed per second", "", f"{listed['objects'] / listed['seconds']:,.0f}")
            drop(server.port, contents, "t", purge=True)
            store_cpu = cpu.seconds(store.pid)
            worker = start_worker(server, "--once", "--queue", "tabular_purge")
            _, status, usage = os.wait4(worker.pid, 0)
            store_cpu = cpu.seconds(store.pid) - store_cpu
            if status:
                raise PartError(f"the worker failed: {process.log_end(server.home / 'worker.log')}")
            (seconds, details), *_ = rows(
                server, "SELECT extract(epoch FROM finished_at - picked_up_at)::float, execution_details"
                " FROM tasks_task WHERE queue = 'tabular_purge' AND status = 'success'",
            )  # fmt: skip
            left = len(store.keys(BUCKET, "wh/"))
        deleted = details["deleted-files"]
        if left or deleted <= number:  # also the metadata file
            raise PartError(f"{left} objects are left, {details} are reported")
        own_cpu = usage.ru_utime + usage.ru_stime
        rate = f"{deleted / seconds:,.0f} ({deleted:,} in {seconds:.1f} s)"
        self.note("objects deleted per second", ">= 5,000", rate)
        self.note("  CPU of the worker for 1,000 objects", "", f"{own_cpu / deleted * 1e6:.0f} ms")
        self.note("  CPU of MinIO for 1,000 objects", "", f"{store_cpu / deleted * 1e6:.0f} ms")
        self.note(f"peak memory of the worker, {number:,} objects", "<= 200 MB", f"{usage.ru_maxrss / 1000:.0f} MB")

    def measure_expirations(self) -> None:
        """Two worker processes delete soft-deleted tables that all become due at the same time."""
        with self.catalog("expirations", "--without-worker") as server:
            profile = {"type": "local", "path": str(server.storage_root / "soft")}
            server.create_warehouse_on("soft", {"storage-profile": profile, "delete-profile": SOFT})
            contents = Contents(server.port, server.warehouse)
            names = [f"t{number}" for number in range(EXPIRATIONS)]
            create_tables(server.port, contents, names)
            in_parallel(server.port, names, lambda connection, name: drop_with(connection, contents, name, purge=False))
            workers = [start_worker(server, "--queue", "soft_deletion") for _ in range(2)]
            time.sleep(5)  # they are ready
            trees = [*(worker.pid for worker in workers), self.postgres.pid]
            before = [cpu.seconds(pid) for pid in trees]
            rows(server, "UPDATE tasks_task SET scheduled_for = now() WHERE queue = 'soft_deletion' RETURNING 1")
            rows(server, "SELECT pg_notify('icekeeper_tasks', 'soft_deletion')")
            while rows(
                server, "SELECT 1 FROM tasks_task WHERE queue = 'soft_deletion' AND finished_at IS NULL LIMIT 1"
            ):
                time.sleep(0.5)
            used = [cpu.seconds(pid) - earlier for pid, earlier in zip(trees, before, strict=True)]
            for worker in workers:
                worker.send_signal(signal.SIGTERM)
            for worker in workers:
                worker.wait(30)
            (seconds,), *_ = rows(
                server,
                "SELECT extract(epoch FROM max(finished_at) - min(picked_up_at))::float FROM tasks_task"
                " WHERE queue = 'soft_deletion'",
            )
        self.note("expirations per minute, two processes", ">= 3,000", f"{EXPIRATIONS / seconds * 60:,.0f}")
        self.note("  CPU of the worker for each", "", f"{sum(used[:2]) / EXPIRATIONS * 1000:.1f} ms")
        self.note("  CPU of PostgreSQL for each", "", f"{used[2] / EXPIRATIONS * 1000:.1f} ms")

    def measure_claims(self) -> None:
        """Claims among many tasks."""
        with self.catalog("claims", "--without-worker") as server:
            rows(server, INSERT_TASKS.format(number=FINISHED, warehouses=100, queue="soft_deletion", **ENDED))
            rows(server, INSERT_TASKS.format(number=DUE, warehouses=100, queue="tabular_purge", **WAITING))
            with psycopg.connect(self.postgres.url_of("claims"), autocommit=True) as database:
                database.execute("VACUUM ANALYZE tasks_task")
            found = json.loads(run_module(server, "tests.perf.claims", str(CLAIMS)))
        ends = statistics.quantiles(found["ms"], n=100)
        of_tasks = f"{FINISHED:,} finished, {DUE:,} due"
        self.note(f"claim, {of_tasks}: median", "<= 5 ms", f"{statistics.median(found['ms']):.2f} ms")
        self.note("  p99", "", f"{ends[98]:.2f} ms")
        self.note("  full scans of the table in its plan", "0", str(found["full_scans"]))

    def measure_drops(self) -> None:
        """The time from the response of a drop with purge until the files of a small table are deleted."""
        with self.catalog("drops") as server:
            server.create_warehouse("local")
            contents = Contents(server.port, server.warehouse)
            names = [f"t{number}" for number in range(DROPS)]
            create_tables(server.port, contents, names)
            folders = [Path(contents.load(NAMESPACE, name)["location"].removeprefix("file://")) for name in names]
            waits = []
            for name, folder in zip(names, folders, strict=True):
                drop(server.port, contents, name, purge=True)
                responded = time.perf_counter()
                while folder.exists():
                    time.sleep(0.0005)
                waits.append((time.perf_counter() - responded) * 1000)
        self.note(f"drop's response to deleted files, {DROPS} drops: median", "", f"{statistics.median(waits):.1f} ms")
        self.note("  p99", "<= 1,000 ms", f"{statistics.quantiles(waits, n=100)[98]:.1f} ms")


INSERT_TASKS = """
INSERT INTO tasks_task (id, queue, project_id, warehouse_id, entity_type, entity_id, entity_name, payload,
       payload_version, priority, status, scheduled_for, attempt, forgiven_failures, progress, message, created_by,
       created_at, picked_up_at, finished_at)
SELECT gen_random_uuid(), '{queue}', '00000000-0000-0000-0000-000000000000',
       lpad((n % {warehouses})::text, 32, '0')::uuid, 'table', gen_random_uuid(), '["ns", "t"]', '{{}}',
       1, 0, '{status}', now() - interval '1 hour' + n * interval '1 ms',
       {attempt}, 0, {attempt}, '', '', now() - interval '1 day', {end}, {end}
  FROM generate_series(1, {number}) AS n RETURNING NULL
"""
ENDED = {"status": "success", "attempt": 1, "end": "now() - interval '1 day' + n * interval '1 ms'"}
WAITING = {"status": "scheduled", "attempt": 0, "end": "NULL::timestamptz"}


def write_objects(store: Minio, prefix: str, number: int) -> None:
    """Write small objects below a prefix as MinIO stores them: requests would take longer than the purge."""
    template = f"{prefix}/data/template"
    store.client().put_object(Bucket=BUCKET, Key=template, Body=b"0123456789")
    top = store.home / "data" / BUCKET / prefix / "data"
    content = (top / "template" / "xl.meta").read_bytes()
    for first in range(0, number - 1, OBJECTS_PER_FOLDER):
        folder = top / f"part={first // OBJECTS_PER_FOLDER:05d}"
        folder.mkdir()
        for each in range(first, min(number - 1, first + OBJECTS_PER_FOLDER)):
            written = f"{folder}/{each:08d}-0f6c2b1e-4000-8000-0000.parquet"
            os.mkdir(written)  # noqa: PTH102 - a million paths
            descriptor = os.open(f"{written}/xl.meta", os.O_WRONLY | os.O_CREAT, 0o644)
            os.write(descriptor, content)
            os.close(descriptor)


def start_worker(server: CatalogServer, *arguments: str) -> subprocess.Popen[bytes]:
    command: list[str | Path] = [sys.executable, ROOT / "manage.py", "worker", *arguments]
    return process.start(command, log=server.home / "worker.log", env=server.environment, cwd=server.home)


def run_module(server: CatalogServer, module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=server.environment, cwd=ROOT)
    if done.returncode:
        raise PartError(f"{module} failed: {done.stderr[-2000:]}")
    return done.stdout


def rows(server: CatalogServer, statement: str) -> list[tuple[Any, ...]]:
    url = server.environment["LAKEKEEPER__PG_DATABASE_URL_WRITE"]
    with psycopg.connect(url, autocommit=True) as database:
        return database.execute(statement.encode()).fetchall()


def create_tables(port: int, contents: Contents, names: list[str]) -> None:
    path = f"{contents.prefix}/namespaces"
    Connection(port).call("POST", path, {"namespace": [NAMESPACE], "properties": {}})
    in_parallel(
        port, names, lambda connection, name: connection.call("POST", f"{path}/{NAMESPACE}/tables", new_table(name))
    )


def drop(port: int, contents: Contents, name: str, *, purge: bool) -> None:
    drop_with(Connection(port), contents, name, purge=purge)


def drop_with(connection: Connection, contents: Contents, name: str, *, purge: bool) -> None:
    connection.call("DELETE", f"{contents.table_path(NAMESPACE, name)}?purgeRequested={str(purge).lower()}")


def in_parallel(port: int, names: list[str], act: Callable[[Connection, str], object]) -> None:
    def act_on_some(maker: int) -> None:
        connection = Connection(port)
        for name in names[maker::MAKERS]:
            act(connection, name)
        connection.close()

    with ThreadPoolExecutor(MAKERS) as makers:
        list(makers.map(act_on_some, range(MAKERS)))


ROWS: Final[dict[str, Callable[[TaskBench], None]]] = {
    "purge": TaskBench.measure_purge,
    "expirations": TaskBench.measure_expirations,
    "claims": TaskBench.measure_claims,
    "drops": TaskBench.measure_drops,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.perf.tasks", description="Measure tasks and their worker.")
    parser.add_argument("--objects", type=int, default=100_000, help="objects of the purged table (default 100,000)")
    parser.add_argument("--only", nargs="*", default=list(ROWS), choices=list(ROWS), help="what to measure")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="icekeeper-bench-") as folder, Postgres() as postgres:
        bench = TaskBench(options, Path(folder), postgres)
        bench.note("measured", "goal", "value")
        for key in options.only:
            ROWS[key](bench)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (PartError, ConnectionError) as error:
        sys.exit(f"tests.perf.tasks: {error}")
