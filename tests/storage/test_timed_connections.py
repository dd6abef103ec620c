"""Servers that send bytes regularly but never finish a response."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from threading import Event, Thread

import pytest
import requests

from storage.errors import StoreUnavailable
from storage.network.store_http import store_session
from tests.parts.minio import Minio
from tests.storage.open_store_fixtures import opened, use_storage_settings

pytestmark = [
    pytest.mark.django_db,  # waiting code closes its database connections
    pytest.mark.timeout(20),  # otherwise they block a thread
]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS: dict[str, Callable[[], Iterator[bytes]]] = {
    "a status": lambda: chain([b"HTTP/1.1 200 "], repeat(b"O")),
    "a header": lambda: chain([HEAD + b"X-A: "], repeat(b"a")),
    "headers": lambda: chain([b"HTTP/1.1 200 OK\r\n"], (b"X-%d: a\r\n" % number for number in range(90)), repeat(b"X")),
    "heads": lambda: repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body": lambda: chain([HEAD + b"Content-Length: 500\r\n\r\n"], repeat(b"a")),
    "a body without a length": lambda: chain([HEAD + b"Connection: close\r\n\r\n"], repeat(b"a")),
    "a length of a chunk": lambda: chain([CHUNKED + b"1;"], repeat(b"a")),
    "trailers": lambda: chain([CHUNKED + b"0\r\n"], repeat(b"X-A: a\r\n")),
}


@contextmanager
def serving(pieces: Callable[[], Iterator[bytes]]) -> Iterator[str]:
    """Yield the address of a server that sends these pieces in turn, twenty per second, to every client."""
    is_over = Event()

    def response(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            for piece in pieces():
                connection.sendall(piece)
                if is_over.wait(0.05):
                    return

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                Thread(target=response, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Thread(target=serve, args=(listener,), daemon=True)
        server.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            is_over.set()
            listener.shutdown(socket.SHUT_RDWR)
            server.join()


@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
def test_a_session_has_an_end(pieces: Callable[[], Iterator[bytes]]) -> None:
    with serving(pieces) as address, store_session() as session, pytest.raises(requests.RequestException):
        session.get(address, timeout=(1.0, 0.5))


@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
def test_a_store_has_an_end(
    minio: Minio, monkeypatch: pytest.MonkeyPatch, pieces: Callable[[], Iterator[bytes]]
) -> None:
    use_storage_settings(monkeypatch, retries=0, request_timeout=0.5)
    with serving(pieces) as address:
        store = opened(minio.profile("bucket", "wh", endpoint=address), minio.credential)
        acts: list[Callable[[], object]] = [
            lambda: store.get("s3://bucket/wh/a", limit=1000),
            lambda: store.is_empty("s3://bucket/wh/a", ignore=lambda _: False),
            lambda: store.put_new("s3://bucket/wh/a", b"x"),
        ]
        for act in acts:
            with pytest.raises(StoreUnavailable):
                act()


def test_who_is_in_time_is_not_cut_off(minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_storage_settings(monkeypatch, request_timeout=0.5)
    store = opened(minio.profile(bucket, "wh"), minio.credential)
    store.put_new(f"s3://{bucket}/wh/t/a", b"x" * 1_000_000)
    for _ in range(3):
        assert len(store.get(f"s3://{bucket}/wh/t/a", limit=1_000_000)) == 1_000_000
        Event().wait(0.6)
        assert not store.is_empty(f"s3://{bucket}/wh/t", ignore=lambda _: False)
