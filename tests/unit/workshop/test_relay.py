"""The relay, which cuts a part off without stopping it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.parts.relay import Relay


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it receives."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        while piece := connection.recv(100):
                            connection.sendall(piece)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def relay(echo: int) -> Iterator[Relay]:
    with Relay(echo) as relay:
        yield relay


def ask(port: int, seconds: float = 20) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(b"hello")
        return connection.recv(100)


def test_data_is_forwarded_in_both_directions(relay: Relay) -> None:
    assert [ask(relay.port) for _ in range(3)] == [b"hello"] * 3


def test_a_deleted_user_is_not_found_at_the_same_address_again(relay: Relay) -> None:
    with socket.create_connection(("127.0.0.1", relay.port), timeout=20) as stood:
        stood.sendall(b"hello")
        assert stood.recv(100) == b"hello"
        with relay.refusing():
            assert stood.recv(100) == b""
            with pytest.raises(ConnectionRefusedError):
                ask(relay.port)
    assert ask(relay.port) == b"hello"


def test_silence_accepts_data_and_ends(relay: Relay) -> None:
    with relay.silent(), pytest.raises(TimeoutError):
        ask(relay.port, seconds=0.2)
    assert ask(relay.port) == b"hello"


def test_a_missing_part_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Relay(port) as relay, contextlib.suppress(ConnectionResetError):
        assert ask(relay.port) == b""
