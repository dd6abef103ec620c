"""Tasks of warehouses and projects over the management API: list, details, control and the configuration of queues."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.io.local import LocalStore
from storage.models import Warehouse
from tasks.models import Task, TaskAttempt, TaskQueueConfig
from tasks.queue.leases import lease_task
from tasks.workers.worker import Worker
from tenancy.authz.actions import Can
from tenancy.models import AuditRecord, OutboxEvent, Project
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import NO_ONE, choose

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Everything = Callable[[], Fingerprint]


@pytest.fixture
def api(warehouse: Warehouse, soft_delete: int) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


@pytest.fixture
def dropped(api: ApiClient, catalog: ApiClient, create_table: CreateTable) -> str:
    """The UUID of a soft-deleted table `t`."""
    table = create_table("t")
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    return str(table["metadata"]["table-uuid"])


def failure(response: Response) -> tuple[int, str]:
    return response.status, response.error["type"]


def deny(monkeypatch: pytest.MonkeyPatch, *actions: Can) -> None:
    """Deny these actions and allow all others from now on."""
    choose(monkeypatch, hidden=()).refused = list(actions)


def listed(response: Response) -> list[dict[str, Any]]:
    assert response.status == 200, response.body
    tasks: list[dict[str, Any]] = response.json()["tasks"]
    return tasks


def control(api: ApiClient, action: str, *task_ids: object, **more: Any) -> Response:
    body = {"task-ids": [str(each) for each in task_ids], "action": {"action-type": action} | more}
    return api.post("/task/control", body)


def test_the_expiration_of_a_dropped_table(
    api: ApiClient, dropped: str, warehouse: Warehouse, soft_delete: int
) -> None:
    (task,) = listed(api.post("/task/list", {}))
    row = Task.objects.get()
    assert task == {
        "task-id": str(row.pk),
        "project-id": warehouse.project_id,
        "warehouse-id": str(warehouse.pk),
        "queue-name": "soft_deletion",
        "status": "SCHEDULED",
        "attempt": 0,
        "progress": 0.0,
        "scheduled-for": task["scheduled-for"],
        "created-at": task["created-at"],
        "entity": {"type": "table", "table-id": dropped},
        "entity-name": ["ns", "t"],
    }
    details = api.get(f"/task/by-id/{row.pk}").json()
    assert details == task | {"task-data": {"deletion_kind": "purge"}, "attempts": []}


def test_a_table_from_drop_to_purge(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, dropped: str, storage_root: Path
) -> None:
    """Watch a table through drop, list, undrop, drop, expiration and purge."""
    (expiration,) = listed(api.post("/task/list", {"status": ["SCHEDULED"]}))
    target = {"targets": [{"type": "table", "id": dropped}]}
    assert api.post("/deleted-tabulars/undrop", target).status == 204
    (cancelled,) = listed(api.post("/task/list", {}))
    assert (cancelled["task-id"], cancelled["status"]) == (expiration["task-id"], "CANCELLED")
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    (again,) = listed(api.post("/task/list", {"status": ["SCHEDULED"]}))
    assert control(api, "run-now", again["task-id"]).status == 204
    worker = Worker(poll_interval=60)
    assert worker.work()
    purge, expired = listed(api.post("/task/list", {"status": ["SCHEDULED", "SUCCESS"]}))
    assert (expired["task-id"], expired["status"], expired["progress"]) == (again["task-id"], "SUCCESS", 1.0)
    assert (purge["queue-name"], purge["parent-task-id"]) == ("tabular_purge", again["task-id"])
    assert (purge["entity"], purge["entity-name"]) == ({"type": "table", "table-id": dropped}, ["ns", "t"])
    assert worker.work()
    assert not [path for path in storage_root.rglob("*") if path.is_file()]
    details = api.get(f"/task/by-id/{purge['task-id']}").json()
    (attempt,) = details["attempts"]
    assert (details["status"], attempt["status"], attempt["attempt"], attempt["progress"]) == ("SUCCESS",) * 2 + (
        1,
        1.0,
    )
    assert attempt["duration"].startswith("P0DT00H00M")
    assert set(details["task-data"]) == {"tabular_location", "former_locations", "metadata_location"}


def test_a_cancelled_expiration_restores_the_table(api: ApiClient, catalog: ApiClient, dropped: str) -> None:
    task = Task.objects.get()
    assert control(api, "cancel", task.pk).status == 204
    assert catalog.get("/namespaces/ns/tables/t").status == 200
    before = OutboxEvent.objects.count()
    assert control(api, "cancel", task.pk).status == 204  # again: nothing changes
    assert OutboxEvent.objects.count() == before
    record = AuditRecord.objects.get(event="task.cancelled")
    assert (record.object_type, record.object_id, record.project_id) == ("task", str(task.pk), task.project_id)


def test_attempts_of_a_failed_purge_and_its_retry(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("a broken disk")

    assert api.post("/task-queue/tabular_purge/config", {"queue-config": {"max-retries": 1}}).status == 204
    create_table("t")
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true&force=true").status == 204
    task = Task.objects.get(queue="tabular_purge")
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "delete_below", fail)
        for _ in range(2):
            assert control(api, "run-now", task.pk).status == 204
            assert Worker(poll_interval=60).work()
    details = api.get(f"/task/by-id/{task.pk}?numAttempts=1").json()
    assert (details["status"], details["attempt"], details["message"]) == ("FAILED", 2, "OSError: a broken disk")
    assert [each["attempt"] for each in details["attempts"]] == [2]
    assert len(api.get(f"/task/by-id/{task.pk}").json()["attempts"]) == 2
    assert api.get(f"/task/by-id/{task.pk}?numAttempts=0").json()["attempts"] == []
    assert control(api, "run-now", task.pk).status == 204  # does not apply to ended tasks
    assert Task.objects.get(pk=task.pk).status == "failed"
    assert control(api, "retry", task.pk).status == 204
    assert Worker(poll_interval=60).work()
    assert Task.objects.get(pk=task.pk).status == "success"


def test_a_running_task_is_stopped_and_scheduled_again(api: ApiClient, dropped: str) -> None:
    task = Task.objects.get()
    lease = lease_task(task.pk)
    assert lease is not None
    assert control(api, "stop", task.pk).status == 204
    assert listed(api.post("/task/list", {"status": ["STOPPING"]}))[0]["task-id"] == str(task.pk)
    later = now() + timedelta(days=3)
    assert control(api, "run-at", task.pk, **{"scheduled-for": later.isoformat()}).status == 204
    assert listed(api.post("/task/list", {"status": ["SCHEDULED"]})) == []
    lease.stop()
    (shown,) = listed(api.post("/task/list", {"status": ["SCHEDULED"]}))
    assert shown["scheduled-for"].startswith(later.isoformat()[:19])
    assert TaskAttempt.objects.get().status == "cancelled"


def test_filters_and_pages(api: ApiClient, warehouse: Warehouse) -> None:
    project, start = warehouse.project_id, now() - timedelta(days=1)
    uuids = [uuid4() for _ in range(6)]
    for number, uuid in enumerate(uuids):
        task = Task.objects.create(
            queue="tabular_purge" if number % 2 else "soft_deletion", project_id=project, warehouse_id=warehouse.pk,
            entity_type="view" if number == 5 else "table", entity_id=new_id(), entity_uuid=uuid,
        )  # fmt: skip
        Task.objects.filter(pk=task.pk).update(created_at=start + timedelta(minutes=number // 2))
    own = Task.objects.create(
        queue="expire_snapshots", project_id=project, warehouse_id=warehouse.pk, entity_type="warehouse"
    )
    Task.objects.create(queue="tabular_purge", project_id=project, warehouse_id=new_id(), entity_id=new_id())

    def found(**body: Any) -> list[int]:
        return [uuids.index(uuid) for task in listed(api.post("/task/list", body)) if (uuid := uuid_of(task))]

    def uuid_of(task: dict[str, Any]) -> Any:
        entity = task.get("entity", {})
        return next((each for each in uuids if str(each) in entity.values()), None)

    assert sorted(found()) == [0, 1, 2, 3, 4, 5]
    assert found()[0] in {4, 5}
    assert found()[-1] in {0, 1}
    assert sorted(found(**{"queue-name": ["tabular_expiration"]})) == [0, 2, 4]
    assert found(**{"queue-name": ["tabular_purge", "unknown"], "status": ["SCHEDULED"]}) == [5, 3, 1]
    assert found(**{"queue-name": []}) == found(status=[]) == found(entities=[]) == found(status=["RUNNING"]) == []
    assert found(entities=[{"type": "view", "view-id": str(uuids[5])}]) == [5]
    assert found(entities=[{"type": "table", "table-id": str(uuids[5])}]) == []
    assert sorted(found(entities=[{"type": "table", "table-id": str(uuids[each])} for each in (1, 2)])) == [1, 2]
    (of_warehouse,) = listed(api.post("/task/list", {"entities": [{"type": "warehouse"}]}))
    assert of_warehouse["task-id"] == str(own.pk)
    assert not {"entity", "entity-name"} & of_warehouse.keys()
    after, before = (start + timedelta(seconds=each) for each in (1, 119))
    between = {"created-after": after.isoformat(), "created-before": before.isoformat()}
    assert sorted(found(**between)) == [2, 3]

    pages, body = [], {"page-size": 2, "queue-name": ["tabular_purge", "soft_deletion"]}
    while True:
        response = api.post("/task/list", body).json()
        pages.append([task["task-id"] for task in response["tasks"]])
        if "next-page-token" not in response:
            break
        body["page-token"] = response["next-page-token"]
    assert [len(page) for page in pages] == [2, 2, 2]
    assert len({task_id for page in pages for task_id in page}) == 6
    body["status"] = ["SCHEDULED"]
    assert failure(api.post("/task/list", body)) == (400, "InvalidPaginationToken")


BAD_LISTS: list[dict[str, Any]] = [
    {"status": ["scheduled"]},
    {"status": "SCHEDULED"},
    {"status": ["SCHEDULED"] * 101},
    {"queue-name": ["x"] * 101},
    {"queue-name": [1]},
    {"entities": [{"type": "namespace", "namespace-id": NO_ONE}]},
    {"entities": [{"type": "table"}]},
    {"entities": [{"type": "table", "view-id": NO_ONE}]},
    {"entities": [{"type": "table", "table-id": "' OR 1=1 --"}]},
    {"entities": [{"type": "warehouse", "table-id": NO_ONE}]},
    {"created-after": "yesterday"},
    {"page-size": 0},
    {"page-size": -1},
    {"page-size": 2**63},
    {"page-size": "10"},
    {"page-token": "x"},
    {"page-token": "\0"},
]


@pytest.mark.parametrize("body", BAD_LISTS, ids=str)
def test_invalid_lists(api: ApiClient, body: dict[str, Any]) -> None:
    assert api.post("/task/list", body).status == 400


BAD_CONTROLS: list[tuple[dict[str, Any], int]] = [
    ({"task-ids": [NO_ONE] * 101}, 400),
    ({"task-ids": [NO_ONE, "x"]}, 400),
    ({"task-ids": "all"}, 400),
    ({"task-ids": None}, 400),
    ({"action": {"action-type": "delete"}}, 400),
    ({"action": {"action-type": "run-at"}}, 400),
    ({"action": {"action-type": "run-now", "scheduled-for": "2026-01-01T00:00:00Z"}}, 400),
    ({"action": {"action-type": "run-at", "scheduled-for": "2999-01-01T00:00:00Z"}}, 400),
    ({"action": {"action-type": "run-at", "scheduled-for": "soon"}}, 400),
    ({"action": "stop"}, 400),
    ({"task-ids": [NO_ONE]}, 404),
    ({"task-ids": [None]}, 400),
]


@pytest.mark.parametrize(("changed", "status"), BAD_CONTROLS, ids=str)
def test_invalid_control_changes_nothing(
    api: ApiClient, dropped: str, everything: Everything, changed: dict[str, Any], status: int
) -> None:
    before = everything()
    body = {"task-ids": [str(Task.objects.get().pk)], "action": {"action-type": "cancel"}}
    if changed.get("task-ids") == [NO_ONE]:  # one that does not exist next to one that does
        changed = {"task-ids": [*body["task-ids"], NO_ONE]}
    response = api.post("/task/control", body | changed)
    assert response.status == status, response.body
    assert everything() == before


def test_tasks_of_others_are_not_found(
    api: ApiClient, dropped: str, warehouse: Warehouse, everything: Everything
) -> None:
    task = Task.objects.get()
    Task.objects.filter(pk=task.pk).update(warehouse_id=new_id())
    before = everything()
    assert failure(control(api, "cancel", task.pk)) == (404, "TaskNotFound")
    assert failure(api.get(f"/task/by-id/{task.pk}")) == (404, "TaskNotFound")
    assert failure(api.get("/task/by-id/..%2F..")) == (404, "TaskNotFound")
    for given in ("-1", "x", "1e3", "9" * 400):
        assert failure(api.get(f"/task/by-id/{task.pk}?numAttempts={given}")) == (400, "BadRequestException")
    missing = ApiClient(f"/management/v1/warehouse/{NO_ONE}")
    for response in (
        missing.post("/task/list", {}), missing.get(f"/task/by-id/{task.pk}"), control(missing, "stop", task.pk),
        missing.get("/task-queue/tabular_purge/config"), missing.get("/task-queue/unknown/config"),
        missing.post("/task-queue/tabular_purge/config", {"queue-config": {}}),
    ):  # fmt: skip
        assert failure(response) == (404, "NoSuchWarehouseException")
    project = ApiClient("/management/v1/project")
    assert failure(project.get(f"/task/by-id/{task.pk}")) == (404, "TaskNotFound")
    assert failure(control(project, "cancel", task.pk)) == (404, "TaskNotFound")
    assert listed(project.post("/task/list", {})) == []
    assert everything() == before


def test_without_the_permission_for_all_tasks_entities_are_required(
    api: ApiClient, dropped: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    Task.objects.create(queue="expire_snapshots", warehouse_id=warehouse.pk, entity_type="warehouse")
    Task.objects.create(queue="tabular_purge", warehouse_id=warehouse.pk, entity_id=new_id(), entity_uuid=dropped)
    table, own = {"type": "table", "table-id": dropped}, Task.objects.get(queue="soft_deletion")
    deny(monkeypatch, Can.GET_ALL_TASKS, Can.CONTROL_ALL_TASKS)
    forbidden = (403, "WarehouseListTasksForbidden")
    assert failure(api.post("/task/list", {})) == forbidden
    assert failure(api.post("/task/list", {"entities": []})) == forbidden
    assert failure(api.post("/task/list", {"entities": [table, {"type": "warehouse"}]})) == forbidden
    assert failure(api.post("/task/list", {"entities": [table, table | {"table-id": NO_ONE}]})) == forbidden
    assert [task["task-id"] for task in listed(api.post("/task/list", {"entities": [table, table]}))] == [str(own.pk)]
    assert api.get(f"/task/by-id/{own.pk}").status == 200
    for other in Task.objects.exclude(pk=own.pk):
        assert failure(api.get(f"/task/by-id/{other.pk}")) == (404, "TaskNotFound")
        assert failure(control(api, "run-now", own.pk, other.pk)) == (404, "TaskNotFound")
        # The errors for a hidden task and for a missing one are equal.
        last = "ffffffff-ffff-7fff-bfff-ffffffffffff"
        hidden = control(api, "run-now", other.pk, last).error["message"]
        missing = control(api, "run-now", NO_ONE, last).error["message"]
        assert hidden.replace(str(other.pk), "...") == missing.replace(NO_ONE, "...")
    assert control(api, "run-now", own.pk).status == 204
    deny(monkeypatch, Can.GET_ALL_TASKS, Can.CONTROL_ALL_TASKS, Can.CONTROL_TASKS)
    assert failure(control(api, "run-now", own.pk)) == (403, "TableActionForbidden")
    deny(monkeypatch, Can.GET_ALL_TASKS, Can.CONTROL_ALL_TASKS, Can.CONTROL_TASKS, Can.GET_TASKS)
    assert failure(control(api, "run-now", own.pk)) == (404, "TaskNotFound")
    assert failure(api.get(f"/task/by-id/{own.pk}")) == (404, "TaskNotFound")
    deny(monkeypatch, Can.CONTROL_ALL_TASKS)
    for other in Task.objects.exclude(pk=own.pk):
        assert failure(control(api, "run-now", other.pk)) == (403, "WarehouseActionForbidden")


def test_configuration_of_a_queue(api: ApiClient, warehouse: Warehouse) -> None:
    path = "/task-queue/tabular_purge/config"
    assert api.get(path).json() == {"queue-config": {}}
    config = {"queue-config": {"max-retries": 3, "max-age": "PT90M"}, "max-seconds-since-last-heartbeat": 600}
    assert api.post(path, config).status == 204
    assert api.get(path).json() == config
    record = AuditRecord.objects.get(event="task-queue.configured")
    assert json.loads(record.details)["config"] == {"max-retries": 3, "max-age": "PT90M"}
    assert api.post(path, {"queue-config": {}}).status == 204
    assert api.get(path).json() == {"queue-config": {}}
    expiration = {"queue-config": {"max-retries": 2}}
    assert api.post("/task-queue/tabular_expiration/config", expiration).status == 204  # the former name
    assert api.get("/task-queue/soft_deletion/config").json() == expiration
    assert TaskQueueConfig.objects.filter(warehouse_id=warehouse.pk).count() == 2


INVALID = (400, "InvalidQueueConfig")
BAD_CONFIGS: list[tuple[str, Any, tuple[int, str]]] = [
    ("tabular_purge", {"queue-config": {"max-retries": -1}}, INVALID),
    ("tabular_purge", {"queue-config": {"max-retries": 2**62}}, INVALID),
    ("tabular_purge", {"queue-config": {"max-retries": True}}, INVALID),
    ("tabular_purge", {"queue-config": {"max-age": "1 day"}}, INVALID),
    ("tabular_purge", {"queue-config": {"max-age": "P999999W"}}, INVALID),
    ("tabular_purge", {"queue-config": {"../max-retries": 1}}, INVALID),
    ("tabular_purge", {"queue-config": {}, "max-seconds-since-last-heartbeat": 59}, INVALID),
    ("tabular_purge", {"queue-config": {}, "max-seconds-since-last-heartbeat": 2**62}, INVALID),
    ("tabular_purge", {"queue-config": []}, (400, "BadRequestException")),
    ("tabular_purge", {}, (400, "BadRequestException")),
    ("remove_orphan_files", {"queue-config": {"max-run-time-seconds": 59}}, INVALID),
    ("unknown", {"queue-config": {}}, (404, "QueueNotFound")),
    ("task_log_cleanup", {"queue-config": {}}, (404, "QueueNotFound")),
]


@pytest.mark.parametrize(("queue", "body", "error"), BAD_CONFIGS, ids=str)
def test_invalid_configurations_change_nothing(
    api: ApiClient, everything: Everything, queue: str, body: Any, error: tuple[int, str]
) -> None:
    before = everything()
    assert failure(api.post(f"/task-queue/{queue}/config", body)) == error
    assert everything() == before


def test_tasks_and_configuration_of_a_project(warehouse: Warehouse, everything: Everything) -> None:
    api, project = ApiClient("/management/v1/project"), Project.objects.get()
    task = Task.objects.create(queue="task_log_cleanup", project_id=project.pk, entity_type="project")
    Task.objects.create(queue="task_log_cleanup", project_id="other", entity_type="project")
    Task.objects.create(queue="tabular_purge", project_id=project.pk, warehouse_id=warehouse.pk, entity_id=new_id())
    (shown,) = listed(api.post("/task/list", {"status": ["SCHEDULED"], "queue-name": ["task_log_cleanup"]}))
    assert set(shown) == {
        "task-id", "project-id", "queue-name", "status", "attempt", "progress", "scheduled-for", "created-at",
    }  # fmt: skip
    assert api.get(f"/task/by-id/{task.pk}").json() == shown | {"task-data": {}, "attempts": []}
    later = (now() + timedelta(days=2)).isoformat()
    assert control(api, "run-at", task.pk, **{"scheduled-for": later}).status == 204
    config = {"queue-config": {"retention-period": "P30D"}}
    assert api.post("/task-queue/task_log_cleanup/config", config).status == 204
    assert api.get("/task-queue/task_log_cleanup/config").json() == config
    before = everything()
    bad = api.post("/task-queue/task_log_cleanup/config", {"queue-config": {"retention-period": "PT1H"}})
    assert failure(bad) == INVALID
    assert failure(api.get("/task-queue/tabular_purge/config")) == (404, "QueueNotFound")
    assert failure(api.post("/task/list", {}, **{"x-project-id": "other"})) == (404, "ProjectNotFound")
    assert everything() == before


def test_configurations_are_deleted_with_their_warehouse(api: ApiClient, warehouse: Warehouse) -> None:
    assert api.post("/task-queue/soft_deletion/config", {"queue-config": {"max-retries": 2}}).status == 204
    assert api.delete("").status == 204
    assert not TaskQueueConfig.objects.exists()
