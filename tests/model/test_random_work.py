"""Random work of several processes on a server that is killed repeatedly, verified by a model of a catalog.

Half of a process's work is on its own names, where each response must be that of a sequential model (`owner.py`); the
other half is on shared names, and is verified from files and journals (`shared_names.py`, `history.py`). After every
round the processes pause, and rows, files and responses must agree (`invariants.py`). `ICEKEEPER_TEST_SEED` repeats
the same requests, `ICEKEEPER_TEST_SECONDS` sets the duration.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.model.bindings import check_bindings
from tests.model.contents import Contents, read_contents
from tests.model.history import History
from tests.model.invariants import check_contents, check_responses
from tests.model.journal import Fault, Journal, Result
from tests.model.names import STABLE
from tests.model.quiet_requests import ask
from tests.model.server_faults import Disturber, Watch
from tests.model.worker import Worker, work_a_round
from tests.parts.server import CatalogServer

IS_LONG = os.environ.get("ICEKEEPER_TEST_LONG") == "1"
SECONDS = {"postgres": 600 if IS_LONG else 30, "sqlite": 120 if IS_LONG else 15}
ROUND_SECONDS = 5
PROCESSES = 5
LEASES_RUN_OUT_SECONDS = 180

REQUIRED_REQUESTS = (
    "create namespace", "drop namespace", "describe namespace", "create table", "finish table", "commit", "transaction",
    "rename table", "drop table", "register table", "create view", "replace view",
)  # fmt: skip

pytestmark = pytest.mark.timeout(3_600)


def test_random_work(run_environment: RunEnvironment, tmp_path: Path) -> None:
    seed = int(os.environ.get("ICEKEEPER_TEST_SEED") or random.SystemRandom().randrange(10**9))
    seconds = float(os.environ.get("ICEKEEPER_TEST_SECONDS") or SECONDS[run_environment.database])
    url = run_environment.own_database(f"model_{seed}")
    print(f"\nICEKEEPER_TEST_SEED={seed}")
    # On both databases files are purged by creates at their location, and by a worker at the end: deletions at any
    # moment could not be verified. `tests/faults/test_storm.py` has a worker all the time.
    with CatalogServer(tmp_path, database_url=url, workers=2, arguments=["--without-worker"]) as server:
        server.create_warehouse("model")
        log = run_environment.postgres.log_path if run_environment.postgres else None
        run, failure = Run(server, url, log, seed), None
        try:
            run.work(seconds)
            run.empty()
        except Fault as fault:
            failure = run.report(fault)
        print(run.summary())
    if failure is not None:
        pytest.fail(failure, pytrace=False)


class Run:
    """One run on one warehouse; `url` and `database_log` are PostgreSQL's, None on SQLite."""

    def __init__(self, server: CatalogServer, url: str | None, database_log: Path | None, seed: int) -> None:
        self.server, self.url, self.database_log, self.seed = server, url, database_log, seed
        self.api = f"{server.uri}/v1/{server.warehouse_id}"
        folder = server.storage_root / server.warehouse
        self.watch = watch = Watch()
        self.disturber = Disturber(server, url, watch, random.Random(f"{seed} disturbances"))
        self.workers = [Worker(self.api, f"file://{folder}", number, seed, watch) for number in range(1, PROCESSES + 1)]
        self.journal = Journal(time.monotonic())
        self.history = History(folder, self.journal)
        for levels in STABLE:
            requests.post(f"{self.api}/namespaces", json={"namespace": levels}, timeout=30).raise_for_status()

    def work(self, seconds: float) -> None:
        """Work in rounds, with more rounds until each kind of write and of disturbance has happened."""
        worked = 0.0
        while worked < seconds or (self._never_done() and worked < 10 * seconds):
            length = min(ROUND_SECONDS, seconds - worked) if worked < seconds else ROUND_SECONDS
            until = time.monotonic() + length
            reports = work_a_round(self.workers, self.watch, until, lambda: self.disturber.disturb_until(until))  # noqa: B023
            self.workers = [report.worker for report in reports]
            for report in reports:
                self.journal.add(report.records)
            faults = [report.fault for report in reports if report.fault is not None]
            if faults:
                raise Fault(faults[0][0], *faults[0][1])
            self.check()
            worked += length
        if self._never_done():
            raise Fault(f"the run proves nothing: {self._never_done()} were never done")

    def check(self) -> Contents:
        """Raise `Fault` for a violated invariant while no requests run."""
        broken = sum(worker.caller.broken for worker in self.workers)
        if broken > self.disturber.sessions_cut:
            raise Fault(f"{broken} times the database was lost, and {self.disturber.sessions_cut} sessions were cut")
        contents = read_contents(self.server, self.url)
        check_contents(contents, self.journal)
        check_bindings(contents, self.journal)
        self.history.check(contents)
        check_responses(self.server, contents)
        return contents

    def empty(self) -> None:
        """Drop all objects; then no row remains that reserves its namespace or the warehouse."""
        contents = self.check()
        for row in contents.tabulars:
            _drop(f"{self.api}/namespaces/{_encoded(*row.levels)}/{row.kind}s/{_encoded(row.name)}", row, row.uuid)
        for levels in sorted((levels for levels, _, __ in contents.namespaces.values()), key=len, reverse=True):
            _drop(f"{self.api}/namespaces/{_encoded(*levels)}", ".".join(levels))
        self._drop_warehouse()
        left = read_contents(self.server, self.url)
        if left.tabulars or left.namespaces or left.snapshots:
            raise Fault(f"rows are left of an empty warehouse: {left}")

    def _drop_warehouse(self) -> None:
        """Delete the warehouse as soon as the files of its dropped tables are deleted; a killed process may still
        have a lease on their purge.
        """
        address = f"{self.server.base_url}/management/v1/warehouse/{self.server.warehouse_id}"
        give_up = time.monotonic() + LEASES_RUN_OUT_SECONDS
        self.server.manage("worker", "--once")
        while ask(address, method="DELETE").status_code == 409 and time.monotonic() < give_up:
            time.sleep(1)
            self.server.manage("worker", "--once")
        _drop(address, self.server.warehouse)

    def _never_done(self) -> list[str]:
        """Return the operations and faults that a meaningful run includes and that this one lacks."""
        done = Counter(record.what for record in self.journal.records if record.result is Result.DONE)
        return [kind for kind in self.disturber.kinds if not self.disturber.counts[kind]] + [
            what for what in REQUIRED_REQUESTS if not done[what]
        ]

    def report(self, fault: Fault) -> str:
        return (
            f"{fault.message}\n\nICEKEEPER_TEST_SEED={self.seed}, {self.summary()}\n\n"
            f"What happened to {', '.join(fault.about)}:\n{self.journal.story(fault.about)}\n\n"
            f"The server's errors:\n{self._errors()}\n\nDeadlocks in the database:\n{self._deadlocks()}"
        )

    def summary(self) -> str:
        results = Counter(record.result.value for record in self.journal.records)
        lost = sum(attempt.is_lost for record in self.journal.records for attempt in record.attempts)
        reported = Counter(record.error for record in self.journal.records if record.error)
        return (
            f"{len(self.journal.records)} requests {dict(results)}, {lost} responses lost, "
            f"{dict(self.disturber.counts)}, {len(self.history.lineage.reached)} versions; rejected {dict(reported)}"
        )

    def _errors(self) -> str:
        lines = self.server.log_path.read_text(errors="replace").splitlines()
        return "\n".join([line[:3000] for line in lines if '"level":"ERROR"' in line][-8:])

    def _deadlocks(self) -> str:
        """Return the deadlocks in the log, with the statements that waited for each other."""
        lines = self.database_log.read_text(errors="replace").splitlines() if self.database_log else []
        found = [index for index, line in enumerate(lines) if "deadlock detected" in line]
        return "\n".join(line[:1500] for index in found[:3] for line in lines[index : index + 9])


def _encoded(*names: str) -> str:
    return quote("\x1f".join(names), safe="")


def _drop(address: str, *about: object) -> None:
    """Drop the object; "not found" is right if the response to the first attempt was lost."""
    response = ask(address, method="DELETE")
    if response.status_code not in {204, 404}:
        raise Fault(f"{about[0]} could not be dropped: {response.status_code} {response.text[:500]}", *about)
