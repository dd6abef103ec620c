"""The deadline of statements, on the database of the run, without a server."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from icekeeper.kernel.db.connections import install_statement_limits, limit_statement, restore_statement_limits
from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.request_context import begin_write, deadline
from tests.unit.step_fixtures import count_steps

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    install_statement_limits()
    connection.close()
    yield
    restore_statement_limits()
    connection.close()


def _limit_ms() -> int:
    """Return the session's current statement limit, without the wrapper of the deadline."""
    connection.ensure_connection()
    if connection.vendor == "postgresql":
        statement = "SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout'"
    else:
        statement = "PRAGMA busy_timeout"
    row = connection.connection.execute(statement).fetchone()
    return int(row[0])


def test_a_request_with_time_sends_nothing_extra() -> None:
    usual = _limit_ms()
    with deadline(time.monotonic() + usual / 1000 - 0.5):
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert _limit_ms() == usual


def test_a_request_short_of_time_lowers_the_limit_once_and_restores_it() -> None:
    usual = _limit_ms()
    with deadline(time.monotonic() + 2.0), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        lowered = _limit_ms()
        assert 1000 < lowered <= 2000
        cursor.execute("SELECT 1")
        assert _limit_ms() == lowered
    restore_statement_limits()
    assert _limit_ms() == usual


def test_no_statement_is_sent_after_the_deadline() -> None:
    connection.ensure_connection()
    with deadline(time.monotonic() - 1), pytest.raises(RequestTimeout), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    with deadline(time.monotonic() - 1), pytest.raises(RequestTimeout):
        limit_statement(connection)


def test_a_started_write_has_the_usual_limit_again() -> None:
    usual = _limit_ms()
    with deadline(time.monotonic() + 2.0), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert _limit_ms() < usual
        begin_write()
        cursor.execute("SELECT 1")
        assert _limit_ms() == usual


def test_a_rollback_does_not_leave_a_lowered_limit_behind() -> None:
    usual = _limit_ms()
    with deadline(time.monotonic() + 2.0):
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        with transaction.atomic():
            begin_write()
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")  # resets the limit, in a transaction that is rolled back
            transaction.set_rollback(True)
    restore_statement_limits()
    assert _limit_ms() == usual


def test_a_fast_statement_pays_next_to_nothing() -> None:
    connection.ensure_connection()
    with deadline(time.monotonic() + 3600):
        assert count_steps(lambda: limit_statement(connection)) < 100
