"""Statements of the hot paths: the pool session that they use, on the database of the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, ProgrammingError, connection, transaction

from icekeeper.kernel.db.connections import install_statement_limits, restore_statement_limits
from icekeeper.kernel.db.sql import execute, fetch_all, fetch_one, fetch_planned, fetch_planned_rows
from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.request_context import deadline
from tenancy.models import Project

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]

COUNT = "SELECT count(*) FROM tenancy_project WHERE name = %s"
on_postgres = pytest.mark.skipif(
    "connection.vendor != 'postgresql'", reason="SQLite has no pool: each thread has its connection"
)


@pytest.fixture(autouse=True)
def known_limits() -> Iterator[None]:
    install_statement_limits()
    connection.close()
    connection.ensure_connection()
    connection.close()
    yield
    restore_statement_limits()
    connection.close()


def _count(name: str) -> Any:
    row = fetch_one("default", COUNT, [name])
    return row[0] if row else None


def _server() -> dict[str, Any]:
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return {
        name: connection.settings_dict[theirs] for name, theirs in names.items() if connection.settings_dict[theirs]
    }


def _with_time() -> Any:
    return deadline(time.monotonic() + 3600)


def test_a_read_outside_of_a_transaction_leaves_no_connection_open() -> None:
    Project.objects.create(name="p")
    connection.close()
    with _with_time():
        assert _count("p") == 1
        assert connection.vendor == "sqlite" or connection.connection is None
        assert fetch_all("default", COUNT, ["unknown"]) == [(0,)]


@on_postgres
def test_without_a_deadline_a_statement_leaves_no_connection_open() -> None:
    """So does the statement of a commit, whose deadline ends when its write begins."""
    Project.objects.create(name="p")
    connection.close()
    assert _count("p") == 1
    assert fetch_all("default", "WITH d AS (DELETE FROM tenancy_project WHERE name = %s) SELECT 1", ["p"]) == [(1,)]
    assert connection.connection is None
    assert _count("p") == 0


def test_a_transaction_reads_its_own_writes() -> None:
    with _with_time(), transaction.atomic():
        Project.objects.create(name="p")
        assert _count("p") == 1
        assert execute("UPDATE tenancy_project SET name = %s WHERE name = %s", ["q", "p"]) == 1
        assert _count("q") == 1
        transaction.set_rollback(True)
    with _with_time():
        assert _count("q") == 0


def test_a_statement_that_fails_leaves_its_session_usable() -> None:
    with _with_time():
        for _ in range(20):  # more than the pool has
            with pytest.raises((ProgrammingError, OperationalError)):
                fetch_all("default", "SELECT nothing FROM nowhere WHERE id = %s", ["x"])
        assert _count("p") == 0


def test_no_time_left_is_a_timeout_before_anything_is_sent() -> None:
    with deadline(time.monotonic() - 1), pytest.raises(RequestTimeout):
        _count("p")


@on_postgres
def test_a_request_short_of_time_gives_its_statement_no_more() -> None:
    ask = "SELECT setting::int FROM pg_settings WHERE name = %s"
    usual = fetch_one("default", ask, ["statement_timeout"])
    with deadline(time.monotonic() + 2.0):
        lowered = fetch_one("default", ask, ["statement_timeout"])
        restore_statement_limits()
    assert usual is not None
    assert lowered is not None
    assert lowered[0] <= 2000 < usual[0]
    connection.close()
    with _with_time():
        assert fetch_one("default", ask, ["statement_timeout"]) == usual


@on_postgres
def test_sessions_that_were_lost_are_replaced() -> None:
    end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
    with _with_time():
        assert _count("p") == 0
        with psycopg.connect(**_server(), autocommit=True) as another:
            another.execute(end_all, [another.info.backend_pid])
        for _ in range(20):
            assert _count("p") == 0  # the first one finds the lost connection, and the pool replaces all of them


@on_postgres
def test_a_write_is_not_sent_again() -> None:
    """It may have been applied before the connection was lost."""
    end_own = "WITH deleted AS (DELETE FROM tenancy_project) SELECT pg_terminate_backend(pg_backend_pid()) WHERE %s"
    with _with_time(), pytest.raises(OperationalError):
        fetch_one("default", end_own, [True])


@on_postgres
def test_rows_are_not_held_between_statements() -> None:
    with _with_time(), transaction.atomic():
        fetch_one("default", "SELECT repeat('x', %s)", [1_000_000])
        cursor = connection.connection.reusable_cursor
        assert cursor.pgresult is None
        assert not cursor._results
        assert cursor._tx.pgresult is None


@on_postgres
def test_statements_that_are_planned_each_time_are_not_prepared() -> None:
    kept = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s"
    rows = Project.objects.filter(name="p").values_list("name")
    with _with_time(), transaction.atomic():
        for _ in range(10):
            fetch_planned_rows(rows)
        with pytest.raises(ProgrammingError), transaction.atomic():
            fetch_planned("default", "SELECT nothing", [])
        assert fetch_one("default", kept, ['%FROM "tenancy_project"%']) == (0,)
        for _ in range(10):
            list(rows.all())
        assert fetch_one("default", kept, ['%FROM "tenancy_project"%']) == (1,)


def test_a_query_that_can_match_no_row_needs_no_statement() -> None:
    Project.objects.create(name="p")
    assert fetch_planned_rows(Project.objects.filter(name="p").values_list("name")) == [("p",)]
    with connection.execute_wrapper(_no_statement):
        assert fetch_planned_rows(Project.objects.filter(pk__in=[]).values_list("name")) == []


def _no_statement(*_: Any) -> None:
    raise AssertionError("a statement was run")
