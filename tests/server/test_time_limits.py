"""A request has one time budget from its arrival, including statements; the limit does not stay on connections."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.run_environment import RunEnvironment
from tests.server.bare_server_fixtures import BareServer
from tests.server.raw_client_fixtures import RawClient

pytestmark = pytest.mark.both_databases


@pytest.fixture(scope="module")
def hurried(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareServer]:
    """Three seconds per request and one database connection, on the database of the run."""
    settings = {"LAKEKEEPER__MAX_REQUEST_TIME": "3s", "LAKEKEEPER__PG_WRITE_POOL_CONNECTIONS": "1"}
    if run_environment.postgres is not None:
        settings["LAKEKEEPER__PG_DATABASE_URL_WRITE"] = run_environment.postgres.create_database("time_limits")
    with BareServer(tmp_path_factory.mktemp("hurried"), **settings) as server:
        yield server


def _timed(client: RawClient, target: str) -> tuple[int, str | None, float]:
    began = time.monotonic()
    response = client.get(target)
    return response.status, response.error_type if response.status >= 400 else None, time.monotonic() - began


def _milliseconds(limit: str | int) -> int:
    """PostgreSQL writes `1480ms` or `1s`, SQLite a number."""
    if isinstance(limit, int):
        return limit
    return int(limit.removesuffix("ms")) if limit.endswith("ms") else 1000 * int(limit.removesuffix("s"))


def test_a_statement_ends_with_its_request(hurried: BareServer, tmp_path: Path) -> None:
    """A statement that would run for hours."""
    mark = tmp_path / "started"
    with hurried.client() as client:
        status, kind, seconds = _timed(client, f"/catalog/v1/slow-statement?mark={mark}")
    assert (status, kind) == (408, "RequestTimeoutException")
    assert mark.exists()
    assert 2.5 < seconds < 20


def test_a_statement_gets_the_remaining_time(hurried: BareServer, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    with hurried.client() as client:
        # On a machine of any speed, this is the limit that the database got: at most 1.5 of the 3 seconds.
        [reported] = client.get("/catalog/v1/statement-limit?after=1.5").json
        assert 0 < _milliseconds(reported) <= 1_500
        status, kind, seconds = _timed(client, f"/catalog/v1/slow-statement?after=1.5&mark={mark}")
        assert (status, kind) == (408, "RequestTimeoutException")
        assert mark.exists()
        assert 2.5 < seconds < 20
        # The hurried request has used the only pooled connection, and its limit is reset.
        assert client.get("/catalog/v1/statement-limit").json in [["3s"], [3_000]]


def test_no_statement_starts_after_the_time(hurried: BareServer, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    with hurried.client() as client:
        status, kind, seconds = _timed(client, f"/catalog/v1/slow-statement?after=3.2&mark={mark}")
    assert (status, kind) == (408, "RequestTimeoutException")
    assert not mark.exists()
    assert seconds < 20


def test_a_started_write_is_not_interrupted(hurried: BareServer) -> None:
    with hurried.client() as client:
        status, _, seconds = _timed(client, "/catalog/v1/started-write?seconds=3.5")
    assert status == 200
    assert seconds > 3.4
