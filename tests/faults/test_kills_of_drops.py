"""A kill at any step of a drop, an expiration or a purge leaves the old state or the new one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Namespace, Tabular
from icekeeper.kernel.clock import now
from tasks.models import Task, TaskAttempt
from tasks.workers.worker import Worker
from tests.catalog_fixtures import SCHEMA
from tests.faults.kill_fixtures import kill_at_step_after_step, no_pool, state
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.timeout(600)]

__all__ = ["no_pool", "state"]


def locations_are_held(*, by_tasks: int) -> bool:
    """Check that exactly the queued purges have location claims, one each."""
    tasks = Task.objects.live().filter(queue="tabular_purge")
    held = LocationClaim.objects.filter(task_id__isnull=False).values_list("task_id", "location")
    assert sorted(held) == sorted((task.pk, task.payload["tabular_location"]) for task in tasks)
    return len(held) == by_tasks


def test_drop_with_purge(catalog: ApiClient, create_table: Any, state: Any) -> None:
    create_table()

    def act(_: int) -> Callable[[], Any]:
        if not Tabular.objects.exists():
            Task.objects.all().delete()
            LocationClaim.objects.all().delete()
            create_table()
        return lambda: catalog.delete("/namespaces/ns/tables/t?purgeRequested=true")

    def check(_: int) -> bool:
        # The table exists and nothing is queued, or it is deleted and its purge is queued.
        is_dropped = "t" not in state()
        assert is_dropped is Task.objects.live().exists()
        assert locations_are_held(by_tasks=int(is_dropped))
        return is_dropped

    kill_at_step_after_step(act, check, old=10)


def test_soft_drop(catalog: ApiClient, create_table: Any, soft_delete: int, state: Any) -> None:
    create_table()

    def act(_: int) -> Callable[[], Any]:
        if "t" not in state():
            create_table()
        return lambda: catalog.delete("/namespaces/ns/tables/t?purgeRequested=true")

    dropped = 0

    def check(_: int) -> bool:
        nonlocal dropped
        is_hidden = "t" not in state()
        dropped += is_hidden
        hidden = set(Tabular.objects.exclude(deleted_at=None).values_list("pk", flat=True))
        assert len(hidden) == dropped
        assert set(Task.objects.live().values_list("queue", "entity_id")) == {("soft_deletion", key) for key in hidden}
        return is_hidden

    kill_at_step_after_step(act, check, old=6)


class Done:
    status, body = 204, b""


def next_worker() -> Callable[[], Any]:
    """Run the only task, as the next worker after one that died."""
    Task.objects.live().filter(status="running").update(leased_until=now() - timedelta(seconds=1))
    Task.objects.live().update(scheduled_for=now())
    TaskAttempt.objects.all().delete()  # after 30 failures the task would end

    def act() -> Any:
        assert Worker(poll_interval=60).work()
        return Done

    return act


def test_expiration(catalog: ApiClient, create_table: Any, soft_delete: int, state: Any) -> None:
    create_table("other")

    def act(_: int) -> Callable[[], Any]:
        if not Tabular.objects.filter(name="t").exists():
            Task.objects.all().delete()
            LocationClaim.objects.all().delete()
            create_table()
            assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
        return next_worker()

    def check(_: int) -> bool:
        # The row waits and so does the task, or the row is deleted and its purge is queued.
        assert set(state()) == {"other"}
        is_dropped = not Tabular.objects.filter(name="t").exists()
        assert Task.objects.live().get().queue == ("tabular_purge" if is_dropped else "soft_deletion")
        assert locations_are_held(by_tasks=int(is_dropped))
        return is_dropped

    kill_at_step_after_step(act, check, old=11)


def test_purge(catalog: ApiClient, create_table: Any, state: Any, storage_root: Path) -> None:
    living = Path(
        create_table("living", location=f"file://{storage_root}/wh/t2")["metadata-location"][len("file://") :]
    )
    folder = storage_root / "wh" / "t"

    def act(_: int) -> Callable[[], Any]:
        if not Task.objects.live().exists():
            create_table(location=f"file://{folder}")
            assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
        for file in ("data/x.parquet", "metadata/left"):  # the next process has the same work
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text("x")
        for metadata_file in folder.rglob("*.metadata.json"):
            metadata_file.unlink()
        return next_worker()

    def check(_: int) -> bool:
        # The remaining files belong to the task, or there are none.
        assert set(state()) == {"living"}
        assert living.exists()
        is_done = not Task.objects.live().exists()
        assert locations_are_held(by_tasks=int(not is_done))
        assert not (is_done and folder.exists())
        return is_done

    kill_at_step_after_step(act, check, old=13)


def test_create_in_place_of_a_purge(catalog: ApiClient, create_table: Any, state: Any, storage_root: Path) -> None:
    folder = storage_root / "wh" / "t"
    body = {"name": "t", "schema": SCHEMA, "location": f"file://{folder}"}

    def act(_: int) -> Callable[[], Any]:
        Task.objects.live().filter(status="running").update(leased_until=now() - timedelta(seconds=1))
        if not Task.objects.live().exists():
            if not Tabular.objects.exists():
                for orphan in folder.rglob("*.metadata.json"):  # of a process that died before its table existed
                    orphan.unlink()
                create_table(location=body["location"])
            (folder / "data").mkdir(parents=True)
            (folder / "data" / "x.parquet").write_text("x")
            assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
        return lambda: catalog.post("/namespaces/ns/tables", body)

    def check(_: int) -> bool:
        # The new table alone with its own file, or none, and old files only while their task exists.
        is_there = "t" in state()
        is_purged = not Task.objects.live().exists()
        assert locations_are_held(by_tasks=int(not is_purged))
        assert is_purged or not is_there
        if is_purged:
            assert not (folder / "data").exists()
        if is_there:
            assert len(list(folder.rglob("*.json"))) == 1
        return is_there

    kill_at_step_after_step(act, check, old=30)


def test_recursive_drop(catalog: ApiClient, create_table: Any, state: Any) -> None:
    create_table("other")

    def act(_: int) -> Callable[[], Any]:
        if catalog.head("/namespaces/dropped").status == 404:
            Task.objects.all().delete()
            LocationClaim.objects.all().delete()
            for levels in (["dropped"], ["dropped", "inner"]):
                assert catalog.post("/namespaces", {"namespace": levels}).status == 200
                target = "/namespaces/" + "%1F".join(levels) + "/tables"
                assert catalog.post(target, {"name": "-".join(levels), "schema": SCHEMA}).status == 200
            assert Tabular.objects.filter(name="dropped-inner").update(deleted_at=now())
        return lambda: catalog.delete("/namespaces/dropped?recursive=true&purge=true")

    def check(_: int) -> bool:
        is_dropped = "dropped" not in state()
        assert Namespace.objects.count() == (1 if is_dropped else 3)
        assert Tabular.objects.count() == (1 if is_dropped else 3)
        assert Task.objects.live().count() == (2 if is_dropped else 0)
        assert locations_are_held(by_tasks=2 if is_dropped else 0)
        return is_dropped

    kill_at_step_after_step(act, check, old=23)


def test_drop_namespace(catalog: ApiClient, namespace: str, state: Any) -> None:
    def act(_: int) -> Callable[[], Any]:
        if catalog.head("/namespaces/ns%1Fdropped").status == 404:
            assert catalog.post("/namespaces", {"namespace": ["ns", "dropped"]}).status == 200
        return lambda: catalog.delete("/namespaces/ns%1Fdropped")

    def check(_: int) -> bool:
        state()
        found = catalog.get("/namespaces?parent=ns").json()["namespaces"]
        assert found in ([], [["ns", "dropped"]])
        assert catalog.head("/namespaces/ns%1Fdropped").status == (204 if found else 404)
        return not found

    kill_at_step_after_step(act, check, old=7)
