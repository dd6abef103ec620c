"""A gunicorn worker whose event loop waits for clients; its threads only run requests that have arrived.

gunicorn's gthread worker gives a thread to every new connection and to every slow client, and lets requests wait for a
thread without limit. Here one event loop accepts connections, receives requests with their bodies, keeps idle
connections and sends what slow clients have not read. A request that waits too long for a thread gets 503.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any

from gunicorn.workers import base
from gunicorn.workers.base import Worker
from gunicorn.workers.workertmp import WorkerTmp

from icekeeper.kernel.errors.types import Busy, CatalogError
from icekeeper.kernel.files import open_anonymous_file
from icekeeper.kernel.request_context import end_request
from icekeeper.kernel.threads import set_slot_pool
from icekeeper.server.connection import Connection, Phase
from icekeeper.server.request_threads import RequestRunner, ThreadPool
from icekeeper.server.response import render_error
from icekeeper.server.sockets import ClientSocket, Poller
from icekeeper.server.transfer_limits import SMALL_BYTES, Limits, TransferLimits

logger = logging.getLogger("icekeeper.server")

STOP_LINGER = 1.0
"""Seconds that a stopping worker keeps idle connections, for a request that a client may be sending just now."""

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
"""Signals that stop a worker."""

YIELD_SECONDS = 0.003
"""How long a new connection is left to a worker that has fewer."""

CLOSE_LINGER = 3.0
"""Seconds to wait until a client has read the last response: closing with unread bytes would destroy it in transit."""

CHECK_BYTES = 65_536
"""Received bytes after which the memory of all connections is checked again, because a check is slow."""

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_Ticket = list[Connection]
"""One element until a thread or the event loop takes it with `pop`."""


class Heartbeat(WorkerTmp):  # type: ignore[misc]
    """The file whose modification time shows the arbiter that a worker's event loop is alive.

    gunicorn's own is in a folder for temporary files, which a read-only container does not have.
    """

    def __init__(self, _cfg: Any) -> None:
        self._tmp = open_anonymous_file("icekeeper-heartbeat")


base.WorkerTmp = Heartbeat  # gunicorn has no setting for it: its worker uses this name


class RequestWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """See the module. Limits for which gunicorn has no settings are in `app.limits` (icekeeper.server.run)."""

    slot: int
    """This worker's slot on the load board, set by the arbiter before the fork."""

    metrics_name: str
    """Name under which the metrics of this worker are counted, given like `slot`; unset without metrics."""

    background_jobs: Sequence[Callable[[], None]] = ()
    """Functions that stop the background threads (icekeeper.server.run)."""

    def init_process(self) -> None:
        self.queue_timeout: float = self.app.limits.queue_timeout
        self.limits: Limits = self.app.limits
        self.read_timeout: float = self.limits.read_timeout
        self.connections: dict[int, Connection] = {}
        self.by_network: Counter[str] = Counter()
        self.unchecked_bytes = 0
        self.handover = threading.Lock()
        self.thread_pool: ThreadPool[_Ticket] = ThreadPool(self.cfg.threads, self._run_ticket, self.app.end_thread)
        self.waiting: deque[tuple[float, _Ticket]] = deque()
        self.runner = RequestRunner(self)
        self.transfers = TransferLimits(
            self.connections,
            self.handover,
            self.limits,
            keepalive=self.cfg.keepalive,
            reject=self._reject_safely,
            close=self._close,
        )
        self.poller = Poller()
        self.listeners: dict[int, Any] = {}
        self.offered: list[int] = []
        self.offered_until = 0.0
        super().init_process()

    def init_signals(self) -> None:
        super().init_signals()
        # Ctrl-C reaches every process of the group: it is a graceful stop here too, led by the arbiter.
        signal.signal(signal.SIGINT, self.handle_exit)
        signal.siginterrupt(signal.SIGINT, False)  # noqa: FBT003
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # the arbiter has blocked them

    def run(self) -> None:
        self.poller.watch(self.PIPE[0])
        for listener in self.sockets:
            listener.settimeout(0.0)
            self.listeners[listener.fileno()] = listener
            self.poller.add(listener.fileno())
        set_slot_pool(self.thread_pool)
        self.thread_pool.start()
        next_sweep = 0.0
        while self.alive:
            self.notify()
            self._wait()
            now = monotonic()
            if now >= next_sweep:
                self._sweep(now)
                next_sweep = now + 1.0
            if self.ppid != os.getppid():
                self.log.info("Parent changed, shutting down: %s", self)
                break
        self._stop()

    def _wait(self, longest_wait: float = 1.0) -> None:
        """Wait for the next events and handle them."""
        if self.offered:
            longest_wait = YIELD_SECONDS
        if self.waiting:
            longest_wait = max(0.0, min(longest_wait, self.waiting[0][0] + self.queue_timeout - monotonic()))
        for descriptor in self.poller.wait(longest_wait):
            connection = self.connections.get(descriptor)
            if connection is not None:
                with self._closing_on_error(connection):
                    if connection.phase is Phase.SEND:
                        self._send(connection)
                    else:
                        self._read(connection)
            elif descriptor in self.listeners:
                self._offer(descriptor)
            elif descriptor == self.PIPE[0]:
                os.read(descriptor, 4096)
                self._limit_memory()
        if self.offered and monotonic() >= self.offered_until:
            for descriptor in self.offered:
                self._accept(self.listeners[descriptor])
                self.poller.arm(descriptor)
            self.offered.clear()
        self._reject_overdue()

    @contextmanager
    def _closing_on_error(self, connection: Connection) -> Iterator[None]:
        """An unexpected error at one connection ends this connection, not the worker with all others."""
        try:
            yield
        except Exception:
            self.log.exception("the event loop failed at the connection of %s", connection.address[0])
            self._close(connection)

    def _offer(self, listener: int) -> None:
        """Accept a new connection; if another worker has fewer, only when that one has not accepted it in time."""
        if self.app.board.another_has_fewer(len(self.connections)):
            self.offered.append(listener)
            self.offered_until = monotonic() + YIELD_SECONDS
        else:
            self._accept(self.listeners[listener])
            self.poller.arm(listener)

    def _accept(self, listener: Any) -> None:
        try:
            accepted, address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _OUT_OF_RESOURCES:
                raise
            self.log.error("cannot accept a connection: %s", error)  # noqa: TRY400
            self.transfers.close_one(or_lingering=True)
            sleep(0.01)  # the listener stays readable: without a pause this would spin
            return
        now = monotonic()
        sock = ClientSocket(accepted, self.read_timeout, self.limits.min_transfer_rate)
        # A connection that has not sent anything may be one that a load balancer opened in advance: it is idle.
        connection = Connection(sock, address, listener.getsockname(), now + self.cfg.keepalive)
        rejection = self._error_of_connection(connection)
        with self.handover:
            self.connections[connection.descriptor] = connection
            self.by_network[connection.network] += 1
        self._show_load()
        self.poller.add(connection.descriptor)
        if rejection is not None:
            connection.arrived = now
            with self._closing_on_error(connection):
                self._send_error(connection, rejection)

    def _error_of_connection(self, connection: Connection) -> CatalogError | None:
        """Return why a new connection is not served; close another one to free a slot for it where possible."""
        most = self.limits.connections_per_address
        if most is not None and self.by_network[connection.network] >= most:
            return Busy("Too many connections from this address (ICEKEEPER__SERVER__CONNECTIONS_PER_ADDRESS)")
        if len(self.connections) >= self.cfg.worker_connections and not self.transfers.close_one():
            return Busy("The server has too many connections; try again")
        return None

    def _read(self, connection: Connection) -> None:
        """Read what has arrived; the event loop owns the connection."""
        try:
            data = connection.socket.recv_now(connection.read_size)
        except BlockingIOError:
            self.poller.arm(connection.descriptor)
            return
        except OSError:
            self._close(connection)
            return
        if connection.phase is Phase.LINGER:
            connection.linger_left -= len(data)
            if data and connection.linger_left > 0:
                self.poller.arm(connection.descriptor)
            else:
                self._close(connection)
        elif data:
            self._add(connection, data)
        elif connection.body is not None:
            self._queue(connection)  # the client stopped in the middle of a body: it may still read the error response
        else:
            self._close(connection)

    def _add(self, connection: Connection, data: bytes) -> None:
        """Add received bytes; a connection that has sent only an empty line stays idle and does not expire later."""
        was_idle = not connection.received
        if was_idle:
            connection.begin_transfer(monotonic())
        connection.add(data)
        if not connection.received:
            self.poller.arm(connection.descriptor)
            return
        if was_idle:
            connection.expires = connection.began + self.read_timeout
        self.unchecked_bytes += len(data)
        if self.unchecked_bytes >= CHECK_BYTES:
            self._limit_memory()
        if connection.phase is Phase.RECEIVE:  # else it was closed because of its memory
            self._proceed(connection)

    def _proceed(self, connection: Connection) -> None:
        """Queue a complete request, wait for the rest of an incomplete one, reject one that is too long.

        A request thread calls this as well, when a part of the next request arrived with the previous one.
        """
        was_head = connection.body is None
        if connection.has_request(self.limits.body_size):
            if connection.is_liveness_probe():
                self._run_ticket([connection])
            else:
                self._queue(connection)
        elif (error := connection.body_error()) is not None:
            connection.arrived = connection.arrived or monotonic()
            self._send_error(connection, error)
        else:
            if was_head and connection.body is not None:
                connection.begin_body_window(connection.arrived, self.read_timeout, self.limits.request_time)
            if connection.wants_continue() and not self._send_continue(connection):
                return
            with self.handover:
                connection.phase = Phase.RECEIVE
                self.poller.arm(connection.descriptor)

    def _queue(self, connection: Connection) -> None:
        """Queue the request of this connection for the next free thread."""
        connection.phase = Phase.QUEUE
        connection.arrived = connection.arrived or monotonic()
        ticket = [connection]
        self.waiting.append((monotonic(), ticket))
        self.thread_pool.submit(ticket)

    def _send_continue(self, connection: Connection) -> bool:
        """Send `100 Continue`; return False if the client has disconnected."""
        try:
            connection.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        except OSError:
            self._close(connection)
            return False
        return True

    def _send(self, connection: Connection) -> None:
        """Send more of a response that a thread has written."""
        try:
            connection.send_unsent()
        except OSError:
            self._close(connection)
            return
        if connection.socket.unsent_bytes:
            self.poller.arm_writing(connection.descriptor)
        elif connection.is_reusable:
            self._give_back(connection)
        else:
            self._linger(connection)

    def _reject_overdue(self) -> None:
        """Remove requests that a thread has taken, and respond with 503 to those that have waited too long."""
        waiting = self.waiting
        while waiting:
            since, ticket = waiting[0]
            if ticket:
                if monotonic() - since < self.queue_timeout:
                    return
                try:
                    connection = ticket.pop()
                except IndexError:
                    pass  # a thread has taken it in the meantime
                else:
                    with self._closing_on_error(connection):
                        self._send_error(connection, Busy("The server is overloaded; nothing was done, try again"))
            waiting.popleft()

    def _send_error(self, connection: Connection, error: CatalogError) -> None:
        """Send an error response from the event loop: one attempt that cannot block, then linger."""
        response = render_error(error, connection.logged_head(), connection.arrived)
        try:
            connection.socket.send(response)
        except OSError:
            self._close(connection)
        else:
            self._linger(connection)

    def _reject_safely(self, connection: Connection, error: CatalogError) -> None:
        with self._closing_on_error(connection):
            self._send_error(connection, error)

    def _limit_memory(self) -> None:
        self.unchecked_bytes = 0
        self.transfers.limit_memory()

    def _sweep(self, now: float) -> None:
        """Close expired connections; a request that has begun gets 408."""
        for connection in list(self.connections.values()):
            with self._closing_on_error(connection):
                self.transfers.check_expiry(connection, now)
        self.transfers.limit_slow_connections(now)

    def _run_ticket(self, ticket: _Ticket) -> None:
        try:
            connection = ticket.pop()
        except IndexError:  # it has waited too long and got a 503
            return
        connection.phase = Phase.RUN
        try:
            connection.is_reusable = self.runner.run(connection)
            if connection.socket.unsent_bytes:
                self._hand_over(connection)
            elif connection.is_reusable:
                self._give_back(connection)
            else:
                self._linger(connection)
        except (Exception, SystemExit):  # the thread must survive
            self.log.exception("request failed outside the application")
            self._close(connection)
        end_request()

    def _give_back(self, connection: Connection) -> None:
        """Return the connection to the event loop; continue if a part of the next request has arrived already."""
        now = monotonic()
        connection.begin_transfer(now)
        connection.add(b"")
        if connection.received:
            connection.expires = now + self.read_timeout
            self._proceed(connection)
            return
        with self.handover:
            connection.expires = now + (self.cfg.keepalive if self.alive else min(self.cfg.keepalive, STOP_LINGER))
            connection.phase = Phase.RECEIVE
            self.poller.arm(connection.descriptor)

    def _hand_over(self, connection: Connection) -> None:
        """Pass the connection to the event loop, which sends the rest of the response."""
        now = monotonic()
        is_large = connection.socket.unsent_bytes > SMALL_BYTES
        with self.handover:
            connection.begin_transfer(now)
            connection.expires = now + self.read_timeout
            connection.phase = Phase.SEND
            self.poller.arm_writing(connection.descriptor)
        if is_large:
            self._wake_loop()

    def _wake_loop(self) -> None:
        """Let the event loop check the memory of slow clients."""
        with suppress(BlockingIOError):  # the pipe is full: the loop will wake up
            os.write(self.PIPE[1], b"1")

    def _linger(self, connection: Connection) -> None:
        """Shut down the sending side after the last response and wait for the client to close."""
        try:
            connection.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(connection)
            return
        with self.handover:
            connection.received = bytearray()
            connection.linger_left = 2 * self.limits.body_size
            connection.expires = monotonic() + CLOSE_LINGER
            connection.phase = Phase.LINGER
            self.poller.arm(connection.descriptor)

    def _close(self, connection: Connection) -> None:
        with self.handover:
            if connection.phase is Phase.CLOSED:
                return
            connection.phase = Phase.CLOSED
            # Removed before it is closed: then the next accepted connection can get the same descriptor.
            self.connections.pop(connection.descriptor, None)
            self.by_network[connection.network] -= 1
            if not self.by_network[connection.network]:
                del self.by_network[connection.network]
        self._show_load()
        connection.socket.close()

    def _show_load(self) -> None:
        if self.alive:
            self.app.board.write(self.slot, len(self.connections))
        else:
            self.app.board.release(self.slot)

    def _stop(self) -> None:
        """Finish requests that have arrived, for at most `graceful_timeout`; accept no new connections."""
        end = monotonic() + self.limits.graceful_timeout
        self.offered.clear()
        self._show_load()
        for descriptor, listener in self.listeners.items():
            self._accept_waiting(listener)
            self.poller.remove(descriptor)
            listener.close()
        self.listeners.clear()
        soon = monotonic() + STOP_LINGER
        with self.handover:
            for connection in self.connections.values():
                if connection.is_idle:
                    connection.expires = min(connection.expires, soon)
        while self.connections and monotonic() < end:
            self.notify()
            self._wait(longest_wait=0.05)
            self._sweep(monotonic())
        if self.connections:
            self.log.warning("stopped with %d connections still open", len(self.connections))
        self.thread_pool.stop()

    def _accept_waiting(self, listener: Any) -> None:
        """Accept connections that the kernel has established: closing the listener would reset them."""
        known = -1
        while known != len(self.connections) and len(self.connections) < self.cfg.worker_connections:
            known = len(self.connections)
            self._accept(listener)
