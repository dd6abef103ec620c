"""What a long response sees of its client: unsent bytes, and whether the client has disconnected."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from threading import Thread
from types import SimpleNamespace

import pytest

from icekeeper.server.request_threads import ClientLink
from icekeeper.server.sockets import ClientSocket

LARGE = 2_000_000


@pytest.fixture
def ends() -> Iterator[tuple[ClientSocket, socket.socket]]:
    """The server's end with a timeout of 0.2 s, and the client's."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ClientSocket(ours, 0.2, 1_000_000) as client:
        yield client, theirs


def test_unsent_bytes_are_sent(ends: tuple[ClientSocket, socket.socket]) -> None:
    client, theirs = ends
    received = bytearray()

    def receive() -> None:
        while len(received) < LARGE:
            received.extend(theirs.recv(65_536))

    client.sendall(b"x" * LARGE)
    assert client.unsent_bytes == LARGE
    reader = Thread(target=receive)
    reader.start()
    ClientLink(client, SimpleNamespace(alive=True)).drain()
    assert client.unsent_bytes == 0
    reader.join(10)
    assert len(received) == LARGE


def test_a_client_that_does_not_read_is_not_waited_for(ends: tuple[ClientSocket, socket.socket]) -> None:
    client, _ = ends
    client.drain()
    client.sendall(b"x" * LARGE)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        client.drain()
    assert 0.2 <= time.monotonic() - began < 5


def test_a_client_that_reads_too_slowly_is_not_waited_for(ends: tuple[ClientSocket, socket.socket]) -> None:
    """At a million bytes a second two million take two seconds, and the timeout."""
    client, theirs = ends
    client.sendall(b"x" * LARGE)
    has_ended: list[bool] = []

    def receive_slowly() -> None:
        while not has_ended:
            theirs.recv(20_000)
            time.sleep(0.1)

    reader = Thread(target=receive_slowly)
    reader.start()
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        client.drain()
    has_ended.append(True)
    assert time.monotonic() - began < 10
    reader.join(10)


def test_a_response_ends_with_its_client_or_its_server(ends: tuple[ClientSocket, socket.socket]) -> None:
    client, theirs = ends
    worker = SimpleNamespace(alive=True)
    link = ClientLink(client, worker)
    assert not link.has_ended()
    theirs.sendall(b"GET / HTTP/1.1\r\n")
    assert not link.has_ended(), "the beginning of the next request"
    assert client.recv(100) == b"GET / HTTP/1.1\r\n", "it was not taken"
    worker.alive = False
    assert link.has_ended()
    worker.alive = True
    theirs.close()
    assert link.has_ended()
