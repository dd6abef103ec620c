"""A kill at any step of an undrop or of a namespace move leaves the old state or the new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Namespace, Tabular
from storage.models import Warehouse
from tasks.models import Task
from tests.catalog_fixtures import SCHEMA
from tests.faults.kill_fixtures import kill_at_step_after_step, no_pool
from tests.harness.tree_invariants import check_trees
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.timeout(600)]

__all__ = ["no_pool"]


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    client = ApiClient(f"/management/v1/warehouse/{warehouse.pk}")
    assert client.get("/deleted-tabulars").status == 200  # loads modules here, not in each forked process
    return client


def test_undrop(api: ApiClient, catalog: ApiClient, create_table: Any, soft_delete: int) -> None:
    targets = [{"type": "table", "id": create_table(name)["metadata"]["table-uuid"]} for name in ("t", "u")]

    def act(_: int) -> Callable[[], Any]:
        if not Task.objects.live().exists():
            for name in ("t", "u"):
                assert catalog.delete(f"/namespaces/ns/tables/{name}").status == 204
        return lambda: api.post("/deleted-tabulars/undrop", {"targets": targets})

    def check(_: int) -> bool:
        dropped, tasks = Tabular.objects.exclude(deleted_at=None).count(), Task.objects.live().count()
        assert (dropped, tasks) in {(2, 2), (0, 0)}
        check_trees()
        return not dropped

    kill_at_step_after_step(act, check, old=10)


def test_move(api: ApiClient, catalog: ApiClient, namespace: str) -> None:
    for levels in (["ns", "a"], ["ns", "a", "b"], ["p"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    assert catalog.post("/namespaces/ns%1Fa%1Fb/tables", {"name": "t", "schema": SCHEMA}).status == 200
    inner = Namespace.objects.get(path="ns\x1fa")
    last = [["ns", "a"]]

    def act(step: int) -> Callable[[], Any]:
        destination = ["p", "a", str(step)][::2] if last[0][0] == "ns" else ["ns", str(step)]
        wanted[:] = destination
        return lambda: api.post(f"/namespace/{inner.pk}/move", {"destination": destination})

    wanted: list[str] = []

    def check(_: int) -> bool:
        levels = list(Namespace.objects.get(pk=inner.pk).levels)
        assert levels in (last[0], wanted)
        path = "%1F".join([*levels, "b"])
        assert catalog.get(f"/namespaces/{path}/tables/t").status == 200
        check_trees()
        is_new = levels == wanted
        last[0] = levels
        return is_new

    kill_at_step_after_step(act, check, old=14)
