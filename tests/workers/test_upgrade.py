"""Purges that an earlier version queued: their locations come from the payload, by a migration."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from catalog.models import LocationClaim
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tasks.queue.models import Task

pytestmark = pytest.mark.django_db

migration: Any = import_module("catalog.migrations.0007_claims_of_queued_purges")


def test_queued_purges_come_to_hold_their_locations(warehouse: Warehouse) -> None:
    def queue(warehouse_id: object, *former: str) -> Task:
        payload = {"tabular_location": f"{warehouse.location}/t", "former_locations": list(former)}
        return Task.objects.create(
            queue=Task.Queue.TABULAR_PURGE, warehouse_id=warehouse_id, entity_id=new_id(), payload=payload
        )

    old = queue(warehouse.pk, f"{warehouse.location}/was", f"{warehouse.location}/t")
    new = queue(warehouse.pk)
    LocationClaim.objects.create(warehouse=warehouse, task_id=new.pk, location=f"{warehouse.location}/n")
    queue(new_id())
    for _ in range(2):
        migration.claim_locations(apps, connection.schema_editor())
    claims = LocationClaim.objects.values_list("task_id", "location").order_by("id")
    assert sorted(claims, key=str) == sorted(
        [
            (old.pk, f"{warehouse.location}/t"),
            (old.pk, f"{warehouse.location}/was"),
            (new.pk, f"{warehouse.location}/n"),
        ],
        key=str,
    )
