"""`/metrics` of a server: its processes write their metrics to shared files, and a child process returns the sums.

Scrapes have a port and a process of their own, so that they do not slow the APIs. One thread serves all clients, and
none of them blocks another one: requests are small and responses come from memory; then the connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from django.conf import settings
from django.db import connections
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector

from icekeeper.kernel.metrics import flush, join_metrics, leave_metrics, metrics, share_metrics
from icekeeper.server.child_process import ChildProcess
from icekeeper.version import VERSION

WRITE_SECONDS: Final = 1.0
"""Between two writes of a process, and the longest age of a page."""
MIN_FREE_BYTES: Final = 32 * 2**20
"""Free space that a file system needs: a process that writes to a full one is killed."""

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a new folder in it, for this user only
_PROC: Final = Path("/proc/self")
_POOLS: Final = {"default": "write", "read": "read"}
_READ_ATTEMPTS: Final = 3

logger = logging.getLogger("icekeeper.server")


class MetricsExporter:
    """Created in the arbiter before the first fork; `child_process` listens on the port.

    A process counts under a name: a new worker takes the name of one that has ended and continues its counters, so
    that no sum ever decreases and the number of files is bounded.
    """

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.child_process = ChildProcess("the metrics listener", self._listen, listens_on=listening)
        self._owner = os.getpid()
        self._names: set[str] = set()
        self._page, self._expires = b"", 0.0
        self.folder = _create_folder()
        if self.folder is None:
            logger.warning(
                "requests are not counted in the metrics: the folder for temporary files (TMPDIR) cannot be written to "
                "or has less than %d MiB free", MIN_FREE_BYTES // 2**20,
            )  # fmt: skip
        else:
            share_metrics(self.folder)
        metrics().start_time.set(time.time())
        metrics().build.labels(VERSION).set(1)

    @property
    def port(self) -> int:
        port: int = self.listening.getsockname()[1]
        return port

    def claim_name(self) -> str:
        """Return a name for a new worker that no other has."""
        name = next(name for number in count() if (name := str(number)) not in self._names)
        self._names.add(name)
        return name

    def release_name(self, name: str) -> None:
        """Its worker has ended."""
        leave_metrics(name)
        self._names.discard(name)

    def start_writing(self, name: str) -> Callable[[], None]:
        """Write the metrics of this worker from now on; the returned function writes the last ones and ends it."""
        return self._start(name, [flush, ProcessSampler().sample, PoolSampler().sample])

    def record(self, child: ChildProcess) -> None:
        """Let a child process that serves no requests write what it counts."""
        run = child.run

        def run_and_write(parent: int) -> None:
            stop = self._start(child.name, [flush])
            try:
                run(parent)
            finally:
                stop()

        child.run = run_and_write

    def page(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        if time.monotonic() >= self._expires:
            self._page = self._render()
            self._expires = time.monotonic() + WRITE_SECONDS
        return self._page

    def close(self) -> None:
        """Delete the files, if this is the process that created them."""
        if self.folder is not None and os.getpid() == self._owner:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name: str, sources: Sequence[Callable[[], None]]) -> Callable[[], None]:
        if self.folder is None:
            return lambda: None
        join_metrics(name)
        writer = MetricsWriter(sources)
        writer.start()
        return writer.stop

    def _listen(self, parent: int) -> None:
        MetricsListener(self.listening, self.page).run(parent)
        if self.folder is not None and os.getppid() != parent:  # it was killed and could not do this
            shutil.rmtree(self.folder, ignore_errors=True)

    def _render(self) -> bytes:
        if self.folder is None:  # what other processes count is not known here
            own = metrics().registry
            return generate_latest(own.restricted_registry(["process_start_time_seconds", "icekeeper_build_info"]))
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self.folder))  # type: ignore[no-untyped-call]
        for _ in range(_READ_ATTEMPTS - 1):
            with suppress(struct.error, FileNotFoundError):  # a worker that starts is just creating or deleting a file
                return generate_latest(registry)
        return generate_latest(registry)


class MetricsWriter:
    """The thread of a process that writes its metrics at the start, every second, and when the process ends."""

    def __init__(self, sources: Sequence[Callable[[], None]], *, interval: float = WRITE_SECONDS) -> None:
        self._sources, self._interval = sources, interval
        self._failing: set[Callable[[], None]] = set()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        self.write()
        self._thread.start()

    def stop(self) -> None:
        """Return after the last write."""
        self._stopping.set()
        self._thread.join()

    def write(self) -> None:
        """A source that fails, as for lack of file descriptors, is logged once; the others are written."""
        for source in self._sources:
            try:
                source()
            except Exception as error:  # noqa: BLE001 - the thread must survive every error
                if source not in self._failing:
                    logger.warning("some metrics cannot be read: %s", error)
                self._failing.add(source)
            else:
                self._failing.discard(source)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            self.write()
        self.write()


class ProcessSampler:
    """CPU time of a worker, and on Linux its memory and open files."""

    def __init__(self) -> None:
        self._cpu_seconds = 0.0

    def sample(self) -> None:
        known, times = metrics(), os.times()
        known.workers.set(1)
        seconds = times.user + times.system
        known.cpu_seconds.inc(seconds - self._cpu_seconds)
        self._cpu_seconds = seconds
        if sys.platform == "linux":
            pages = int((_PROC / "statm").read_text().split()[1])
            known.resident_bytes.set(pages * os.sysconf("SC_PAGE_SIZE"))
            known.open_files.set(len(os.listdir(_PROC / "fd")) - 1)  # noqa: PTH208 - one is that of the listing itself


class PoolSampler:
    """The connection pools of a worker; SQLite has none."""

    def __init__(self) -> None:
        self._timeouts = dict.fromkeys(_POOLS, 0)

    def sample(self) -> None:
        known = metrics()
        for alias, pool in _POOLS.items():
            if not settings.DATABASES.get(alias, {}).get("OPTIONS", {}).get("pool"):
                continue
            connection: Any = connections[alias]
            stats = connection.pool.get_stats()
            idle, timeouts = stats["pool_available"], stats.get("requests_errors", 0)
            known.pool_connections.labels(pool, "idle").set(idle)
            known.pool_connections.labels(pool, "in_use").set(max(0, stats["pool_size"] - idle))
            known.pool_max_connections.labels(pool).set(stats["pool_max"])
            known.pool_timeouts.labels(pool).inc(timeouts - self._timeouts[alias])
            self._timeouts[alias] = timeouts


def _create_folder() -> Path | None:
    """Return a new folder, in memory if the system has such a file system; None if none can be created."""
    for find_parent in (_MEMORY.absolute, tempfile.gettempdir):
        with suppress(OSError):
            parent = find_parent()
            if shutil.disk_usage(parent).free >= MIN_FREE_BYTES:
                return Path(tempfile.mkdtemp(prefix="icekeeper-metrics-", dir=parent))
    return None


MAX_CLIENTS: Final = 32
"""Connections at once; one more closes the oldest, which had the most time for its request."""
CLIENT_TIMEOUT_SECONDS: Final = 5.0
"""From the connection to the end of the response."""
MAX_HEAD_BYTES: Final = 8192
MAX_DRAINED_READS: Final = 8
"""Reads of up to `MAX_HEAD_BYTES` that are discarded when a client continues to send."""
_REQUEST_LINE: Final = 3
"""Words."""


class MetricsListener:
    """Serves the text that `page` returns, on a listening socket."""

    def __init__(self, listening: socket.socket, page: Callable[[], bytes]) -> None:
        self._listening, self._page = listening, page
        self._clients: list[asyncio.WriteTransport] = []

    def run(self, parent: int) -> None:
        """Serve until SIGTERM, or until the process `parent` has ended. Only the arbiter handles SIGINT."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        asyncio.run(self._serve(parent))

    async def _serve(self, parent: int) -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        server = await asyncio.start_server(self._serve_client, sock=self._listening, limit=MAX_HEAD_BYTES)
        async with server:
            while os.getppid() == parent and not stopped.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), 1.0)
            for client in self._clients:
                client.abort()

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.append(writer.transport)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.pop(0).abort()
        try:
            async with asyncio.timeout(CLIENT_TIMEOUT_SECONDS):
                await self._respond(reader, writer)
        except (OSError, asyncio.IncompleteReadError):  # disconnected or too slow
            pass
        finally:
            if writer.transport in self._clients:
                self._clients.remove(writer.transport)
            writer.transport.abort()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            writer.write(_error_response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        else:
            writer.write(self._response_to(head))
        writer.write_eof()
        await writer.drain()
        for _ in range(MAX_DRAINED_READS):  # closing on unread bytes would destroy the response in transit
            if not await reader.read(MAX_HEAD_BYTES):
                break

    def _response_to(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != _REQUEST_LINE or not words[2].startswith(b"HTTP/1."):
            return _error_response(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if target.split(b"?", 1)[0] != b"/metrics":
            return _error_response(HTTPStatus.NOT_FOUND)
        if method not in (b"GET", b"HEAD"):
            return _error_response(HTTPStatus.METHOD_NOT_ALLOWED, "Allow: GET, HEAD")
        body = self._page()
        head = _head(HTTPStatus.OK, len(body), f"Content-Type: {CONTENT_TYPE_PLAIN_0_0_4}")
        return head if method == b"HEAD" else head + body


def _error_response(status: HTTPStatus, *fields: str) -> bytes:
    return _head(status, 0, *fields)


def _head(status: HTTPStatus, length: int, *fields: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *fields,
        f"Content-Length: {length}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()
