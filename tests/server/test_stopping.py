"""SIGTERM and Ctrl-C let running requests finish, accept no new ones, and end with status 0."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.server.bare_server_fixtures import BareServer


@pytest.fixture
def stoppable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareServer]:
    with BareServer(tmp_path_factory.mktemp("stop"), ICEKEEPER__SERVER__WORKERS="2") as server:
        yield server


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_in_flight_is_finished(stoppable: BareServer, number: signal.Signals) -> None:
    with stoppable.client() as working, stoppable.client() as idle:
        assert idle.get("/catalog/v1/echo").status == 200
        with stoppable.holding(working):
            stoppable.signal(number)
            time.sleep(1.5)
        response = working.response()
        assert (response.json, response.closes) == ({"held": True}, True)
        assert working.is_closed()
        assert idle.is_closed()
    assert stoppable.wait() == 0


def test_ctrl_c_reaches_all_processes_at_once(stoppable: BareServer) -> None:
    with stoppable.client() as working:
        assert stoppable.process is not None
        with stoppable.holding(working):
            os.killpg(stoppable.process.pid, signal.SIGINT)
            time.sleep(1.0)
        assert working.response().json == {"held": True}
    assert stoppable.wait() == 0


def test_a_queued_request_is_finished_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    with BareServer(tmp_path_factory.mktemp("queued"), ICEKEEPER__SERVER__THREADS="1") as server:
        with server.client() as first, server.client() as second:
            with server.holding(first):
                second.send(b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\n\r\n")
                time.sleep(0.5)
                server.signal(signal.SIGTERM)
                time.sleep(0.5)
            assert first.response().status == 200
            assert second.response().status == 200
        assert server.wait() == 0


def test_a_request_that_never_ends_does_not_keep_the_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        BareServer(tmp_path_factory.mktemp("endless"), ICEKEEPER__SERVER__GRACEFUL_TIMEOUT="1s") as server,
        server.client() as endless,
        server.holding(endless),
    ):
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert time.monotonic() - began < 30


def test_a_worker_that_is_just_being_started_stops_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also when the signal arrives before it listens; otherwise the server would wait for it as long as for a
    request.
    """
    with BareServer(tmp_path_factory.mktemp("young"), ICEKEEPER__SERVER__GRACEFUL_TIMEOUT="90s") as server:
        assert server.process is not None
        arbiter = psutil.Process(server.process.pid)
        (server.home / "hold").touch()
        (old,) = arbiter.children()
        old.kill()
        give_up = time.monotonic() + 30
        while not (server.home / "held").exists():
            assert time.monotonic() < give_up, "no worker replaces it"
            time.sleep(0.01)
        server.signal(signal.SIGTERM)
        time.sleep(1.5)
        (server.home / "hold").unlink()
        assert server.wait(60) == 0


def test_a_killed_worker_is_replaced(stoppable: BareServer) -> None:
    assert stoppable.process is not None
    victims: list[psutil.Process] = []
    while len(victims) < 2:  # the second one starts a moment after the first
        victims = psutil.Process(stoppable.process.pid).children()
    for victim in victims:
        victim.kill()
    for _ in range(600):
        try:
            with stoppable.client() as client:
                if client.get("/catalog/v1/echo").status == 200:
                    break
        except (OSError, EOFError):
            time.sleep(0.05)
    else:
        raise AssertionError("no worker came back")
