"""Two changes of a warehouse with the same expected version: one is saved."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections

from storage.models import Warehouse
from storage.services.warehouse_changes import WarehouseChanged, rename_warehouse
from tenancy.actor import INTERNAL

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.both_databases,
]

USERS = 4


def test_one_of_several_is_saved(warehouse: Warehouse) -> None:
    start = Barrier(USERS)

    def rename(number: int) -> bool:
        try:
            start.wait()
            rename_warehouse(
                actor=INTERNAL, warehouse_id=warehouse.pk, new_name=f"name-{number}", expected_version=warehouse.version
            )
        except WarehouseChanged:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(USERS) as pool:
        saved = list(pool.map(rename, range(USERS)))
    assert saved.count(True) == 1
    changed = Warehouse.objects.get()
    assert (changed.name, changed.version) == (f"name-{saved.index(True)}", warehouse.version + 1)
