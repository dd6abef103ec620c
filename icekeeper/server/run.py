"""Configures and runs gunicorn in this process: `manage.py serve` calls `run_server`."""

from __future__ import annotations

import errno
import gc
import logging
import mmap
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from django.conf import settings
from django.db import connections
from django.utils.module_loading import import_string
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.sock import TCP6Socket, TCPSocket

from icekeeper.conf.groups import ServerSettings
from icekeeper.conf.settings import Settings
from icekeeper.server.child_process import ChildProcess
from icekeeper.server.metrics_endpoint import MetricsExporter
from icekeeper.server.transfer_limits import Limits
from icekeeper.server.worker import STOP_SIGNALS, RequestWorker

BACKLOG = 2048
METRICS_BACKLOG = 256
MAX_HEADER_FIELDS = 100
MAX_HEADER_FIELD_BYTES = 32_768
"""Tokens with many groups are long."""

WORKER_TIMEOUT = 60
"""Seconds without a heartbeat of a worker's event loop (which never runs requests) until the worker is replaced."""

OBJECTS_BETWEEN_COLLECTIONS = 10_000
"""Python's default of 700 is less than the rows of one list: the collector would run several times while it is read,
each time over the cached permissions as well."""

WhenBound = Callable[[int | None], None]
"""Takes the port of the metrics; None without metrics."""
StartBackground = Callable[[], Callable[[], None]]
"""Starts threads in a process that serves requests, and returns a function that stops them."""

logger = logging.getLogger("icekeeper.server")


_EMPTY_SLOT = 2**32 - 1
_SLOT_BYTES = 4


class CannotListen(Exception):
    """A port cannot be bound; the message has the address, the reason and the settings."""


@contextmanager
def listening_on(address: str, port: int, *, setting: str) -> Iterator[None]:
    """Raise `CannotListen` for an OSError in the block; `setting` is the variable of the port."""
    try:
        yield
    except OSError as error:
        reason = "it is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
        raise CannotListen(
            f"cannot listen on {address}:{port}: {reason}. "
            f"Free it, or choose another with {setting} and LAKEKEEPER__BIND_IP"
        ) from error


def listen(address: str, port: int, *, setting: str, backlog: int) -> socket.socket:
    """Return a listening socket. Raises `CannotListen`."""
    is_v6 = ":" in address
    with listening_on(address, port, setting=setting):
        return socket.create_server(
            (address, port),
            family=socket.AF_INET6 if is_v6 else socket.AF_INET,
            backlog=backlog,
            dualstack_ipv6=is_v6 and socket.has_dualstack_ipv6(),
        )


class LoadBoard:
    """The number of connections of each worker, in memory that all workers share.

    The kernel wakes every worker for a new connection, and the one that is already running usually accepts it; with a
    few long-lived clients one process would do all the work. So a worker with more connections lets the others accept
    first. A slot is written by its worker and, after the worker's exit, by the arbiter.
    """

    def __init__(self, workers: int) -> None:
        # Two slots a worker: while workers are replaced, old and new ones run at the same time.
        self._counts = memoryview(mmap.mmap(-1, _SLOT_BYTES * 2 * workers)).cast("I")
        for slot in range(len(self._counts)):
            self._counts[slot] = _EMPTY_SLOT

    def claim(self) -> int:
        """Return a free slot for a new worker; without one, the last slot, which is then shared."""
        slot = next((slot for slot, count in enumerate(self._counts) if count == _EMPTY_SLOT), len(self._counts) - 1)
        self._counts[slot] = 0
        return slot

    def release(self, slot: int) -> None:
        self._counts[slot] = _EMPTY_SLOT

    def write(self, slot: int, connections: int) -> None:
        self._counts[slot] = connections

    def another_has_fewer(self, connections: int) -> bool:
        return min(self._counts) < connections


class JsonLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """Writes gunicorn's messages to this server's log; icekeeper.http.access_log logs requests."""

    def setup(self, cfg: Any) -> None:
        self.cfg = cfg
        self._access_log_enabled = False
        self.error_log.propagate = True
        # Start and stop of each process are only logged at level debug.
        if self.error_log.level == logging.NOTSET:
            self.error_log.setLevel(logging.DEBUG if logging.root.level <= logging.DEBUG else logging.WARNING)

    def access(self, *_: Any) -> None:
        """Do nothing: see the class."""

    def reopen_files(self) -> None:
        """Do nothing: the log is stderr."""


class GracefulArbiter(Arbiter):  # type: ignore[misc]
    """Supervises the workers and the other child processes of the server.

    SIGINT stops gracefully, as SIGTERM does; a second one stops immediately. The port is bound before the start.
    """

    def start(self) -> None:
        self.LISTENERS = [self.app.listener]
        super().start()

    def handle_int(self) -> None:
        self.handle_term()

    def spawn_worker(self) -> Any:
        """Block stop signals until the new worker has its own handlers; the inherited ones would lose them."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            return super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def manage_workers(self) -> None:
        super().manage_workers()
        for child_process in self.app.child_processes:
            child_process.supervise([*self.LISTENERS, *self.app.other_sockets])

    def reap_workers(self) -> None:
        if self.LISTENERS:  # they are closed first when the server stops
            for child_process in self.app.child_processes:
                child_process.reap()
        super().reap_workers()

    def stop(self, graceful: bool = True) -> None:  # noqa: FBT001, FBT002 - gunicorn's signature
        until = monotonic() + self.cfg.graceful_timeout
        for child_process in self.app.child_processes:
            child_process.terminate()
        for other in self.app.other_sockets:
            other.close()
        super().stop(graceful)
        for child_process in self.app.child_processes:
            child_process.wait(until)


class HttpServer(BaseApplication):  # type: ignore[misc]
    """The gunicorn application. Raises `CannotListen` from the constructor when a port cannot be bound.

    `child_processes` run as long as the server. Each worker process calls `start_background` when it starts to serve,
    and the function that this returns when it stops.
    """

    def __init__(
        self,
        conf: Settings,
        when_bound: WhenBound,
        child_processes: Sequence[ChildProcess] = (),
        start_background: StartBackground | None = None,
    ) -> None:
        self.conf, self.when_bound, self.start_background = conf, when_bound, start_background
        server = conf.server
        self.limits = Limits(
            queue_timeout=server.queue_timeout,
            read_timeout=server.read_timeout,
            graceful_timeout=server.graceful_timeout,
            request_time=conf.max_request_time,
            body_size=conf.max_request_body_size,
            min_transfer_rate=server.min_transfer_rate,
            transfer_buffer=max(server.transfer_buffer, 2 * conf.max_request_body_size),
            connections_per_address=server.connections_per_address,
            slow_connections_per_address=server.slow_connections_per_address or max(1, server.connections // 2),
        )
        self.board = LoadBoard(server.workers)
        super().__init__()
        address = (conf.bind_ip, conf.listen_port)
        kind = TCP6Socket if ":" in conf.bind_ip else TCPSocket
        with listening_on(*address, setting="LAKEKEEPER__LISTEN_PORT"):
            self.listener = kind(address, self.cfg, logging.getLogger("gunicorn.error"))
        self.metrics = _metrics(conf)
        self.child_processes, self.other_sockets = list(child_processes), []
        if self.metrics is not None:
            for child in self.child_processes:
                self.metrics.record(child)
            self.child_processes.append(self.metrics.child_process)
            self.other_sockets.append(self.metrics.listening)

    def load_config(self) -> None:
        for name, value in _gunicorn_settings(self.conf.server).items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return import_string(settings.WSGI_APPLICATION)

    def end_thread(self) -> None:
        """Close the database connections of a request thread that ends."""
        connections.close_all()

    def run(self) -> None:
        metrics_port = None if self.metrics is None else self.metrics.port
        self.cfg.set("when_ready", lambda _arbiter: self.when_bound(metrics_port))
        try:
            GracefulArbiter(self).run()
        finally:  # also runs in each worker
            if self.metrics is not None:
                self.metrics.close()


def _gunicorn_settings(server: ServerSettings) -> dict[str, Any]:
    return {
        "worker_class": RequestWorker,
        "workers": server.workers,
        "threads": server.threads,
        "worker_connections": server.connections,
        "keepalive": max(1, int(server.keepalive)),
        # Workers stop by themselves within this time; the arbiter kills the rest a little later.
        "graceful_timeout": int(server.graceful_timeout) + 3,
        "timeout": WORKER_TIMEOUT,
        "backlog": BACKLOG,
        "bind": [],
        # The application is loaded once, in the arbiter, and its memory is shared. It opens no database connection
        # there: a pool belongs to the process that created it.
        "preload_app": True,
        "pre_fork": _before_fork,
        "child_exit": _after_death,
        "post_worker_init": _start_background,
        "worker_exit": _end_process,
        "logger_class": JsonLogger,
        "limit_request_line": 0,  # the event loop checks the whole head: server/connection.py
        "limit_request_fields": MAX_HEADER_FIELDS,
        "limit_request_field_size": MAX_HEADER_FIELD_BYTES,
        # No header of a client or proxy sets scheme, path or prefix.
        "secure_scheme_headers": {},
        "forwarder_headers": "",
        "forwarded_allow_ips": "",
        "http_protocols": "h1",
        "http2_cleartext": "off",
        "control_socket_disable": True,
        "sendfile": False,
        "proc_name": "icekeeper",
    }


def _before_fork(arbiter: Any, worker: Any) -> None:
    app = arbiter.app
    worker.slot = app.board.claim()
    if app.metrics is not None:
        worker.metrics_name = app.metrics.claim_name()
    gc.freeze()  # the collector would write to shared objects in every worker
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)


def _after_death(arbiter: Any, worker: Any) -> None:
    arbiter.app.board.release(worker.slot)
    if arbiter.app.metrics is not None:
        arbiter.app.metrics.release_name(worker.metrics_name)


def _start_background(worker: Any) -> None:
    """Start threads after the fork: only the process that started a thread has it."""
    app = worker.app
    for other in app.other_sockets:
        other.close()  # another process listens on it
    worker.stops = []
    if app.metrics is not None:  # first, as jobs record metrics
        worker.stops.append(app.metrics.start_writing(worker.metrics_name))
    if app.start_background is not None:
        worker.stops.append(app.start_background())


def _end_process(_arbiter: Any, worker: Any) -> None:
    for stop in reversed(worker.stops):
        stop()
    _close_databases()


def _metrics(conf: Settings) -> MetricsExporter | None:
    """Return the metrics; None if they are disabled, or if their default port is in use."""
    if not conf.metrics.port:
        return None
    try:
        listening = listen(
            conf.bind_ip, conf.metrics.port, setting="LAKEKEEPER__METRICS__PORT", backlog=METRICS_BACKLOG
        )
    except CannotListen as error:
        if "port" in conf.metrics.model_fields_set:
            raise
        logger.warning("there are no metrics: %s, or set it to off", error)
        return None
    return MetricsExporter(listening)


def run_server(
    conf: Settings,
    when_bound: WhenBound,
    child_processes: Sequence[ChildProcess] = (),
    start_background: StartBackground | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then raise SystemExit(0).

    `when_bound` is called once when the server accepts connections; for the rest see `HttpServer`. Raises
    `CannotListen` when a port cannot be bound.
    """
    server = HttpServer(conf, when_bound, child_processes, start_background)
    _allow_open_files(conf.server.connections)
    _close_databases()
    server.run()


def _allow_open_files(connections_wanted: int) -> None:
    """Raise the soft limit of open files for the connections of one worker."""
    wanted = connections_wanted + 256
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
        if granted < wanted:
            logger.warning(
                "only %d files may be open (ulimit -n), %d connections need %d", granted, connections_wanted, wanted
            )


def _close_databases() -> None:
    """Close all connections and pools before a fork and when a worker stops: they belong to one process."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        close_pool = getattr(connection, "close_pool", None)
        if close_pool is not None:
            close_pool()
