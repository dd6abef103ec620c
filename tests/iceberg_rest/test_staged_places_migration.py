"""To the version that holds the places of staged tables, and back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from catalog.models import LocationClaim
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]


def test_there_and_back(warehouse: Warehouse) -> None:
    """The former version goes on with what it knows; what is staged is held by nobody there."""
    task_id = new_id()
    LocationClaim.objects.create(warehouse=warehouse, task_id=task_id, location=f"{warehouse.location}/a")
    LocationClaim.objects.create(
        warehouse=warehouse, staged_by="oidc~ann", expires_at=now() + timedelta(days=1), location="b"
    )
    try:
        MigrationExecutor(connection).migrate([("catalog", "0009_operators_view_of_tabulars")])
        with connection.cursor() as cursor:
            cursor.execute("SELECT location FROM catalog_locationclaim")
            assert cursor.fetchall() == [(f"{warehouse.location}/a",)]
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    (kept,) = LocationClaim.objects.all()
    assert (kept.task_id, kept.staged_by, kept.expires_at) == (task_id, None, None)
