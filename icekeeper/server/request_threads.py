"""The threads of a server process that run requests which have arrived: parse, call the application, respond."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.message import Request
from gunicorn.http.wsgi import create

from icekeeper.kernel.errors.types import CatalogError, RequestTimeout
from icekeeper.server.body_arrival import ReceivedBytes
from icekeeper.server.connection import Connection
from icekeeper.server.response import WorkerResponse, catalog_error_of, render_error
from icekeeper.server.sockets import ClientSocket

T = TypeVar("T")

MAX_EXTRA_THREADS = 64
"""Threads in addition to the configured number, while as many requests wait for other requests."""


class ThreadPool(Generic[T]):
    """Calls `work` for submitted items, in their order, in `size` threads and one more for each thread that waits.

    `at_end` is called in a thread that ends. A `SlotPool` of `icekeeper.kernel.threads`.
    """

    def __init__(self, size: int, work: Callable[[T], None], at_end: Callable[[], None]) -> None:
        self._size, self._work, self._at_end = size, work, at_end
        self._submitted: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._counting = threading.Lock()
        self._running = self._waiting = 0

    def start(self) -> None:
        self._running = self._size
        for _ in range(self._size):
            self._start_thread()

    def submit(self, item: T) -> None:
        self._submitted.put(item)

    def stop(self) -> None:
        """Let each thread end when no item is left."""
        for _ in range(self._size + MAX_EXTRA_THREADS):
            self._submitted.put(None)

    def begin_wait(self) -> None:
        """Start another thread if needed, because the request of this thread waits for other requests."""
        with self._counting:
            self._waiting += 1
            is_needed = self._running - self._waiting < self._size and self._running < self._size + MAX_EXTRA_THREADS
            self._running += is_needed
        if is_needed:
            try:
                self._start_thread()
            except RuntimeError:  # the system cannot start a thread: this one keeps its slot
                with self._counting:
                    self._running -= 1

    def end_wait(self) -> None:
        """Continue at once; one thread ends when it has finished its request."""
        with self._counting:
            self._waiting -= 1

    def _start_thread(self) -> None:
        threading.Thread(target=self._run, name="request", daemon=True).start()

    def _run(self) -> None:
        while not self._is_surplus() and (item := self._submitted.get()) is not None:
            self._work(item)
        self._at_end()

    def _is_surplus(self) -> bool:
        with self._counting:
            is_surplus = self._running - self._waiting > self._size
            self._running -= is_surplus
        return is_surplus


class ClientLink:
    """What a long response sees of its client and of this process (`icekeeper.kernel.http.client_link`)."""

    def __init__(self, sock: ClientSocket, worker: Any) -> None:
        self._socket, self._worker = sock, worker
        self.drain = sock.drain

    def has_ended(self) -> bool:
        return not self._worker.alive or self._socket.has_disconnected()


class RequestRunner:
    """Runs requests for a gunicorn `worker`. Parser, WSGI environ and response rules are gunicorn's."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._log = worker.log

    def run(self, connection: Connection) -> bool:
        """Parse and serve one request; return whether the connection can carry another one."""
        sock = connection.socket
        head, has_all = connection.logged_head(), connection.has_all
        source = connection.take_request()
        request = self._parse(connection, source, head)
        if request is None:
            return False
        # The event loop has sent it, unless the body is not wanted.
        request._expected_100_continue = False  # noqa: SLF001
        response: WorkerResponse
        response, environ = create(
            request,
            sock,
            connection.address,
            connection.server,
            self._worker.cfg,
            response_class=WorkerResponse,
            response_args=(self._worker, has_all),
        )
        environ["wsgi.multithread"] = True
        environ["icekeeper.arrived"] = connection.arrived
        environ["icekeeper.is_stopping"] = not self._worker.alive
        environ["icekeeper.client"] = ClientLink(sock, self._worker)
        try:
            self._call_application(environ, response)
        except (ConnectionError, TimeoutError) as error:
            self._log.debug("client disconnected: %s", error)
            return False
        except Exception:  # noqa: BLE001 - a thread must live on after any failure of the application
            self._log.exception("the application failed")
            if not response.on_wire:
                self._fail(connection, CatalogError("Unexpected error of the server"), head)
            return False
        if response.should_close() or not _skip_body(request):
            return False
        connection.expect_request(bytearray(source.take_rest()))
        return True

    def _parse(self, connection: Connection, source: ReceivedBytes, head: bytes) -> Request | None:
        """Return the request; None when the client disconnected or got an error response."""
        try:
            return Request(self._worker.cfg, source, connection.address)
        except (NoMoreData, StopIteration, ConnectionError) as error:
            self._log.debug("client disconnected: %r", error)
        except TimeoutError:
            self._fail(connection, RequestTimeout("The client sent its request too slowly"), head)
        except ParseException as error:
            self._fail(connection, catalog_error_of(error), head)
        return None

    def _call_application(self, environ: dict[str, Any], response: WorkerResponse) -> None:
        parts = self._worker.wsgi(environ, response.start_response)
        try:
            for part in parts:
                response.write(part)
            response.close()
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()

    def _fail(self, connection: Connection, error: CatalogError, head: bytes) -> None:
        """Send an error response for a request that could not run; the connection ends."""
        try:
            connection.socket.sendall(render_error(error, head, connection.arrived))
        except OSError as failure:
            self._log.debug("client disconnected: %s", failure)


def _skip_body(request: Request) -> bool:
    """Discard the rest of the body; return False when it was malformed, so that the next request cannot be found."""
    try:
        request.body.read()
    except (OSError, ParseException):
        return False
    return not getattr(request.body.reader, "length", 0)
