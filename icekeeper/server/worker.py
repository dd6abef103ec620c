"""A gunicorn worker whose threads only ever run requests that have arrived, and that says no instead of hanging.

gunicorn's own gthread worker lends a thread to every new connection and to every slow head, closes lingering
connections on its event loop, and lets requests wait for a thread for ever. Here one event loop accepts, reads heads
and holds idle connections; threads parse, run and answer. A request that waited too long for a thread is answered 503
by the event loop, even when every thread is stuck. Parser, WSGI environ and response rules are gunicorn's.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Any

from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.message import Request
from gunicorn.http.unreader import SocketUnreader
from gunicorn.http.wsgi import create
from gunicorn.workers import base
from gunicorn.workers.base import Worker
from gunicorn.workers.workertmp import WorkerTmp

from icekeeper.kernel.anonymous_file import open_anonymous_file
from icekeeper.kernel.errors import Busy, CatalogError, RequestTimeout
from icekeeper.kernel.request_id import set_request_id
from icekeeper.kernel.request_origin import set_request_origin
from icekeeper.kernel.thread_lending import set_lender
from icekeeper.server.answer import LARGEST_DRAIN, Answer
from icekeeper.server.client_socket import ClientSocket
from icekeeper.server.connection import Connection, Turn
from icekeeper.server.crew import Crew
from icekeeper.server.poller import Poller
from icekeeper.server.refusals import as_refusal, refusal_bytes

STOP_LINGER = 1.0
"""Seconds that a stopping worker keeps idle connections, for a request that a client may be sending just now."""

FRESH_SECONDS = 1.0
"""How long a connection must have been silent before it may be closed in favour of a new one."""

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
"""What a worker is asked to stop by."""

YIELD_SECONDS = 0.003
"""How long a new connection is left to a worker that has fewer."""

CLOSE_LINGER = 3.0
"""Seconds to wait for a client to take the last answer: closing on unread bytes would destroy it on the way."""

DRAIN_SECONDS = 1.0
"""How long a thread waits for the rest of a small body that no view read."""

LARGEST_LOGGED_HEAD = 8192
"""Bytes of a head that are kept for the log line of a request that cannot be parsed."""

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_Ticket = list[Connection]
"""One element as long as nobody has taken it; `pop` decides between a thread and the event loop."""


class Heartbeat(WorkerTmp):  # type: ignore[misc]
    """The file whose modification time shows the arbiter that a worker's event loop is alive.

    gunicorn's own lies in a folder for temporary files, which a read-only container does not have.
    """

    def __init__(self, _cfg: Any) -> None:
        self._tmp = open_anonymous_file("icekeeper-heartbeat")


base.WorkerTmp = Heartbeat  # gunicorn has no setting for it: its worker's constructor makes one by this name


class RequestWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """See the module. What gunicorn's settings do not know is in `app.limits` (icekeeper.server.run)."""

    slot: int
    """This worker's place on the load board, given by the arbiter before the fork."""

    metrics_place: int | None = None
    """That on the board of metrics; None where there are none."""

    attendants: Sequence[Callable[[], None]] = ()
    """What ends the threads that live beside the requests, once they were started (icekeeper.server.run)."""

    def init_process(self) -> None:
        self.queue_timeout: float = self.app.limits.queue_timeout
        self.read_timeout: float = self.app.limits.read_timeout
        self.connections: dict[int, Connection] = {}
        self.handover = threading.Lock()
        self.crew: Crew[_Ticket] = Crew(self.cfg.threads, self._run_ticket, self.app.end_thread)
        self.waiting: deque[tuple[float, _Ticket]] = deque()
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
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # which the arbiter held back

    # --- the event loop ------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.poller.watch(self.PIPE[0])
        for listener in self.sockets:
            listener.settimeout(0.0)
            self.listeners[listener.fileno()] = listener
            self.poller.add(listener.fileno())
        set_lender(self.crew)
        self.crew.start()
        next_sweep = 0.0
        while self.alive:
            self.notify()
            self._turn()
            now = monotonic()
            if now >= next_sweep:
                self._sweep(now)
                next_sweep = now + 1.0
            if self.ppid != os.getppid():
                self.log.info("Parent changed, shutting down: %s", self)
                break
        self._stop()

    def _turn(self, longest_wait: float = 1.0) -> None:
        """Wait for what comes next and deal with it."""
        if self.offered:
            longest_wait = YIELD_SECONDS
        if self.waiting:
            longest_wait = max(0.0, min(longest_wait, self.waiting[0][0] + self.queue_timeout - monotonic()))
        for descriptor in self.poller.wait(longest_wait):
            connection = self.connections.get(descriptor)
            if connection is not None:
                self._read(connection)
            elif descriptor in self.listeners:
                self._offer(descriptor)
            elif descriptor == self.PIPE[0]:
                os.read(descriptor, 4096)
        if self.offered and monotonic() >= self.offered_until:
            for descriptor in self.offered:
                self._accept(self.listeners[descriptor])
                self.poller.arm(descriptor)
            self.offered.clear()
        self._refuse_overdue()

    def _offer(self, listener: int) -> None:
        """Take a new connection, unless a worker that has fewer can; when that one does not, take it after all."""
        if self.app.board.someone_holds_fewer(len(self.connections)):
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
            self._close_longest_idle(or_lingering=True)
            sleep(0.01)  # the listener stays readable: without a pause this would spin
            return
        now = monotonic()
        sock = ClientSocket(accepted, self.read_timeout)
        # A connection that has not sent anything may be one that a load balancer opened in advance: it is idle.
        connection = Connection(sock, address, listener.getsockname(), now + self.cfg.keepalive)
        full = len(self.connections) >= self.cfg.worker_connections and not self._close_longest_idle()
        self.connections[connection.descriptor] = connection
        self._show_load()
        self.poller.add(connection.descriptor)
        if full:
            connection.arrived = now
            self._refuse(connection, Busy("The server has too many connections; try again"))

    def _read(self, connection: Connection) -> None:
        """Take in what has arrived; the event loop owns the connection."""
        try:
            data = connection.socket.recv_now(65_536)
        except BlockingIOError:
            self.poller.arm(connection.descriptor)
            return
        except OSError:
            data = b""
        if not data:
            self._close(connection)
        elif connection.turn is Turn.LINGER:
            connection.linger_left -= len(data)
            if connection.linger_left > 0:
                self.poller.arm(connection.descriptor)
            else:
                self._close(connection)
        else:
            if not connection.head:
                connection.expires = monotonic() + self.read_timeout
            connection.add(data)
            self._take_turn(connection)

    def _take_turn(self, connection: Connection) -> None:
        """Queue a complete request, wait for the rest of an incomplete one, refuse one that is too long."""
        if connection.has_head():
            connection.turn = Turn.QUEUE
            connection.arrived = monotonic()
            ticket = [connection]
            self.waiting.append((connection.arrived, ticket))
            self.crew.submit(ticket)
        elif (refusal := connection.refusal()) is not None:
            connection.arrived = monotonic()
            self._refuse(connection, refusal)
        else:
            self.poller.arm(connection.descriptor)

    def _refuse_overdue(self) -> None:
        """Forget requests that a thread has taken, answer 503 to those that have waited too long."""
        waiting = self.waiting
        while waiting:
            since, ticket = waiting[0]
            if ticket:
                if monotonic() - since < self.queue_timeout:
                    return
                try:
                    connection = ticket.pop()
                except IndexError:
                    pass  # a thread was faster, and answers
                else:
                    self._refuse(connection, Busy("The server is overloaded; nothing was done, try again"))
            waiting.popleft()

    def _refuse(self, connection: Connection, refusal: CatalogError) -> None:
        """Answer from the event loop: one try that cannot block, then wait for the client to close."""
        answer = refusal_bytes(refusal, bytes(connection.head), connection.arrived)
        try:
            connection.socket.send(answer)
        except OSError:
            self._close(connection)
        else:
            self._linger(connection)

    def _sweep(self, now: float) -> None:
        """Close what the event loop has waited for long enough. A head that began but never ended is answered 408."""
        for connection in list(self.connections.values()):
            if connection.expires > now or connection.turn not in (Turn.LOOP, Turn.LINGER):
                continue
            with self.handover:  # a thread may be handing it over: not before it is armed
                is_unfinished = connection.turn is Turn.LOOP and bool(connection.head)
            if is_unfinished:
                connection.arrived = connection.expires - self.read_timeout
                self._refuse(connection, RequestTimeout("The client sent its request too slowly"))
            else:
                self._close(connection)

    def _close_longest_idle(self, *, or_lingering: bool = False) -> bool:
        """Make room for a new connection at the cost of the one that was least useful; False when none is idle.

        One that was opened or used a moment ago is not: its client may be sending.
        """
        latest = monotonic() + self.cfg.keepalive - FRESH_SECONDS
        with self.handover:
            known = list(self.connections.values())
            idle = [connection for connection in known if connection.is_idle and connection.expires < latest]
            if not idle and or_lingering:
                idle = [connection for connection in known if connection.turn is Turn.LINGER]
        if not idle:
            return False
        self._close(min(idle, key=lambda connection: connection.expires))
        return True

    # --- the threads ---------------------------------------------------------------------------------------------

    def _run_ticket(self, ticket: _Ticket) -> None:
        try:
            connection = ticket.pop()
        except IndexError:  # it waited too long and was refused
            return
        connection.turn = Turn.THREAD
        try:
            if self._run_request(connection):
                self._give_back(connection)
            else:
                self._linger(connection)
        except (Exception, SystemExit):  # whatever happens, the thread lives on
            self.log.exception("request failed outside the application")
            self._close(connection)
        set_request_id(None)
        set_request_origin(None)

    def _run_request(self, connection: Connection) -> bool:
        """Parse and answer one request; whether the connection can carry another."""
        sock = connection.socket
        sock.read_until = connection.arrived + self.app.limits.request_time
        head = bytes(connection.head[:LARGEST_LOGGED_HEAD])
        unreader = connection.take_head()
        request = self._parse(connection, unreader, head)
        if request is None:
            return False
        # gunicorn would send 100 Continue now; it is sent when the body is read, so that a refusal comes instead of it.
        sock.owes_continue, request._expected_100_continue = request._expected_100_continue, False  # noqa: SLF001
        answer: Answer
        answer, environ = create(
            request, sock, connection.address, connection.server, self.cfg, response_class=Answer, response_args=(self,)
        )
        environ["wsgi.multithread"] = True
        environ["icekeeper.arrived"] = connection.arrived
        environ["icekeeper.is_stopping"] = not self.alive
        try:
            self._answer(environ, answer)
        except (ConnectionError, TimeoutError) as error:
            self.log.debug("client gone: %s", error)
            return False
        except Exception:
            self.log.exception("the application failed")
            if not answer.on_wire:
                self._fail(connection, CatalogError("The server met an unexpected error"), head)
            return False
        if answer.should_close() or not self._drain(request, sock):
            return False
        connection.head += unreader.take_buffered()
        return True

    def _parse(self, connection: Connection, unreader: SocketUnreader, head: bytes) -> Request | None:
        """The request, or None when there is none: the client is gone or has got its refusal."""
        try:
            return Request(self.cfg, unreader, connection.address)
        except (NoMoreData, StopIteration, ConnectionError) as error:
            self.log.debug("client gone: %r", error)
        except TimeoutError:
            self._fail(connection, RequestTimeout("The client sent its request too slowly"), head)
        except ParseException as error:
            self._fail(connection, as_refusal(error), head)
        return None

    def _answer(self, environ: dict[str, Any], answer: Answer) -> None:
        parts = self.wsgi(environ, answer.start_response)
        try:
            for part in parts:
                answer.write(part)
            answer.close()
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()

    def _drain(self, request: Request, sock: ClientSocket) -> bool:
        """Throw away what is left of the body; False when it does not come soon, so that the next request is lost."""
        sock.read_until = monotonic() + DRAIN_SECONDS
        try:
            request.body.read(LARGEST_DRAIN + 1)
        except (OSError, ParseException):
            return False
        return not getattr(request.body.reader, "length", 0)

    def _fail(self, connection: Connection, refusal: CatalogError, head: bytes) -> None:
        """Answer what could not be run, from its thread; the connection ends."""
        try:
            connection.socket.sendall(refusal_bytes(refusal, head, connection.arrived))
        except OSError as error:
            self.log.debug("client gone: %s", error)

    # --- changes of turn -----------------------------------------------------------------------------------------

    def _give_back(self, connection: Connection) -> None:
        """To the event loop, to wait for the next request; or to the queue, when that has come with the last one."""
        if connection.head:
            connection.add(b"")
            if connection.has_head():
                self._take_turn(connection)
                return
        now = monotonic()
        with self.handover:
            connection.expires = now + (self.read_timeout if connection.head else self.cfg.keepalive)
            connection.turn = Turn.LOOP
            if not self.alive:
                connection.expires = min(connection.expires, now + STOP_LINGER)
            self.poller.arm(connection.descriptor)

    def _linger(self, connection: Connection) -> None:
        """Say that this was the last answer and wait for the client to close."""
        try:
            connection.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(connection)
            return
        with self.handover:
            connection.head.clear()
            connection.linger_left = 2 * self.app.limits.body_size
            connection.expires = monotonic() + CLOSE_LINGER
            connection.turn = Turn.LINGER
            self.poller.arm(connection.descriptor)

    def _close(self, connection: Connection) -> None:
        connection.turn = Turn.CLOSED
        # First out of the table: once it is closed, the next accepted connection may have the same descriptor.
        self.connections.pop(connection.descriptor, None)
        self._show_load()
        connection.socket.close()

    def _show_load(self) -> None:
        if self.alive:
            self.app.board.write(self.slot, len(self.connections))
        else:
            self.app.board.release(self.slot)

    # --- the end -------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Finish what has arrived, for at most `graceful_timeout`; nothing new is accepted."""
        end = monotonic() + self.app.limits.graceful_timeout
        self.offered.clear()
        self._show_load()
        for descriptor, listener in self.listeners.items():
            self._accept_waiting(listener)
            self.poller.forget(descriptor)
            listener.close()
        self.listeners.clear()
        soon = monotonic() + STOP_LINGER
        with self.handover:
            for connection in self.connections.values():
                if connection.is_idle:
                    connection.expires = min(connection.expires, soon)
        while self.connections and monotonic() < end:
            self.notify()
            self._turn(longest_wait=0.05)
            self._sweep(monotonic())
        if self.connections:
            self.log.warning("stopped with %d connections still open", len(self.connections))
        self.crew.stop()

    def _accept_waiting(self, listener: Any) -> None:
        """Take in connections that the kernel has completed already: closing the listener would reset them."""
        known = -1
        while known != len(self.connections) and len(self.connections) < self.cfg.worker_connections:
            known = len(self.connections)
            self._accept(listener)
