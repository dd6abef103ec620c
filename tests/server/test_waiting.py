"""Requests that wait for others release their threads, so that the others can run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from icekeeper.server.request_threads import MAX_EXTRA_THREADS
from tests.server.bare_server_fixtures import BareServer


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareServer]:
    """One worker with one thread, and a queue timeout of two seconds."""
    with BareServer(
        tmp_path_factory.mktemp("waiting"), ICEKEEPER__SERVER__THREADS="1", ICEKEEPER__SERVER__QUEUE_TIMEOUT="2s"
    ) as server:
        yield server


def _threads(server: BareServer) -> int:
    assert server.process is not None
    [worker] = psutil.Process(server.process.pid).children()
    return int(worker.num_threads())


def test_others_are_served_while_some_wait(narrow: BareServer) -> None:
    with narrow.client() as asking:
        assert asking.get("/catalog/v1/echo").status == 200
        before = _threads(narrow)
        with narrow.clients(5) as waiting:
            with ExitStack() as holds:
                for client in waiting:
                    holds.enter_context(narrow.holding(client, view="wait"))
                assert asking.get("/catalog/v1/echo").status == 200
                assert _threads(narrow) == before + 5
            assert [client.response().status for client in waiting] == [200] * 5
        give_up = time.monotonic() + 30
        while _threads(narrow) > before:  # each ends with the request that it runs next
            assert asking.get("/catalog/v1/echo").status == 200
            assert time.monotonic() < give_up
        assert _threads(narrow) == before


def test_a_running_request_keeps_its_thread(narrow: BareServer) -> None:
    with narrow.client() as working, narrow.client() as asking, narrow.holding(working):
        assert asking.get("/catalog/v1/echo").status == 503


def test_threads_are_bounded(narrow: BareServer) -> None:
    with narrow.client() as asking, narrow.clients(MAX_EXTRA_THREADS + 1) as waiting, ExitStack() as holds:
        before = _threads(narrow)
        for client in waiting:
            holds.enter_context(narrow.holding(client, view="wait"))
        assert _threads(narrow) == before + MAX_EXTRA_THREADS
        assert asking.get("/catalog/v1/echo").status == 503
