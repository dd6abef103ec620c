"""Clients that send or read slowly occupy no threads, little memory, and no connections of others."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.parts.server import CatalogServer
from tests.perf import cpu
from tests.server.bare_server_fixtures import BareServer
from tests.server.raw_client_fixtures import RawClient, RawResponse

POST = b"POST /catalog/v1/echo HTTP/1.1\r\nHost: x\r\n"
LARGE = b"GET /catalog/v1/large?words=100000 HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE_BYTES = 800_013
SLOW_READER = {"receive_buffer": 4096}
"""Of a client for which the system reads little ahead."""


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareServer]:
    """One worker with two threads that gives slow clients a minute."""
    with BareServer(
        tmp_path_factory.mktemp("patient"), ICEKEEPER__SERVER__THREADS="2", ICEKEEPER__SERVER__READ_TIMEOUT="60s"
    ) as server:
        yield server


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareServer]:
    """A client must transfer 50,000 bytes in each second."""
    with BareServer(
        tmp_path_factory.mktemp("impatient"),
        ICEKEEPER__SERVER__READ_TIMEOUT="1s",
        ICEKEEPER__SERVER__MIN_TRANSFER_RATE="50000",
    ) as server:
        yield server


def _is_served(server: BareServer, **options: str) -> bool:
    with server.client(**options) as client:
        return client.get("/catalog/v1/echo").status == 200


def _until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (POST + b"Content-Length: 11\r\n\r\nhello", b" world"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n wo", b"rld\r\n0\r\n\r\n"),
    ],
    ids=["sized", "chunked"],
)
def test_slow_bodies_hold_no_thread(patient: BareServer, begin: bytes, end: bytes) -> None:
    with patient.clients(200) as slow:
        for client in slow:
            client.send(begin)
        assert all(_is_served(patient) for _ in range(20))
        assert all(client.is_silent() for client in slow), "they were not given up for that"
        for client in slow:
            client.send(end)
        assert [client.response().json["body"] for client in slow] == ["hello world"] * 200


def test_a_slow_large_body_holds_no_thread(patient: BareServer) -> None:
    body = b"x" * 5_000_000
    with patient.clients(10) as slow:
        for client in slow:
            client.send(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1])
        assert all(_is_served(patient) for _ in range(20))
        for client in slow:
            client.send(b"x")
        assert [len(client.response().json["body"]) for client in slow] == [len(body)] * 10


def test_clients_that_wait_for_continue_hold_no_thread(patient: BareServer) -> None:
    with patient.clients(20) as slow:
        for client in slow:
            client.send(POST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert {client.response().status for client in slow} == {100}
        assert _is_served(patient)
        for client in slow:
            client.send(b"hello")
        assert [client.response().json["body"] for client in slow] == ["hello"] * 20


def test_clients_that_do_not_read_hold_no_thread(patient: BareServer) -> None:
    with patient.clients(190, **SLOW_READER) as slow, patient.clients(10, **SLOW_READER) as slowest:
        for client in slow:
            client.send(LARGE)
        for client in slowest:  # more than the system buffers of any response
            client.send(LARGE.replace(b"100000", b"1000000"))
        assert all(_is_served(patient) for _ in range(20))
        assert {len(client.response().body) for client in slow} == {LARGE_BYTES}
        assert {len(client.response().body) for client in slowest} == {8_000_013}


def test_a_response_in_many_parts_holds_no_thread(patient: BareServer) -> None:
    """As static files are sent."""
    with patient.clients(10, **SLOW_READER) as slow:
        for client in slow:
            client.send(b"GET /catalog/v1/parts?count=1200 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert all(_is_served(patient) for _ in range(5))
        assert [client.response().body for client in slow] == [b"part" * 1200 * 1024] * 10


def test_a_response_in_parts_waits_for_its_client_before_it_fills_the_memory(patient: BareServer) -> None:
    """An export; 40 MB of it are neither buffered nor lost."""
    with patient.client(**SLOW_READER) as client:
        client.send(b"GET /catalog/v1/parts?count=10000 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.5)
        assert _is_served(patient)
        assert len(client.response().body) == 40_960_000


def test_a_connection_carries_requests_after_a_slow_response(patient: BareServer) -> None:
    with patient.client(**SLOW_READER) as client:
        client.send(LARGE + LARGE.replace(b"100000", b"50000"))
        time.sleep(0.3)
        assert len(client.response().body) == LARGE_BYTES
        assert len(client.response().body) == 400_013
        assert client.get("/catalog/v1/echo").status == 200


def test_a_client_that_leaves_during_its_response(patient: BareServer) -> None:
    with patient.client(**SLOW_READER) as client:
        client.send(LARGE)
        time.sleep(0.3)
    assert _is_served(patient)


def test_a_liveness_probe_is_served_while_all_threads_are_busy(patient: BareServer) -> None:
    with patient.clients(2) as working, ExitStack() as holds, patient.client() as probing:
        for client in working:
            holds.enter_context(patient.holding(client))
        for method in ("GET", "HEAD", "GET"):
            response = probing.get("/health/live", "User-Agent: kube-probe", method=method)
            assert response.status == 200
            assert response.body == (b'{"status":"live"}' if method == "GET" else b"")
            assert response.headers["Cache-Control"] == "no-store"
        waiting = probing.send(b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.3)
        assert waiting.is_silent(), "which asks the database takes a thread"


def test_pipelined_probes_all_get_responses(patient: BareServer) -> None:
    count = 2000
    with patient.client() as client:
        client.send(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n" * count)
        assert {client.response().status for _ in range(count)} == {200}


# --- incomplete requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [(b"\r\n",), (b"\r", b"\n")], ids=["at once", "in two packets"])
def test_an_empty_line_before_a_request_is_harmless(patient: BareServer, line: Sequence[bytes]) -> None:
    with patient.client() as other, patient.client() as client:
        process = other.get("/catalog/v1/echo").json["process"]
        for _ in range(3):
            for packet in line:
                client.send(packet)
                time.sleep(0.1)
            assert client.get("/catalog/v1/echo").status == 200
        assert other.get("/catalog/v1/echo").json["process"] == process, "on a connection that was open before"


def test_empty_lines_do_not_keep_a_connection(tmp_path: Path) -> None:
    settings = {"ICEKEEPER__SERVER__KEEPALIVE": "2s", "ICEKEEPER__SERVER__READ_TIMEOUT": "2s"}
    with BareServer(tmp_path / "home", **settings) as server, server.client() as client:
        began = time.monotonic()
        while client.is_silent():
            assert time.monotonic() - began < 20
            client.trickle(b"\r\n", pause=0.2)


@pytest.mark.parametrize("size", [b"1_0", b"+1", b" 1"])
def test_a_chunk_with_an_invalid_size_is_rejected_without_waiting(patient: BareServer, size: bytes) -> None:
    with patient.client() as client:
        client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + size + b"\r\n")
        response = client.response()
        assert (response.status, response.error_type, response.closes) == (400, "BadRequestException", True)


def test_tiny_chunks_are_refused(patient: BareServer) -> None:
    """They would cost the event loop much time for few bytes."""
    with patient.client() as client:
        client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000)
        response = client.response()
        assert (response.status, response.error_type, response.closes) == (400, "BadRequestException", True)


def test_a_pipelined_request_that_expects_continue_gets_it(patient: BareServer) -> None:
    expecting = POST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    with patient.client() as client:
        client.send(b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\n\r\n" + expecting)
        assert [client.response().status for _ in range(2)] == [200, 100]
        assert client.send(b"hello").response().json["body"] == "hello"


@pytest.mark.parametrize(
    ("rest", "status"),
    [(b"\x16\x03\x01", 400), (POST + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413)],
    ids=["no HTTP", "a body over the limit"],
)
def test_pipelined_input_is_rejected_as_a_first_request(patient: BareServer, rest: bytes, status: int) -> None:
    with patient.client() as client:
        client.send(b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\n\r\n" + rest)
        assert client.response().status == 200
        error = client.response()
        assert (error.status, error.closes) == (status, True)


# --- the minimum rate ------------------------------------------------------------------------------------------------


def test_a_body_that_is_sent_too_slowly_is_408(impatient: BareServer) -> None:
    with impatient.client() as client:
        client.send(POST + b"X-Request-ID: slow\r\nContent-Length: 900000\r\n\r\n")
        client.trickle(b"x" * 1000, pause=0.01)
        response = client.response()
        assert (response.status, response.error_type, response.closes) == (408, "RequestTimeoutException", True)
        assert response.headers["X-Request-Id"] == "slow"


def test_a_client_that_reads_too_slowly_is_disconnected(impatient: BareServer) -> None:
    with impatient.client(**SLOW_READER) as client:
        client.send(LARGE.replace(b"100000", b"1000000"))
        time.sleep(5.0)
        with pytest.raises((EOFError, ConnectionError)):
            client.response()
    lines = [line for line in impatient.lines("icekeeper.server") if "too slowly" in line["message"]]
    assert [(line["level"], "127.0.0.1" in line["message"]) for line in lines] == [("INFO", True)]
    assert re.search(r"[1-9][0-9]* bytes", lines[0]["message"])


def test_clients_that_are_fast_enough_have_all_the_time_they_need(impatient: BareServer) -> None:
    """Transfers that take several seconds."""
    with impatient.client() as sending, impatient.client(**SLOW_READER) as reading:
        reading.send(LARGE)
        sending.send(POST + b"Content-Length: 900000\r\n\r\n")
        for step in range(20):
            sending.send(b"x" * 45_000)
            reading.receive(step * 40_000)
            time.sleep(0.2)
        assert len(sending.response().json["body"]) == 900_000
        assert len(reading.response().body) == LARGE_BYTES


# --- memory and connections ------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[BareServer]:
    """2 MB for transfers, 40 connections, 25 of them slow ones of one address."""
    with BareServer(
        tmp_path / "small",
        LAKEKEEPER__MAX_REQUEST_BODY_SIZE="1000000",
        ICEKEEPER__SERVER__TRANSFER_BUFFER="2000000",
        ICEKEEPER__SERVER__CONNECTIONS="40",
        ICEKEEPER__SERVER__SLOW_CONNECTIONS_PER_ADDRESS="25",
        ICEKEEPER__SERVER__READ_TIMEOUT="60s",
    ) as server:
        yield server


def _assert_refused(response: RawResponse) -> None:
    assert (response.status, response.error_type, response.closes) == (503, "SlowDownException", True)


def test_bodies_that_arrive_take_bounded_memory(small: BareServer) -> None:
    with small.clients(10) as slow, small.client() as modest:
        modest.send(POST + b"Content-Length: 1000\r\n\r\n")
        for client in slow:
            client.send(POST + b"Content-Length: 900000\r\n\r\n" + b"x" * 300_000)
        refused = [client for client in slow if not _stays_silent(client)]
        assert 3 <= len(refused) <= 6, "2,000,000 bytes are enough for six"
        for client in refused:
            _assert_refused(client.response())
        assert len(modest.send(b"x" * 1000).response().json["body"]) == 1000
        last = next(client for client in slow if client not in refused)
        assert len(last.send(b"x" * 600_000).response().json["body"]) == 900_000


def test_bodies_that_wait_for_a_thread_take_bounded_memory(small: BareServer) -> None:
    """Each is complete after one or two reads."""
    with small.clients(4) as working, small.clients(10) as sending, ExitStack() as holds:
        for client in working:
            holds.enter_context(small.holding(client))
        for client in sending:
            client.send(POST + b"Content-Length: 900000\r\n\r\n" + b"x" * 900_000)
        _until(lambda: sum(not client.is_silent() for client in sending) == 8)
        waiting = [client for client in sending if client.is_silent()]
        for client in sending:
            if client not in waiting:
                _assert_refused(client.response())
        holds.close()
        assert [len(client.response().json["body"]) for client in waiting] == [900_000] * 2


def test_unread_responses_take_bounded_memory(small: BareServer) -> None:
    with small.clients(8, **SLOW_READER) as slow:
        for client in slow:
            client.send(LARGE.replace(b"100000", b"500000"))  # more than the system's buffer
        time.sleep(1.0)
        complete = 0
        for client in slow:
            with suppress(EOFError, ConnectionError):
                complete += len(client.response().body) == 4_000_013
    assert complete == 0, "each alone is more than the buffer"
    assert _is_served(small)


def test_slow_clients_leave_connections_to_others(tmp_path: Path) -> None:
    with (
        BareServer(
            tmp_path / "home", ICEKEEPER__SERVER__CONNECTIONS="20", ICEKEEPER__SERVER__READ_TIMEOUT="60s"
        ) as server,
        server.clients(20) as slow,
    ):
        for number, client in enumerate(slow):
            client.send(POST + (b"Content-Length: 5\r\n\r\nhell" if number % 2 else b"X-"))
        time.sleep(2.5)
        assert all(_is_served(server) for _ in range(5))


def test_connections_of_an_address_are_limited(tmp_path: Path) -> None:
    with (
        BareServer(tmp_path / "home", ICEKEEPER__SERVER__CONNECTIONS_PER_ADDRESS="5") as server,
        server.clients(5, source="127.0.0.2") as clients,
    ):
        assert {client.get("/catalog/v1/echo").status for client in clients} == {200}
        with server.client(source="127.0.0.2") as one_more:
            _assert_refused(one_more.response())
        assert _is_served(server)
        clients[0].close()
        _until(lambda: _is_served(server, source="127.0.0.2"))


def test_slow_connections_of_an_address_are_limited(small: BareServer) -> None:
    with small.clients(30) as slow, small.client(source="127.0.0.2") as other, small.client() as idle:
        other.send(POST + b"Content-Length: 5\r\n\r\nhell")
        for client in slow:
            client.send(POST + b"Content-Length: 5\r\n\r\nhell")
        _until(lambda: sum(not client.is_silent() for client in slow) == 5)
        for client in slow:
            if not client.is_silent():
                _assert_refused(client.response())
        assert other.is_silent()
        assert other.send(b"o").response().json["body"] == "hello"
        assert idle.get("/catalog/v1/echo").status == 200


def _stays_silent(client: RawClient) -> bool:
    time.sleep(0.05)
    return client.is_silent()


# --- stopping --------------------------------------------------------------------------------------------------------


def test_a_response_that_is_being_read_is_finished_before_a_stop(tmp_path: Path) -> None:
    with BareServer(tmp_path / "home") as server, server.client(**SLOW_READER) as client:
        client.send(LARGE)
        client.receive(1000)
        server.signal(signal.SIGTERM)
        time.sleep(1.5)
        assert len(client.response().body) == LARGE_BYTES
        assert server.wait() == 0


def test_an_unread_response_does_not_block_the_server(tmp_path: Path) -> None:
    with (
        BareServer(
            tmp_path / "home", ICEKEEPER__SERVER__GRACEFUL_TIMEOUT="1s", ICEKEEPER__SERVER__READ_TIMEOUT="300s"
        ) as server,
        server.client(**SLOW_READER) as client,
    ):
        client.send(LARGE)
        client.receive(1000)
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert time.monotonic() - began < 30


# --- the whole catalog -----------------------------------------------------------------------------------------------

FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
TOKENS = b"POST /catalog/v1/oauth/tokens HTTP/1.1\r\nHost: x\r\n" + FORM
CHUNKED = TOKENS + b"Transfer-Encoding: chunked\r\n\r\n"
UNREAD = b"GET /api-docs/management/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
"""A document of 800 KB."""
ATTACKS: Sequence[tuple[bytes, bytes]] = [
    (TOKENS + b"Content-Length: 1000\r\n\r\n", b"x"),
    (UNREAD, b""),
    (b"GET /catalog/v1/config HTTP/1.1\r\n", b"x"),
    (TOKENS + b"Content-Length: 1000000\r\n\r\n" + b"x" * 100_000, b"x"),
    (CHUNKED, b"1\r\nx\r\n" * 10),
    (CHUNKED + b"f0000\r\n" + b"x" * 100_000, b"x"),
]
"""What each slow client begins with, and what it sends twice a second from then on."""
ATTACK_SECONDS = 4


def test_others_are_served_under_an_attack_that_takes_little_cpu(tmp_path: Path) -> None:
    """Two hundred and forty slow clients without a token, as many of each kind, take at most a quarter of a core."""
    server = CatalogServer(tmp_path, threads=8, settings={"ICEKEEPER__ACCESS_TOKENS": "true"})
    stop = threading.Event()

    def trickle(attackers: Sequence[RawClient]) -> None:
        while not stop.wait(0.5):
            for number, attacker in enumerate(attackers):
                with suppress(OSError):
                    attacker.send(ATTACKS[number % len(ATTACKS)][1])

    with server, ExitStack() as stack:
        with RawClient(server.port) as client:
            assert len(client.get("/api-docs/management/v1/openapi.json").body) > 500_000, "generated once and cached"
        attackers = [stack.enter_context(RawClient(server.port, receive_buffer=4096)) for _ in range(240)]
        for number, attacker in enumerate(attackers):
            attacker.send(ATTACKS[number % len(ATTACKS)][0])
        trickling = threading.Thread(target=trickle, args=(attackers,))
        trickling.start()
        try:
            _until(lambda: not any(attacker.is_silent() for attacker in attackers[1 :: len(ATTACKS)]))
            used = cpu.seconds(server.pid)
            time.sleep(ATTACK_SECONDS)
            used = cpu.seconds(server.pid) - used
            for _ in range(100):
                with RawClient(server.port) as client:
                    assert client.get("/catalog/v1/config?warehouse=demo").status == 401
        finally:
            stop.set()
            trickling.join()
    assert used / ATTACK_SECONDS < 0.25
