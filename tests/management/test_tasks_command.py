"""`manage.py tasks`, and what an operator can do about tasks that failed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from catalog.models import LocationClaim, Tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.io.local import LocalStore
from storage.models import Warehouse
from tasks.models import Task, TaskQueueConfig
from tasks.queue.leases import lease_task
from tasks.workers.worker import Worker
from tenancy.actor import INTERNAL
from tenancy.models import AuditRecord, OutboxEvent
from tenancy.services.project_tasks import schedule_project_tasks
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("tasks", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def location(warehouse: Warehouse) -> str:
    return f"{warehouse.location}/chosen"


@pytest.fixture
def failed(
    catalog: ApiClient, create_table: CreateTable, location: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> Task:
    """A purge that has failed for good."""

    def fail(*_: object) -> None:
        raise OSError("a broken\ndisk")

    TaskQueueConfig.objects.create(
        queue="tabular_purge", project_id=warehouse.project_id, warehouse_id=warehouse.pk, config={"max-retries": 0}
    )
    create_table("t", location=location)
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "delete_below", fail)
        assert Worker(poll_interval=60).work()
    return Task.objects.get(status="failed")


@pytest.fixture
def soft(warehouse: Warehouse) -> None:
    Warehouse.objects.filter(pk=warehouse.pk).update(delete_profile={"type": "soft", "expiration-seconds": 3600})


def test_a_failed_purge_keeps_its_location_until_it_is_retried(
    catalog: ApiClient, create_table: CreateTable, failed: Task, location: str, warehouse: Warehouse
) -> None:
    body = {"name": "t", "location": location, "schema": {"type": "struct", "fields": []}}
    refused = catalog.post("/namespaces/ns/tables", body)
    assert refused.refused(409, "LocationAlreadyTaken")
    assert str(failed.pk) in refused.error["message"]
    assert catalog.delete("/namespaces/ns").status == 204
    deletion = ApiClient("/management/v1").delete(f"/warehouse/{warehouse.pk}")
    assert deletion.refused(409, "WarehouseHasUnfinishedTasks")
    assert run("retry", str(failed.pk)) == "Changed 1 of 1 tasks.\n"
    assert run("retry", str(failed.pk)) == "Changed 0 of 1 tasks.\n"
    assert Worker(poll_interval=60).work()
    assert not Path(location.removeprefix("file://")).exists()
    assert not LocationClaim.objects.exists()
    assert ApiClient("/management/v1").delete(f"/warehouse/{warehouse.pk}").status == 204


def test_a_retry_is_recorded_once(failed: Task) -> None:
    run("retry", str(failed.pk))
    run("retry", str(failed.pk))
    record, event = AuditRecord.objects.get(event="task.retried"), OutboxEvent.objects.get(type="retryTask")
    assert (record.actor, record.object_id) == ("internal", str(failed.pk))
    assert (event.object_key, json.loads(event.names)) == (f"task:{failed.pk}", ["ns", "t"])


def test_a_waiting_purge_is_cancelled_and_its_files_stay(
    catalog: ApiClient, create_table: CreateTable, location: str
) -> None:
    create_table("t", location=location)
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    task = Task.objects.get()
    assert json.loads(run("cancel", str(task.pk), "--json")) == {"changed": [str(task.pk)]}
    assert Task.objects.get().status == "cancelled"
    assert not LocationClaim.objects.exists()
    assert not Worker(poll_interval=60).work()
    assert any(Path(location.removeprefix("file://")).rglob("*.json"))


def test_a_running_purge_must_be_stopped_first(
    catalog: ApiClient, create_table: CreateTable, location: str, everything: Callable[[], Fingerprint]
) -> None:
    """Its worker could still delete files of a new table at the location."""
    create_table("t", location=location)
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    task = Task.objects.get()
    lease = lease_task(task.pk)
    assert lease is not None
    before = everything()
    with pytest.raises(CommandError, match="stop it first"):
        run("cancel", str(task.pk))
    assert everything() == before
    run("stop", str(task.pk))
    lease.stop()
    run("cancel", str(task.pk))
    assert not LocationClaim.objects.exists()


def test_a_cancelled_expiration_restores_its_table(catalog: ApiClient, create_table: CreateTable, soft: None) -> None:
    created = create_table("t")
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    task = Task.objects.get()
    run("cancel", str(task.pk))
    assert catalog.get("/namespaces/ns/tables/t").json() == created
    of_table = OutboxEvent.objects.filter(object_key__startswith="table:").order_by("sequence")
    assert list(of_table.values_list("type", flat=True)) == ["createTable", "dropTable", "undropTabulars"]
    assert OutboxEvent.objects.filter(type="cancelTask").count() == 1


def test_an_expiration_is_not_cancelled_while_the_name_is_taken(
    catalog: ApiClient, create_table: CreateTable, soft: None, everything: Callable[[], Fingerprint]
) -> None:
    create_table("t")
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    create_table("t")
    before = everything()
    with pytest.raises(CommandError, match="another table has that name"):
        run("cancel", str(Task.objects.get().pk))
    assert everything() == before


def test_an_expiration_can_be_run_now(catalog: ApiClient, create_table: CreateTable, soft: None) -> None:
    create_table("t")
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    assert not Worker(poll_interval=60).work()
    assert run("run-now", str(Task.objects.get().pk)) == "Changed 1 of 1 tasks.\n"
    assert Worker(poll_interval=60).work()
    assert not Tabular.objects.exists()


def test_tasks_are_listed_and_shown(failed: Task, warehouse: Warehouse) -> None:
    line = run("list", "--status", "failed")
    assert line.split("\t")[:4] == [str(failed.pk), "tabular_purge", "failed", "attempt 1"]
    assert line.endswith("\tns.t\tOSError: a broken\\u000adisk\n"), "one line"
    assert run("list", "--warehouse", "wh", "--queue", "tabular_purge") == line
    assert run("list", "--status", "scheduled") == ""
    [shown] = [json.loads(text) for text in run("show", str(failed.pk), "--json").splitlines()]
    assert (shown["task-id"], shown["warehouse-id"], shown["status"]) == (
        str(failed.pk), str(warehouse.pk), "failed",
    )  # fmt: skip
    assert [(each["attempt"], each["status"]) for each in shown["attempts"]] == [(1, "failed")]
    assert "attempt 1: failed" in run("show", str(failed.pk))


def test_what_a_purge_has_done_is_shown(catalog: ApiClient, create_table: CreateTable, location: str) -> None:
    create_table("t", location=location)
    files = [path for path in Path(location.removeprefix("file://")).rglob("*") if path.is_file()]
    deleted = {"deleted-files": len(files), "deleted-bytes": sum(path.stat().st_size for path in files)}
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    task = str(Task.objects.get().pk)
    shown = json.loads(run("show", task, "--json"))
    assert (shown["progress"], shown["execution-details"]) == (0.0, None)
    assert "deleted-files" not in run("show", task)
    assert Worker(poll_interval=60).work()
    shown = json.loads(run("show", task, "--json"))
    assert shown["execution-details"] == {**deleted, "skipped-locations": 0, "files-outside": 0}
    assert [each["execution-details"] for each in shown["attempts"]] == [shown["execution-details"]]
    lines = run("show", task).splitlines()
    assert [f"{name}: {number}" for name, number in deleted.items() if f"{name}: {number}" not in lines] == []
    assert "skipped-locations: 0" in lines


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["retry"], "needs the id"), (["retry", "x"], "not the id of a task"),
        (["show", str(new_id())], "does not exist"),
        (["cancel", *(str(new_id()) for _ in range(101))], "at most 100"), (["list", str(new_id())], "takes no ids"),
        (["list", "--limit", "0"], "1 or more"), (["list", "--queue", "none"], "invalid choice"),
        (["list", "--warehouse", "none"], "does not exist"), (["burn"], "invalid choice"),
    ],
)  # fmt: skip
def test_wrong_arguments(
    failed: Task, everything: Callable[[], Fingerprint], arguments: list[str], reason: str
) -> None:
    before = everything()
    with pytest.raises(CommandError, match=reason):
        run(*arguments)
    assert everything() == before


def test_one_missing_task_changes_none(failed: Task, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    with pytest.raises(CommandError, match="does not exist"):
        run("retry", str(failed.pk), str(new_id()))
    assert everything() == before


def test_configuration_of_queues(warehouse: Warehouse, everything: Callable[[], Fingerprint]) -> None:
    purges = ("config", "tabular_purge", "--warehouse", warehouse.name)
    assert json.loads(run(*purges)) == {"queue-config": {}, "max-seconds-since-last-heartbeat": None}
    new = {"queue-config": {"max-retries": 100}, "max-seconds-since-last-heartbeat": 600}
    changed = run(*purges, "--set", '{"max-retries": 100}', "--max-seconds-since-last-heartbeat", "600")
    assert json.loads(changed) == json.loads(run(*purges)) == new
    assert json.loads(run("config", "task_log_cleanup", "--set", '{"retention-period": "P30D"}')) == {
        "queue-config": {"retention-period": "P30D"}, "max-seconds-since-last-heartbeat": None,
    }  # fmt: skip
    before = everything()
    for arguments, message in (
        (("config",), "the name of one queue"),
        (("config", "unknown", "--warehouse", warehouse.name), "No queue of a warehouse is named 'unknown'"),
        (("config", "tabular_purge"), "No queue of a project is named 'tabular_purge'"),
        ((*purges, "--set", "{"), "--set: "),
        ((*purges, "--set", "[]"), "--set takes a JSON object"),
        ((*purges, "--set", '{"max-retries": -1}'), "a whole number from 0 to 10000"),
        ((*purges, "--set", "{}", "--max-seconds-since-last-heartbeat", "59"), "from 60 to 86400"),
        (("config", "tabular_purge", "--warehouse", "other"), "other"),
    ):
        with pytest.raises(CommandError, match=re.escape(message)):
            run(*arguments)
    assert everything() == before


def test_a_failed_purge_is_kept_until_it_is_cancelled(
    catalog: ApiClient, failed: Task, location: str, warehouse: Warehouse
) -> None:
    """Its location stays reserved, so the task that explains it must stay, too."""
    Task.objects.filter(pk=failed.pk).update(finished_at=now() - timedelta(days=200))
    schedule_project_tasks(actor=INTERNAL)
    while Worker(poll_interval=60).work():
        pass
    assert Task.objects.get(pk=failed.pk).status == "failed"
    assert run("cancel", str(failed.pk)) == "Changed 1 of 1 tasks.\n"
    assert run("cancel", str(failed.pk)) == "Changed 0 of 1 tasks.\n"
    assert Task.objects.get(pk=failed.pk).status == "cancelled"
    assert not LocationClaim.objects.exists()
    assert any(Path(location.removeprefix("file://")).rglob("*.json"))


def test_the_location_of_a_purge_whose_task_is_missing(catalog: ApiClient, failed: Task, location: str) -> None:
    Task.objects.filter(pk=failed.pk).delete()
    body = {"name": "t", "location": location, "schema": {"type": "struct", "fields": []}}
    assert catalog.post("/namespaces/ns/tables", body).refused(409, "LocationAlreadyTaken")


def test_lists_of_a_project(failed: Task) -> None:
    Task.objects.create(queue="task_log_cleanup", project_id="other", entity_type="project")
    assert run("list").count("\n") == 2
    found = run("list", "--project-id", failed.project_id)
    assert found.count("\n") == 1
    assert str(failed.pk) in found
    with pytest.raises(CommandError, match="needs --set"):
        run("config", "task_log_cleanup", "--max-seconds-since-last-heartbeat", "60")
