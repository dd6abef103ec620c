"""Requests above the capacity get 503 with Retry-After quickly and without execution; none hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.server.bare_server_fixtures import BareServer
from tests.server.raw_client_fixtures import RawClient, RawResponse


@pytest.fixture
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareServer]:
    """One worker with one thread, and a queue timeout of two seconds."""
    with BareServer(
        tmp_path_factory.mktemp("narrow"),
        ICEKEEPER__SERVER__THREADS="1",
        ICEKEEPER__SERVER__CONNECTIONS="20",
        ICEKEEPER__SERVER__QUEUE_TIMEOUT="2s",
    ) as server:
        yield server


def _busy(response: RawResponse) -> None:
    assert (response.status, response.error_type) == (503, "SlowDownException")
    assert int(response.headers["Retry-After"]) >= 1
    assert response.closes


def _is_retried(server: BareServer) -> bool:
    with server.client() as client:
        return client.get("/catalog/v1/echo").status == 200


def test_requests_that_wait_too_long_are_refused_while_every_thread_is_stuck(narrow: BareServer) -> None:
    with narrow.client() as slow, narrow.clients(10) as waiting:
        with narrow.holding(slow):  # rejected while it is busy, however long that takes
            began = time.monotonic()
            for client in waiting:
                client.send(b"POST /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            for client in waiting:
                _busy(client.response())
                assert client.is_closed()
            assert 1.9 < time.monotonic() - began < 15
        assert slow.response().json == {"held": True}
    assert _is_retried(narrow)
    statuses = [line["status"] for line in narrow.lines() if line["method"] == "POST"]
    assert statuses == [503] * 10
    assert all(line["error_type"] == "SlowDownException" for line in narrow.lines() if line["status"] == 503)


def test_a_request_that_waits_a_little_is_served(narrow: BareServer) -> None:
    with narrow.client() as slow, narrow.client() as next_one:
        with narrow.holding(slow):
            next_one.send(b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.3)
        assert next_one.response().status == 200
        assert slow.response().status == 200


def test_idle_connections_give_way_to_new_ones(narrow: BareServer) -> None:
    with narrow.clients(20):
        with narrow.client() as one_more:
            _busy(one_more.response())  # no other connection has been idle long enough
        time.sleep(1.1)
        assert _is_retried(narrow)


def test_when_all_connections_are_at_work_new_ones_are_refused(narrow: BareServer) -> None:
    with narrow.clients(20) as working:
        for client in working:
            client.send(b"GET /catalog/v1/sleep?seconds=0.4 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.1)
        with narrow.client() as one_more:
            _busy(one_more.response())
        assert {client.response().status for client in working} == {200, 503}
    assert _is_retried(narrow)


def test_a_flood_of_requests_gets_all_responses(narrow: BareServer) -> None:
    """Two hundred concurrent clients: each is served or rejected quickly."""
    responses: list[int] = []

    def ask() -> None:
        try:
            with RawClient(narrow.port) as client:
                responses.append(client.get("/catalog/v1/sleep?seconds=0.01").status)
        except (OSError, EOFError):
            responses.append(0)

    threads = [threading.Thread(target=ask) for _ in range(200)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert time.monotonic() - began < 60
    assert len(responses) == 200
    assert set(responses) <= {200, 503}
    assert 200 in responses


def test_workers_share_the_connections(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Clients that connect at the same moment and stay: no worker gets all of them."""
    with BareServer(tmp_path_factory.mktemp("shared"), ICEKEEPER__SERVER__WORKERS="2") as server:
        assert server.process is not None
        workers: list[psutil.Process] = []
        while len(workers) < 2:
            workers = psutil.Process(server.process.pid).children()
        serving: set[int] = set()
        while len(serving) < 2:
            with server.client() as client:
                serving.add(client.get("/catalog/v1/echo").json["process"])
        time.sleep(0.5)  # until the last of these connections is closed
        with server.clients(12) as clients:
            for client in clients:
                assert client.get("/catalog/v1/echo").status == 200
            held = [
                sum(connection.status == psutil.CONN_ESTABLISHED for connection in worker.net_connections())
                for worker in workers
            ]
    assert sum(held) == 12
    assert min(held) >= 4


def test_a_client_that_does_not_read_its_response_is_disconnected(tmp_path_factory: pytest.TempPathFactory) -> None:
    with BareServer(
        tmp_path_factory.mktemp("deaf"), ICEKEEPER__SERVER__THREADS="1", ICEKEEPER__SERVER__READ_TIMEOUT="500ms"
    ) as server:
        with server.client() as deaf:
            deaf.send(b"GET /catalog/v1/large?words=4000000 HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(2.0)
            assert _is_retried(server)
        with server.client() as attentive:
            assert len(attentive.get("/catalog/v1/large?words=1000000").body) > 8_000_000
