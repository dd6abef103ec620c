"""One client process, which works for a round and returns its state for the next one."""

from __future__ import annotations

import multiprocessing
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from queue import Empty
from typing import Any

from tests.model.caller import Caller
from tests.model.journal import Fault, Record
from tests.model.own.operations import work_on_own
from tests.model.own.owner import Owner
from tests.model.server_faults import Watch
from tests.model.shared_names import Crowd

TIMEOUT_SECONDS = 300
"""Maximum duration of a round beyond its end, while requests wait for a server that is being started."""


@dataclass(slots=True)
class Report:
    """The work of a process in a round, and the faults that it found."""

    worker: Worker
    records: list[Record]
    fault: tuple[str, tuple[str, ...]] | None = None


class Worker:
    """Mixes work on its own names with work on shared names; the same `seed` generates the same work."""

    def __init__(self, api: str, base: str, number: int, seed: int, watch: Watch) -> None:
        self.caller = Caller(api, number, random.Random(f"{seed} {number}"), watch)
        self.owner, self.crowd = Owner(self.caller, base), Crowd(self.caller, base)

    def work(self, until: float, reports: Any) -> None:
        """Work for one round, in the process. The report contains everything but the watch, which cannot be sent."""
        fault = None
        self.caller.open()
        try:
            while time.monotonic() < until:
                if self.caller.rng.random() < 0.5:
                    work_on_own(self.owner)
                else:
                    self.crowd.act()
        except Fault as found:
            fault = found.message, found.about
        except Exception:  # noqa: BLE001 - the run must receive every exception
            fault = f"a client failed:\n{traceback.format_exc()}", (self.owner.op,)
        self.caller.close()
        records, self.caller.records = self.caller.records, []
        del self.caller.watch
        reports.put(Report(self, records, fault))
        reports.close()
        reports.join_thread()


def work_a_round(workers: list[Worker], watch: Watch, until: float, meanwhile: Callable[[], None]) -> list[Report]:
    """Run all workers concurrently, each in its own process, while `meanwhile` runs in this one."""
    context = multiprocessing.get_context("fork")
    reports = context.Queue()
    processes: list[BaseProcess] = [context.Process(target=worker.work, args=(until, reports)) for worker in workers]
    for process in processes:
        process.start()
    try:
        meanwhile()
        collected: list[Report] = []
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(collected) < len(processes):
            try:
                collected.append(reports.get(timeout=1))
            except Empty:
                if time.monotonic() > deadline or any(process.exitcode not in {None, 0} for process in processes):
                    raise Fault("a client process ended without a report, or does not end") from None
        for process in processes:
            process.join(30)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    for report in collected:
        report.worker.caller.watch = watch
    return sorted(collected, key=lambda report: report.worker.caller.number)
