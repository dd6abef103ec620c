"""The load generator against a small server: it counts responses, retries the given statuses, keeps the connection."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.perf import cpu
from tests.perf.connection import Connection, request
from tests.perf.load import Job, measure


class Responses(BaseHTTPRequestHandler):
    """`/busy/N` returns 409 every second time, `/broken` 500, every other path 200 with the path as its body."""

    protocol_version = "HTTP/1.1"
    slots = itertools.count()
    connections = itertools.count()

    def setup(self) -> None:
        next(self.connections)
        super().setup()

    def do_GET(self) -> None:
        status = 500 if self.path == "/broken" else 200
        if self.path == "/busy" and next(self.slots) % 2 == 0:
            status = 409
        body = self.path.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name http.server calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Responses.slots, Responses.connections = itertools.count(), itertools.count()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Responses)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_one_connection_serves_many_requests_with_and_without_bodies(port: int) -> None:
    connection = Connection(port)
    assert [connection.send(request("GET", "/a")), connection.send(request("HEAD", "/b"))] == [(200, b"/a"), (200, b"")]
    assert connection.send(request("GET", "/c")) == (200, b"/c")
    assert next(Responses.connections) == 1
    connection.close()


@pytest.mark.parametrize(("path", "has_retries", "has_errors"), [("/ok", 0, 0), ("/busy", 1, 0), ("/broken", 0, 1)])
def test_responses_are_counted_by_class(port: int, path: str, has_retries: int, has_errors: int) -> None:
    job = Job(port, lambda _client: itertools.repeat([request("GET", path)]), 0.2, retried=(409,))
    found = measure(job, clients=2, trees={"server": os.getpid()})
    assert bool(found.latencies) is not bool(has_errors)
    assert (bool(found.retries), bool(found.errors)) == (bool(has_retries), bool(has_errors))


def test_cpu_counts_this_process_and_grows() -> None:
    before = cpu.seconds(os.getpid())
    while cpu.seconds(os.getpid()) < before + 0.05:
        sum(range(10_000))
    assert os.getpid() in cpu.tree(os.getppid())
    assert cpu.largest_memory_mb(os.getpid()) > 10
