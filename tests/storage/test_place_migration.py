"""Warehouses of an earlier version: their places come from what they hold, by a migration."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from storage.models import Warehouse
from tests.management.asking import S3
from tests.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
api = ApiClient("/management/v1")
migration: Any = import_module("storage.migrations.0003_warehouse_place")


def test_warehouses_keep_others_out_after_the_upgrade(warehouse: Warehouse) -> None:
    def make(prefix: str) -> Any:
        return api.post("/warehouse", {"warehouse-name": prefix[-1], "storage-profile": S3 | {"key-prefix": prefix}})

    assert make("a").status == 201
    places = dict(Warehouse.objects.values_list("pk", "place"))
    Warehouse.objects.update(place="")
    migration.place_warehouses(apps, connection.schema_editor())
    assert dict(Warehouse.objects.values_list("pk", "place")) == places
    assert len(set(places.values())) == 2
    assert make("a/b").refused(400, "CreateWarehouseStorageProfileOverlap")
