"""The request's time is one budget from its arrival on, statements included; connections keep nothing of it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.run_environment import RunEnvironment
from tests.server.bare_server import BareServer
from tests.server.raw_client import RawClient


@pytest.fixture(scope="module")
def hurried(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareServer]:
    """Three seconds a request and one database connection, on the database of the run."""
    settings = {"LAKEKEEPER__MAX_REQUEST_TIME": "3s", "LAKEKEEPER__PG_WRITE_POOL_CONNECTIONS": "1"}
    if run_environment.postgres is not None:
        settings["LAKEKEEPER__PG_DATABASE_URL_WRITE"] = run_environment.postgres.create_database("time_limits")
    with BareServer(tmp_path_factory.mktemp("hurried"), **settings) as server:
        yield server


def _timed(client: RawClient, target: str) -> tuple[int, str | None, float]:
    began = time.monotonic()
    answer = client.get(target)
    return answer.status, answer.error_type if answer.status >= 400 else None, time.monotonic() - began


def test_a_statement_ends_with_its_request(hurried: BareServer) -> None:
    with hurried.client() as client:
        status, kind, seconds = _timed(client, "/catalog/v1/slow-statement")
    assert (status, kind) == (408, "RequestTimeoutException")
    assert 2.5 < seconds < 5


def test_a_statement_gets_only_what_is_left(hurried: BareServer) -> None:
    with hurried.client() as client:
        status, kind, seconds = _timed(client, "/catalog/v1/slow-statement?after=1.8")
        assert (status, kind) == (408, "RequestTimeoutException")
        assert 2.5 < seconds < 4
        # The one pooled connection has gone through the hurried request and is as it was.
        assert client.get("/catalog/v1/statement-limit").json in [["3s"], [3_000]]


def test_no_statement_starts_after_the_time(hurried: BareServer) -> None:
    with hurried.client() as client:
        status, kind, seconds = _timed(client, "/catalog/v1/slow-statement?after=3.2")
    assert (status, kind) == (408, "RequestTimeoutException")
    assert seconds < 4


def test_a_started_write_is_not_interrupted(hurried: BareServer) -> None:
    with hurried.client() as client:
        status, _, seconds = _timed(client, "/catalog/v1/started-write?seconds=3.5")
    assert status == 200
    assert seconds > 3.4
