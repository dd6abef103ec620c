"""`make bench`: measure the catalog on PostgreSQL and local files, then on MinIO, operation by operation, and the pages
of the console.

Reads are measured against their floors, alternating in short rounds, so that other load on the machine affects both
alike. Compare ratios and CPU per operation, not requests per second of different days.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.parts.postgres import Postgres
from tests.parts.process import PartError
from tests.parts.server import CatalogServer
from tests.perf import console, cpu, floors, load, object_store, report, rights, rows, wrk
from tests.perf.authenticated_server import authenticated
from tests.perf.connection import Connection
from tests.perf.contents import HOT, HOT_TABLE, Contents
from tests.perf.floor_server import FloorServer
from tests.perf.load import Job, Measured
from tests.perf.report import Row
from tests.perf.rows import Read, Write

RESULTS = Path(__file__).resolve().parents[2] / "build" / "bench"
CONSOLE = "console"
"""The key of the pages of the console."""

WORKERS, THREADS = 2, 8
ROUNDS = 5
SETTINGS = {"LAKEKEEPER__PG_ENCRYPTION_KEY": "of a catalog that is measured and thrown away"}


class Bench:
    """One run: the running servers, the operations and durations, and the rows so far."""

    def __init__(self, options: argparse.Namespace, catalog: CatalogServer, postgres: Postgres) -> None:
        self.options = options
        self.catalog = catalog
        self.postgres = postgres
        self.rows: list[Row] = []
        self.layers: dict[str, float] = {}
        self.processes = {"database": postgres.pid}

    def run(self) -> None:
        contents = Contents(self.catalog.port, self.catalog.warehouse)
        contents.create()
        print(report.head(), flush=True)
        self._measure_reads(rows.reads(contents))
        if any(self._is_chosen(read.key) for read in rows.long_reads(contents)):
            contents.add_long_histories()
            self._measure_reads(rows.long_reads(contents))
        if any(self._is_chosen(read.key) for read in rows.late_reads(contents)):
            contents.add_other_snapshots()
            contents.add_many_tables()
            self._measure_reads(rows.late_reads(contents))
        if self._is_chosen("token"):
            self._measure_token(contents)
        if not self.options.only or any(key.startswith("rights") for key in self.options.only):
            self._measure_rights(contents)
        if self._is_chosen("layers"):
            self.layers = self._measure_layers(contents.table_path(HOT, HOT_TABLE))
        self._measure_writes(rows.writes(contents))
        if not self.options.only or any(key.startswith("s3-") for key in self.options.only):
            self._measure_on_minio()

    def _measure_writes(self, writes: list[Write]) -> None:
        for write in writes:
            if self._is_chosen(write.key):
                for clients in write.clients:
                    self._note(self._write(write, clients))

    def _measure_on_minio(self) -> None:
        with object_store.warehouse_on_minio(self.catalog, self.catalog.home / "minio") as (store, contents):
            self.processes["store"] = store.pid
            self._measure_reads(object_store.reads(contents, f"http://127.0.0.1:{store.port}/"))
            self._measure_writes(object_store.writes(contents))

    def facts(self) -> dict[str, Any]:
        """The facts that the figures depend on."""
        return {
            "when": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
            "postgresql": self.postgres.programs.version,
            "generator": "wrk for reads" if self._uses_wrk else "Python sockets",
            "workers": WORKERS,
            "threads": THREADS,
            "seconds": self.options.seconds,
            "largest_server_process_mb": round(cpu.largest_memory_mb(self.catalog.pid)),
        }

    @property
    def _uses_wrk(self) -> bool:
        return wrk.is_installed() and not self.options.no_wrk

    def _takes_wrk(self, read: Read) -> bool:
        return self._uses_wrk and read.method == "GET" and not read.headers  # wrk waits for HEAD's body

    def _is_chosen(self, key: str) -> bool:
        return not self.options.only or key in self.options.only

    def _note(self, row: Row) -> None:
        self.rows.append(row)
        print(report.line(row), flush=True)

    def _measure_reads(self, reads: list[Read]) -> None:
        chosen = [read for read in reads if self._is_chosen(read.key)]
        sizes = {read.key: _response_bytes(self.catalog.port, read) for read in chosen}
        database_url = self.postgres.url_of("floors")
        floors.fill(database_url, sizes)
        with FloorServer(self.catalog, database_url=database_url) as floor_server:
            for read in chosen:
                for clients in (1, 8):
                    self._note(self._read(read, clients, sizes[read.key], floor_server))

    def _read(self, read: Read, clients: int, size: int, floor_server: FloorServer) -> Row:
        row = Row(read.key, read.title, clients, Measured(), size)
        rounds = max(1, int(self.options.seconds)) if self._takes_wrk(read) else ROUNDS  # wrk counts whole seconds
        seconds = self.options.seconds / rounds
        for _ in range(rounds):
            measured = self._slice(read, clients, self.catalog, seconds)
            of_floors = {}
            for name in report.FLOORS:
                same = Read(read.key, name, f"/{name}/{read.key}", read.method)
                of_floors[name] = self._slice(same, clients, floor_server, seconds)
            row.add_round(measured, of_floors)
        return row

    def _measure_token(self, contents: Contents) -> None:
        """Measure a load with a verified token, alternating with a server without authentication."""
        load_table = next(read for read in rows.reads(contents) if read.key == "load")
        storage = {"ICEKEEPER__LOCAL_STORAGE_ROOT": str(self.catalog.storage_root)}
        home = self.catalog.home / "authenticated"
        home.mkdir()
        with authenticated(home, self.postgres.url, WORKERS, THREADS, storage) as (server, token):
            with_token = replace(load_table, headers={"Authorization": f"Bearer {token}"})
            for clients in (1, 8):
                plain = Row("token", "loadTable without authentication", clients, Measured())
                known = Row("token", "loadTable with a verified token", clients, Measured())
                for _ in range(ROUNDS):
                    seconds = self.options.seconds / ROUNDS
                    plain.add_round(self._slice(with_token, clients, self.catalog, seconds), {})
                    known.add_round(self._slice(with_token, clients, server, seconds), {})
                self._note(plain)
                self._note(known)

    def _measure_rights(self, contents: Contents) -> None:
        """Measure reads with the built-in authorizer, alternating with a server that allows every request."""
        rights.create_tables(contents, self.catalog.port)
        loads = rights.grant(self.postgres.url)
        storage = {"ICEKEEPER__LOCAL_STORAGE_ROOT": str(self.catalog.storage_root)}
        home = self.catalog.home / "rights"
        with rights.servers_with_authorization(home, self.postgres.url, storage, workers=WORKERS, threads=THREADS) as (
            servers,
            provider,
        ):
            for read in rights.reads(contents, provider, loads):
                if self._is_chosen(read.key) or self._is_chosen("rights"):
                    for clients in (1, 8):
                        self._compare(read, servers, clients)

    def _compare(self, read: rights.AuthorizedReads, servers: dict[str, CatalogServer], clients: int) -> None:
        found = {name: Row(read.key, f"{read.title}: {name}", clients, Measured()) for name in servers}
        for _ in range(ROUNDS):
            for name, server in servers.items():
                job = Job(server.port, read.operations, self.options.seconds / ROUNDS)
                trees = {"server": server.pid} | self.processes
                found[name].add_round(load.measure(job, clients=clients, trees=trees), {})
        for row in found.values():
            self._note(row)

    def _slice(self, read: Read, clients: int, server: CatalogServer | FloorServer, seconds: float) -> Measured:
        trees = {"server": server.pid} | self.processes
        if self._takes_wrk(read):
            url = f"http://127.0.0.1:{server.port}{read.path}"
            return wrk.measure(url, clients=clients, seconds=seconds, trees=trees)
        return load.measure(Job(server.port, read.operations, seconds), clients=clients, trees=trees)

    def _measure_layers(self, table_path: str) -> dict[str, float]:
        """Measure the layers of a load in a separate process while the server is idle."""
        command = [sys.executable, "-m", "tests.perf.layers", table_path]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.catalog.environment)
        if done.returncode:
            raise PartError(f"the layers could not be measured: {done.stderr[-2000:]}")
        found: dict[str, float] = json.loads(done.stdout)
        return found

    def _write(self, write: Write, clients: int) -> Row:
        job = Job(self.catalog.port, write.operations, self.options.seconds, write.retried)
        trees = {"server": self.catalog.pid} | self.processes
        return Row(write.key, write.title, clients, load.measure(job, clients=clients, trees=trees))


def _response_bytes(port: int, read: Read) -> int:
    status, body = Connection(port).send(read.message)
    if status // 100 != 2 and status != load.NOT_MODIFIED:
        raise PartError(f"{read.method} {read.path} returned {status}: {body[:500]!r}")
    return len(body)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure the catalog against its floors.")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each figure is measured (default 3)")
    parser.add_argument("--only", nargs="*", default=[], metavar="KEY", help="rows to measure, such as load append")
    parser.add_argument("--no-wrk", action="store_true", help="measure reads with the own generator all the same")
    parser.add_argument(
        "--console-large",
        action="store_true",
        help="measure the console with 100,000 tables and 10 M audit records: the fill takes minutes and 15 GB of disk",
    )
    options = parser.parse_args(arguments)
    of_console = console.main(["--large"] if options.console_large else []) if _has_console(options.only) else 0
    if options.only == [CONSOLE]:
        return of_console
    path = RESULTS / f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}.json"
    with tempfile.TemporaryDirectory(prefix="icekeeper-bench-") as folder, Postgres() as postgres:
        home = Path(folder)
        postgres.create_database("floors")
        with CatalogServer(
            home,
            database_url=postgres.url,
            workers=WORKERS,
            threads=THREADS,
            arguments=["--without-worker"],
            settings=SETTINGS,
        ) as catalog:
            catalog.create_warehouse("bench")
            bench = Bench(options, catalog, postgres)
            bench.run()
            facts = bench.facts()
    report.write(path, bench.rows, facts | {"layers_us": bench.layers})
    if bench.layers:
        print("\nCPU of a load in one process without a socket, in microseconds (the first rows hold the later ones)")
        for name, microseconds in bench.layers.items():
            print(f"  {name:<36}{microseconds:>6.0f}")
    print("\n" + ", ".join(f"{name} {value}" for name, value in facts.items()))
    print(f"As JSON: {path}")
    failed = [row.title for row in bench.rows if row.measured.errors or not row.measured.latencies]
    if failed:
        print(f"make bench: not every operation succeeded: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed or of_console))


def _has_console(only: list[str]) -> bool:
    return not only or CONSOLE in only


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except (PartError, ConnectionError) as error:
        sys.exit(f"make bench: {error}")
