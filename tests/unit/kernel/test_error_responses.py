"""Responses when the database fails, before and after a change."""

from __future__ import annotations

import json
import logging
import time

import pytest
from django.db import InterfaceError, OperationalError
from psycopg_pool import PoolTimeout

from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.responses import error_response
from icekeeper.kernel.request_context import deadline

pytestmark = pytest.mark.both_databases

LOST = [OperationalError("lost"), InterfaceError("closed"), PoolTimeout("none is free")]


def reported(error: Exception) -> tuple[int, str, str]:
    response = error_response(error)
    content = json.loads(response.content)["error"]
    return response.status_code, content["type"], content["message"]


@pytest.mark.django_db
@pytest.mark.parametrize("error", LOST, ids=repr)
def test_nothing_was_changed_is_reported_only_where_it_is_true(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    with deadline(time.monotonic() + 60):
        status, kind, message = reported(error)
        assert (status, kind) == (503, "SlowDownException")
        assert "nothing was changed, try again" in message
        with write_transaction():
            pass
        assert reported(error) == (
            500,
            "CommitStateUnknownException",
            "The database failed after something was changed: check the result before you try again",
        )
    with deadline(time.monotonic() + 60):
        assert reported(error)[0] == 503, "the next request of the thread has changed nothing yet"


@pytest.mark.django_db
def test_a_rolled_back_change_does_not_count() -> None:
    """A rolled-back change does not count, nor changes of files before it: the request can be repeated."""
    with deadline(time.monotonic() + 60):
        with write_transaction():
            pass
        with pytest.raises(OperationalError), write_transaction():
            raise OperationalError("lost")
        assert reported(OperationalError("lost"))[0] == 503
