"""The load generator: one process per client with one keep-alive connection, all measured over the same seconds."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Barrier

from tests.perf import cpu
from tests.perf.connection import Connection

WARM_UP_SECONDS = 0.2
MAX_TRIES = 200
NOT_MODIFIED = 304

Operation = list[bytes] | Callable[[Connection], int]
"""Requests to send one after another, or a function that uses the responses: it returns the number of retries, and
raises `ConnectionError` when it fails."""

Requests = Iterator[Operation]
"""Operations of one client."""


@dataclass
class Measured:
    """Measurements of clients and processes in one or several slices: times in seconds, `cpu` by process name."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    retries: int = 0
    errors: int = 0
    cpu: dict[str, float] = field(default_factory=dict)

    def add(self, other: Measured) -> None:
        self.seconds += other.seconds
        self.latencies += other.latencies
        self.retries += other.retries
        self.errors += other.errors
        for name, spent in other.cpu.items():
            self.cpu[name] = self.cpu.get(name, 0.0) + spent

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def percentile_ms(self, percent: float) -> float:
        if not self.latencies:
            return float("nan")
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1000

    def cpu_ms(self, name: str) -> float:
        """CPU per operation, including the cost of failed operations."""
        return self.cpu.get(name, 0.0) / len(self.latencies) * 1000 if self.latencies else float("nan")


@dataclass(frozen=True)
class Job:
    """The work of each client: the operations of its index on one port, for this number of seconds.

    A response with a status in `retried` is retried without delay, within the time of the operation.
    """

    port: int
    operations: Callable[[int], Requests]
    seconds: float
    retried: tuple[int, ...] = ()


def measure(job: Job, *, clients: int, trees: dict[str, int]) -> Measured:
    """Run the job in `clients` processes at once; `trees` are the root pids whose CPU counts, by reported name."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(clients + 1)
    pipes, processes = [], []
    for index in range(clients):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_client, args=(job, index, barrier, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    barrier.wait(60)
    before = {name: cpu.seconds(pid) for name, pid in trees.items()}
    total = Measured(seconds=job.seconds)
    for pipe in pipes:
        latencies, retries, errors = pipe.recv()
        total.add(Measured(latencies=latencies, retries=retries, errors=errors))
    total.cpu = {name: cpu.seconds(pid) - before[name] for name, pid in trees.items()}
    for process in processes:
        process.join()
    return total


def _client(job: Job, index: int, barrier: Barrier, result: Pipe) -> None:
    connection = Connection(job.port)
    mine = job.operations(index)
    warm_until = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < warm_until:
        _perform(connection, next(mine), job.retried)
    barrier.wait(60)
    latencies: list[float] = []
    retries = errors = 0
    end = time.perf_counter() + job.seconds
    while (started := time.perf_counter()) < end:
        succeeded, again = _perform(connection, next(mine), job.retried)
        retries += again
        if succeeded:
            latencies.append(time.perf_counter() - started)
        else:
            errors += 1
    result.send((latencies, retries, errors))
    connection.close()


def _perform(connection: Connection, operation: Operation, retried: tuple[int, ...]) -> tuple[bool, int]:
    """Return whether every request finally got 2xx or 304, and the number of retries."""
    if callable(operation):
        try:
            return True, operation(connection)
        except ConnectionError:
            return False, 0
    again = 0
    for message in operation:
        status, _ = connection.send(message)
        while status in retried and again < MAX_TRIES:
            again += 1
            status, _ = connection.send(message)
        if status // 100 != 2 and status != NOT_MODIFIED:
            return False, again
    return True, again
