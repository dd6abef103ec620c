"""Faults of the server under load: a kill of the whole server, a kill of one worker, cut database connections."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import signal
import time
from collections import Counter
from typing import Any

import psutil
import psycopg

from tests.model.journal import Fault
from tests.parts.server import CatalogServer

MAX_SETTLING_SECONDS = 60
PAUSE_SECONDS = 1.5
"""Between two of them, on average."""

KINDS = {"kill the server": 2, "kill a worker": 4, "cut connections": 4}


class Watch:
    """The number of kills that have begun and of those that are over; shared by all processes."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self._begun, self._settled = context.Value("i", 0), context.Value("i", 0)

    def kills_begun(self) -> int:
        return int(self._begun.value)

    def begin(self) -> None:
        self._begun.value += 1

    def settle(self) -> None:
        self._settled.value = self._begun.value

    def wait_until_settled(self, kill: int) -> None:
        """Wait until the statements of the processes that died in the first `kill` kills have ended."""
        until = time.monotonic() + 2 * MAX_SETTLING_SECONDS
        while self._settled.value < kill:
            if time.monotonic() > until:
                raise Fault("the database does not notice that its client was killed")
            time.sleep(0.02)


class Disturber:
    """Disturbs `server`, whose database is at `url` if it is PostgreSQL; one fault at a time."""

    def __init__(self, server: CatalogServer, url: str | None, watch: Watch, rng: random.Random) -> None:
        self.server, self.url, self.watch, self.rng = server, url, watch, rng
        self.kinds = {kind: weight for kind, weight in KINDS.items() if url or kind != "cut connections"}
        self.counts: Counter[str] = Counter()
        self.sessions_cut = 0

    def disturb_until(self, end: float) -> None:
        """Inject faults until `end` on the monotonic clock; on return the server runs, and is settled."""
        while True:
            pause = min(self.rng.expovariate(1 / PAUSE_SECONDS), 4 * PAUSE_SECONDS)
            if time.monotonic() + pause > end:
                time.sleep(max(0.0, end - time.monotonic()))
                return
            time.sleep(pause)
            [kind] = self.rng.choices(list(self.kinds), list(self.kinds.values()))
            self.counts[kind] += 1
            {"kill the server": self.kill_all, "kill a worker": self.kill_one, "cut connections": self.cut}[kind]()

    def kill_all(self) -> None:
        """Kill the server as a power cut would, and start it again on the same state."""
        self.watch.begin()
        self.server.kill()
        orphans = self._sessions()
        self.server.start()
        self._wait_until_ended(orphans)
        self.watch.settle()

    def kill_one(self) -> None:
        """Kill one worker, as the kernel does when memory is short.

        It is frozen first, so that its sessions are known.
        """
        with contextlib.suppress(psutil.NoSuchProcess):
            workers = psutil.Process(self.server.pid).children()
            if not workers:
                return
            victim = self.rng.choice(workers)
            victim.send_signal(signal.SIGSTOP)
            ports = [connection.laddr.port for connection in victim.net_connections("tcp") if connection.raddr]
            orphans = self._sessions("client_port = ANY(%s)", [ports])
            self.watch.begin()
            victim.send_signal(signal.SIGKILL)
            self._wait_until_ended(orphans)
            self.watch.settle()

    def cut(self) -> None:
        """Cut some database sessions, active ones first: the server must notice by itself."""
        if self.url is None:
            return
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(f"{_SESSIONS} ORDER BY state = 'idle', random()").fetchall()
            for (pid,) in found[: self.rng.randint(1, 3)]:
                [[was_there]] = connection.execute("SELECT pg_terminate_backend(%s)", [pid]).fetchall()
                self.sessions_cut += was_there

    def _sessions(self, condition: str = "true", params: list[Any] | None = None) -> set[int]:
        if self.url is None:
            return set()
        with psycopg.connect(self.url, autocommit=True) as connection:
            return {pid for (pid,) in connection.execute(f"{_SESSIONS} AND {condition}", params or [])}

    def _wait_until_ended(self, orphans: set[int]) -> None:
        """Wait for PostgreSQL, which finishes the statement of a dead client before it notices."""
        until = time.monotonic() + MAX_SETTLING_SECONDS
        while orphans & self._sessions():
            if time.monotonic() > until:
                raise Fault(f"sessions of killed processes do not end: {orphans}")
            time.sleep(0.02)


_SESSIONS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    " AND application_name = 'icekeeper'"
)
