"""The feed of a real server: waits release threads and connections, streams pass at once and end cleanly."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.parts import process
from tests.parts.server import ROOT, CatalogServer

pytestmark = pytest.mark.both_databases
FEED = "/management/v1/events"
THREADS = 2
STREAMS = 6


@pytest.fixture(scope="module")
def server(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """A server with two threads, on PostgreSQL with one connection for reads; its worker publishes."""
    url = run_environment.own_database("feed_of_a_server")
    settings = {"LAKEKEEPER__PG_READ_POOL_CONNECTIONS": "1"} if url else {}
    home = tmp_path_factory.mktemp("feed")
    with CatalogServer(home, database_url=url, threads=THREADS, settings=settings) as running:
        running.create_warehouse("wh")
        newest(running, after="0", wait=20)
        yield running


def get(server: CatalogServer, **query: Any) -> dict[str, Any]:
    response = requests.get(server.base_url + FEED, params=query, timeout=60)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def newest(server: CatalogServer, **query: Any) -> str:
    """Return the cursor after all events."""
    while True:
        page = get(server, **query, limit=1000)
        if not page["has-more"]:
            return str(page["next"])
        query["after"] = page["next"]


def create_namespace(server: CatalogServer, name: str) -> float:
    """Create a namespace; return the time of the response."""
    url = f"{server.uri}/v1/{server.warehouse_id}/namespaces"
    response = requests.post(url, json={"namespace": [name]}, timeout=30)
    assert response.status_code == 200, response.text
    return time.monotonic()


class Stream:
    """A client of Server-Sent Events, with the first lines of the response already received."""

    def __init__(self, server: CatalogServer, query: str = "", **headers: str) -> None:
        self._response = requests.get(
            f"{server.base_url}{FEED}?{query}", headers={"accept": "text/event-stream", **headers},
            stream=True, timeout=30,
        )  # fmt: skip
        assert self._response.status_code == 200, self._response.text
        self.headers = self._response.headers
        self._lines = self._response.iter_lines(chunk_size=1, decode_unicode=True)
        self.last_id = self._next()["id"]

    def event(self) -> dict[str, Any]:
        """Return the next event."""
        message = self._next()
        assert message["id"] == json.loads(message["data"])["position"]
        self.last_id = message["id"]
        found: dict[str, Any] = json.loads(message["data"])
        return found

    def rest(self) -> list[str]:
        """Return the lines until the server ends the stream."""
        return list(self._lines)

    def close(self) -> None:
        self._response.close()

    def _next(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self._lines:
            if not line:
                return found
            name, _, value = str(line).partition(":")
            found[name] = value.strip()
        raise EOFError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def test_a_long_poll_wakes_within_a_second(server: CatalogServer) -> None:
    delays = []
    with ThreadPoolExecutor(1) as pool:
        for attempt in range(3):  # the fastest one counts: other processes use the machine as well
            cursor = newest(server, after="latest")

            def poll(after: str = cursor) -> tuple[dict[str, Any], float]:
                found = get(server, after=after, wait=30, warehouseId=server.warehouse_id, type="createNamespace")
                return found, time.monotonic()

            waiting = pool.submit(poll)
            time.sleep(0.3)
            created = create_namespace(server, f"polled{attempt}")
            page, received = waiting.result(30)
            assert [each["name"] for each in page["events"]] == [f"polled{attempt}"]
            delays.append(received - created)
    assert min(delays) < 1.0, delays


def test_a_long_poll_ends_in_time(server: CatalogServer) -> None:
    cursor, began = newest(server, after="latest"), time.monotonic()
    assert get(server, after=cursor, wait=1) == {"events": [], "next": cursor, "has-more": False}
    assert 1.0 <= time.monotonic() - began < 10


def test_a_stream_passes_events_at_once_and_continues(server: CatalogServer) -> None:
    query = f"warehouseId={server.warehouse_id}"
    with Stream(server, query, **{"accept-encoding": "gzip"}) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert stream.headers["Cache-Control"] == "no-store"
        assert stream.headers["X-Accel-Buffering"] == "no"
        assert "Content-Encoding" not in stream.headers
        created = create_namespace(server, "streamed")
        assert stream.event()["name"] == "streamed"
        assert time.monotonic() - created < 5
        create_namespace(server, "streamed2")
        assert stream.event()["name"] == "streamed2"
        last = stream.last_id
    create_namespace(server, "missed")
    with Stream(server, query, **{"last-event-id": last}) as stream:
        assert stream.last_id == last
        assert stream.event()["name"] == "missed"
        create_namespace(server, "live")
        assert stream.event()["name"] == "live"


def test_waiting_clients_hold_no_threads_and_no_connections(server: CatalogServer) -> None:
    with ExitStack() as opened:
        streams = [opened.enter_context(Stream(server, f"warehouseId={server.warehouse_id}")) for _ in range(STREAMS)]
        cursor = newest(server, after="latest")
        pool = opened.enter_context(ThreadPoolExecutor(STREAMS))
        polls = [pool.submit(get, server, after=cursor, wait=30) for _ in range(STREAMS)]
        time.sleep(0.5)
        began = time.monotonic()
        assert requests.get(f"{server.base_url}/health", timeout=10).status_code == 200
        assert time.monotonic() - began < 5
        create_namespace(server, "for all")
        assert [each.event()["name"] for each in streams] == ["for all"] * STREAMS
        assert all(poll.result(30)["events"] for poll in polls)


def test_a_stream_ends_when_its_client_disconnects(server: CatalogServer) -> None:
    """The log line of the request is written when the stream ends, with its duration."""
    agent = "a client that leaves"
    with Stream(server, **{"user-agent": agent}):
        pass
    deadline = time.monotonic() + 15
    while not (lines := [each for each in server.log_lines("icekeeper.access") if each["user_agent"] == agent]):
        assert time.monotonic() < deadline, "the stream of a client that left has not ended"
        time.sleep(0.05)
    [line] = lines
    assert (line["status"], line["route"], line["path"]) == (200, "management/v1/events", FEED)


def test_a_client_that_does_not_read_delays_no_one(server: CatalogServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.sendall(f"GET {FEED}?after=0 HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n".encode())
        with Stream(server) as stream:
            create_namespace(server, "read by others")
            assert stream.event()["name"] == "read by others"


def test_the_consumer_of_the_page(server: CatalogServer, tmp_path: Path) -> None:
    """The consumer is run as it is on the page."""
    page = (ROOT / "docs" / "events.md").read_text()
    section = page.partition("### Read events from a program\n")[2]
    source = section.partition("```python\n")[2].partition("```")[0]
    assert len(source.splitlines()) <= 12
    changed = source.replace("http://127.0.0.1:8181", server.base_url)
    assert changed != source
    program = tmp_path / "consumer.py"
    program.write_text(changed)
    (tmp_path / "cursor").write_text(newest(server, after="latest"))
    consumer = process.start([sys.executable, "-u", str(program)], log=tmp_path / "log", env={}, cwd=tmp_path)
    try:
        create_namespace(server, "consumed")
        deadline = time.monotonic() + 30
        while "createNamespace" not in (tmp_path / "log").read_text():
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.05)
        assert "consumed" in (tmp_path / "log").read_text()
    finally:
        process.kill(consumer)
    cursor = (tmp_path / "cursor").read_text()
    assert get(server, after=cursor)["events"] == []


def test_a_stop_ends_streams_cleanly(server: CatalogServer) -> None:
    """The last test: it stops the server."""
    with Stream(server) as stream, ThreadPoolExecutor(1) as pool:
        poll = pool.submit(get, server, after=newest(server, after="latest"), wait=30)
        time.sleep(0.3)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 15
        assert stream.rest() == [], "the end of the response was received"
        assert poll.result(5)["events"] == []
