"""Resources that a waiting request releases."""

from __future__ import annotations

import time

import pytest
from django.db import connection, connections, transaction

from icekeeper.kernel.db.connections import install_statement_limits
from icekeeper.kernel.request_context import deadline
from icekeeper.kernel.threads import release_thread_slot
from tenancy.models import Project

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]


def test_a_pooled_connection_is_given_back_with_its_usual_limit() -> None:
    install_statement_limits()
    connection.close()
    with deadline(time.monotonic() + 2):
        assert not Project.objects.filter(name="unknown").exists()
        with release_thread_slot():
            assert connection.vendor == "sqlite" or connection.connection is None
        limit = connections["default"].__dict__.get("statement_limit")
        assert limit is None or limit.current == limit.default
        assert connection.vendor == "sqlite" or limit is not None


def test_a_transaction_keeps_its_connection() -> None:
    with transaction.atomic():
        Project.objects.create(name="p")
        with release_thread_slot():
            assert connection.connection is not None
        assert Project.objects.filter(name="p").exists()
        transaction.set_rollback(True)
