"""Connection handling of the event loop, without a server."""

from __future__ import annotations

import logging
import socket
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic
from types import SimpleNamespace

import pytest

from icekeeper.server.connection import Connection, Phase
from icekeeper.server.sockets import ClientSocket, Poller
from icekeeper.server.transfer_limits import Limits
from icekeeper.server.worker import RequestWorker


class Loop:
    """An event loop with the connections that `connect` creates; no threads."""

    def __init__(self) -> None:
        self.worker = worker = RequestWorker.__new__(RequestWorker)
        worker.alive, worker.slot, worker.PIPE = True, 0, [-1, -1]
        worker.log = logging.getLogger("gunicorn.error")
        worker.app = SimpleNamespace(board=SimpleNamespace(write=lambda slot, count: None))
        worker.limits = Limits(
            queue_timeout=30.0,
            read_timeout=30.0,
            graceful_timeout=30.0,
            request_time=30.0,
            body_size=10_000_000,
            min_transfer_rate=1,
            transfer_buffer=20_000_000,
            connections_per_address=None,
            slow_connections_per_address=1000,
        )
        worker.read_timeout = worker.queue_timeout = 30.0
        worker.connections, worker.by_network, worker.unchecked_bytes = {}, Counter(), 0
        worker.handover = threading.Lock()
        worker.waiting, worker.offered, worker.listeners = deque(), [], {}
        worker.poller = Poller()
        worker.cfg = SimpleNamespace(keepalive=30.0, worker_connections=1000)
        self._stack = ExitStack()
        self._stack.callback(worker.poller.close)
        self._listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def connect(self) -> tuple[socket.socket, Connection]:
        client = self._stack.enter_context(socket.create_connection(self._listener.getsockname()))
        known = set(self.worker.connections)
        self.worker._accept(self._listener)
        [descriptor] = set(self.worker.connections) - known
        connection = self.worker.connections[descriptor]
        self._stack.callback(connection.socket.close)
        return client, connection

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    created = Loop()
    yield created
    created.close()


def test_an_error_at_one_connection_ends_no_other(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (bad, failing), (good, working) = loop.connect(), loop.connect()

    def add(connection: Connection, data: bytes) -> None:
        if connection is failing:
            raise IndexError
        connection.received += data

    monkeypatch.setattr(Connection, "add", add)
    bad.send(b"GET")
    good.send(b"GET")
    for _ in range(2):
        loop.worker._wait(longest_wait=0.1)
    assert failing.phase is Phase.CLOSED
    assert bad.recv(1) == b""
    assert (working.phase, bytes(working.received)) == (Phase.RECEIVE, b"GET")
    assert list(loop.worker.connections.values()) == [working]
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info


def test_the_memory_of_all_is_not_summed_for_each_packet(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[float] = []
    monkeypatch.setattr(loop.worker, "_limit_memory", lambda: checks.append(monotonic()))
    client, connection = loop.connect()
    client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 100_000)
    while len(connection.received) < 100_000:
        loop.worker._wait(longest_wait=0.1)
    loop.worker.unchecked_bytes = 0
    checks.clear()
    for _ in range(100):
        client.sendall(b"x")
        loop.worker._wait(longest_wait=1.0)
    assert not checks
    client.sendall(b"x" * 65_536)
    give_up = monotonic() + 10
    while not checks and monotonic() < give_up:
        loop.worker._wait(longest_wait=0.1)
    assert checks


def test_open_connections_of_an_address_are_counted(loop: Loop) -> None:
    (_, first), (_, second) = loop.connect(), loop.connect()
    assert loop.worker.by_network == {"127.0.0.1": 2}
    for _ in range(2):
        loop.worker._close(first)
    assert loop.worker.by_network == {"127.0.0.1": 1}
    loop.worker._close(second)
    assert loop.worker.by_network == {}


def test_the_network_of_a_client_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ClientSocket(ours, 1.0, 1) as client:
        connection = Connection(client, ("2001:db8::1", 5), ("::", 80), 0.0)
        monkeypatch.delattr("icekeeper.server.connection.client_network")
        assert connection.network == "2001:db8::/64"
