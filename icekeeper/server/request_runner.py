"""Runs one request that has arrived on the thread that took it: parse, call the application, write the response."""

from __future__ import annotations

from typing import Any

from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.message import Request
from gunicorn.http.wsgi import create

from icekeeper.kernel.errors.types import CatalogError, RequestTimeout
from icekeeper.server.body_arrival import ReceivedBytes
from icekeeper.server.connection import Connection
from icekeeper.server.response import WorkerResponse, catalog_error_of, render_error


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
