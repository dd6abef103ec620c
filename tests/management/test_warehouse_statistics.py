"""Warehouse statistics: counts that a worker stores per hour, and their API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F

from catalog.models import Namespace, Tabular, WarehouseStatistic
from catalog.services import warehouse_statistics as service
from icekeeper.kernel.http.paging import write_page_token
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tasks.models import Task
from tasks.queue.enqueue import enqueue_for_projects
from tasks.queue.leases import LeaseLost, claim_tasks
from tasks.workers.worker import Worker
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tenancy.selectors.projects import get_project
from tenancy.services.project_tasks import schedule_project_tasks
from tenancy.services.projects import create_project
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import NO_ONE, refuse, reported

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 1, 10, 20, 30, tzinfo=UTC)


class Clock:
    """The clock of the statistics."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at

    def later(self, **passed: float) -> None:
        self.at += timedelta(**passed)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(service, "now", clock)
    return clock


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


def add(namespace: Namespace, count: int, kind: str = "table", **fields: Any) -> list[Tabular]:
    return Tabular.objects.bulk_create(
        Tabular(
            warehouse_id=namespace.warehouse_id, namespace=namespace, kind=kind, uuid=new_id(), name=str(key),
            name_key=str(key), location=f"file:///{key}", **fields,
        )
        for key in (new_id() for _ in range(count))
    )  # fmt: skip


def record(clock: Clock) -> int:
    return service.record_hour(get_project(None).pk, service.beginning_of_hour(clock()), clock())


def stats(api: ApiClient, query: str = "") -> list[tuple[str, str, int, int, int]]:
    response = api.get(f"/statistics{query}", **{"x-icekeeper-extensions": "true"})
    assert response.status == 200, response.body
    return [
        (
            datetime.fromisoformat(each["timestamp"]).strftime("%dT%H:%M:%S"),
            datetime.fromisoformat(each["updated-at"]).strftime("%dT%H:%M:%S"),
            each["number-of-tables"],
            each["number-of-views"],
            each["number-of-generic-tables"],
        )
        for each in response.json()["stats"]
    ]


def test_a_response(api: ApiClient, warehouse: Warehouse, clock: Clock) -> None:
    assert api.get("/statistics").json() == {
        "warehouse-ident": str(warehouse.pk),
        "stats": [
            {
                "timestamp": "2026-03-01T11:00:00+00:00",
                "updated-at": "2026-03-01T10:20:30+00:00",
                "number-of-tables": 0,
                "number-of-views": 0,
            }
        ],
    }


def test_an_hour_in_which_nothing_changed_is_not_written_down(api: ApiClient, namespace: str, clock: Clock) -> None:
    space = Namespace.objects.get()
    assert record(clock) == 1, "also for an empty warehouse"
    assert record(clock) == 0
    clock.later(minutes=10)
    tables = add(space, 3)
    add(space, 2, "view")
    assert stats(api) == [("01T11:00:00", "01T10:30:30", 3, 2, 0)], "the current counts"
    assert record(clock) == 1
    clock.later(minutes=5)
    assert record(clock) == 0
    assert stats(api) == [("01T11:00:00", "01T10:30:30", 3, 2, 0)]
    clock.later(hours=3)
    assert record(clock) == 0
    add(space, 1, "generic-table")
    Tabular.objects.filter(pk=tables[0].pk).delete()
    clock.later(minutes=1)
    assert record(clock) == 1
    clock.later(hours=1)
    expected = [("01T14:00:00", "01T13:36:30", 2, 2, 1), ("01T11:00:00", "01T10:30:30", 3, 2, 0)]
    assert stats(api) == [("01T15:00:00", "01T13:36:30", 2, 2, 1), *expected]
    add(space, 1)
    assert stats(api) == [("01T15:00:00", "01T14:36:30", 3, 2, 1), *expected], "before a worker has recorded"
    assert WarehouseStatistic.objects.count() == 2


def test_dropped_tabulars_are_not_counted(
    api: ApiClient, catalog: ApiClient, create_table: Callable[..., Any], soft_delete: int, clock: Clock
) -> None:
    uuid = create_table()["metadata"]["table-uuid"]
    create_table("u")
    create_table("staged", **{"stage-create": True})
    record(clock)
    assert stats(api)[0][2:] == (2, 0, 0)
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    assert stats(api)[0][2:] == (1, 0, 0)
    assert record(clock) == 1
    assert api.post("/deleted-tabulars/undrop", {"targets": [{"type": "table", "id": uuid}]}).status == 204
    assert stats(api)[0][2:] == (2, 0, 0)
    assert record(clock) == 1


def test_each_warehouse_has_its_own(
    api: ApiClient, catalog: ApiClient, namespace: str, storage_root: Any, clock: Clock
) -> None:
    others = [
        create_warehouse(
            actor=INTERNAL,
            project=get_project(None),
            name=f"other{number}",
            storage_profile={"type": "local", "path": str(storage_root / f"other{number}")},
        )
        for number in range(3)
    ]
    add(Namespace.objects.get(), 2)
    project_id = get_project(None).pk
    with counting() as seen:
        assert service.record_hour(project_id, service.beginning_of_hour(clock()), clock()) == 4
    assert seen["statements"] == 1
    clock.later(hours=1)
    add(Namespace.objects.get(), 1)
    Warehouse.objects.filter(pk=others[0].pk).update(status="inactive")
    assert record(clock) == 1
    elsewhere = [ApiClient(f"/management/v1/warehouse/{other.pk}") for other in others]
    assert [stats(each) for each in elsewhere] == [
        [("01T12:00:00", "01T10:20:30", 0, 0, 0), ("01T11:00:00", "01T10:20:30", 0, 0, 0)]
    ] * 3
    assert stats(api) == [("01T12:00:00", "01T11:20:30", 3, 0, 0), ("01T11:00:00", "01T10:20:30", 2, 0, 0)]
    # They are deleted with their warehouse.
    assert elsewhere[1].delete().status == 204
    assert WarehouseStatistic.objects.count() == 4
    assert elsewhere[1].get("/statistics").refused(404, "NoSuchWarehouseException")


def test_hours_of_other_projects_are_left_to_their_tasks(api: ApiClient, storage_root: Any, clock: Clock) -> None:
    other = create_project(actor=INTERNAL, name="other")
    profile = {"type": "local", "path": str(storage_root / "other")}
    theirs = create_warehouse(actor=INTERNAL, project=other, name="theirs", storage_profile=profile)
    assert record(clock) == 1
    assert not WarehouseStatistic.objects.filter(warehouse=theirs).exists()
    assert service.record_hour(other.pk, clock(), clock()) == 1
    assert service.record_hour("unknown", clock(), clock()) == 0


@pytest.mark.parametrize(
    ("at", "following"),
    [
        ("10:00:00", "10:59:30"),
        ("10:59:29.999999", "10:59:30"),
        ("10:59:30", "11:59:30"),
        ("10:59:59", "11:59:30"),
        ("23:59:45", "00:59:30"),
    ],
)
def test_the_next_recording_is_shortly_before_an_hour_ends(at: str, following: str) -> None:
    found = service.next_recording(datetime.fromisoformat(f"2026-03-01T{at}+00:00"))
    assert found == datetime.fromisoformat(f"2026-03-0{1 if following > at else 2}T{following}+00:00")


@pytest.mark.parametrize(
    ("planned", "at", "recorded"),
    [
        ("10:00:00", "10:59:30", "10:00:00"),
        ("10:00:00", "11:00:00", "10:00:00"),
        ("10:00:00", "11:14:59", "10:00:00"),
        ("10:00:00", "11:15:00", "11:00:00"),
        ("10:00:00", "15:20:00", "15:00:00"),
        ("10:00:00", "09:20:00", "09:00:00"),
        (None, "10:20:00", "10:00:00"),
    ],
)
def test_a_late_task_records_the_hour_that_has_just_ended(planned: str | None, at: str, recorded: str) -> None:
    hour = None if planned is None else f"2026-03-01T{planned}+00:00"
    found = service.hour_to_record(hour, datetime.fromisoformat(f"2026-03-01T{at}+00:00"))
    assert found == datetime.fromisoformat(f"2026-03-01T{recorded}+00:00")


def test_a_task_records_the_hour_and_enqueues_the_next(namespace: str) -> None:
    add(Namespace.objects.get(), 2)
    enqueue_for_projects("statistics", [get_project(None).pk])
    ends = datetime.now(UTC) + timedelta(seconds=5)
    while Worker(poll_interval=60).work():
        assert datetime.now(UTC) < ends
    done, following = Task.objects.order_by("id")
    assert (done.status, done.execution_details) == ("success", {"recorded-warehouses": 1})
    assert (following.status, following.project_id) == ("scheduled", done.project_id)
    assert done.finished_at is not None
    assert timedelta(0) < following.scheduled_for - done.finished_at <= timedelta(hours=1)
    row = WarehouseStatistic.objects.get()
    assert (row.tables, row.hour.minute) == (2, 0)


def test_new_projects_get_a_task_that_is_due(namespace: str) -> None:
    create_project(actor=INTERNAL, name="other")
    schedule_project_tasks(actor=INTERNAL)
    assert Task.objects.filter(queue="statistics", scheduled_for__lte=datetime.now(UTC)).count() == 2
    Worker(poll_interval=60).run_once()
    assert WarehouseStatistic.objects.count() == 1
    schedule_project_tasks(actor=INTERNAL)
    assert Task.objects.filter(queue="statistics", finished_at=None).count() == 2


def test_a_lost_lease_records_nothing(namespace: str) -> None:
    enqueue_for_projects("statistics", [get_project(None).pk])
    (lease,) = claim_tasks({"statistics": 1})
    Task.objects.update(attempt=F("attempt") + 1)  # another worker has taken over
    with pytest.raises(LeaseLost):
        service.record_statistics(lease, lambda: None)
    assert not WarehouseStatistic.objects.exists()
    assert Task.objects.count() == 1


def test_pages(api: ApiClient, namespace: str, clock: Clock) -> None:
    for _ in range(9):
        add(Namespace.objects.get(), 1)
        assert record(clock) == 1
        clock.later(hours=2)
    everything = stats(api)
    assert [each[2] for each in everything] == [9, *range(9, 0, -1)]
    for size in (1, 3, 5, 10):
        found, query = [], f"?page_size={size}"
        while query:
            response = api.get(f"/statistics{query}", **{"x-icekeeper-extensions": "true"}).json()
            assert len(response["stats"]) <= size
            found += stats(api, query)
            token = response.get("next-page-token")
            query = f"?page_size={size}&page_token={token}" if token else ""
        assert found == everything
    assert len(stats(api, "?page_token=")) == 10
    # An hour that is already stored has one entry, not two.
    clock.later(hours=-2)
    assert [each[2] for each in stats(api)] == list(range(9, 0, -1))
    assert [each[2] for each in stats(api, "?page_size=2")] == [9, 8]


@pytest.mark.parametrize(
    ("query", "wire_type"),
    [
        ("page_token=x", "InvalidPaginationToken"),
        (f"page_token={write_page_token('deleted-tabulars', NO_ONE)}", "InvalidPaginationToken"),
        *(
            (f"page_token={write_page_token('warehouse-statistics', key)}", "InvalidPaginationToken")
            for key in (
                "x",
                "2026-01-01",
                "2026-01-01T00:00:00",
                "0001-01-01T00:00:00+00:00",
                "9999-12-31T23:00:00+00:00",
            )
        ),
        ("page_size=0", "BadRequestException"),
        ("page_size=x", "BadRequestException"),
    ],
)
def test_invalid_queries(api: ApiClient, monkeypatch: pytest.MonkeyPatch, query: str, wire_type: str) -> None:
    everything = api.get(f"/statistics?{query}")
    assert everything.refused(400, wire_type)
    refuse(monkeypatch, Can.USE, Can.GET_METADATA)
    assert reported(api.get(f"/statistics?{query}"), "") == reported(everything, ""), (
        "also where the caller sees a part of it"
    )


def test_of_no_warehouse(api: ApiClient) -> None:
    for warehouse_id in (NO_ONE, "wh"):
        stranger = ApiClient(f"/management/v1/warehouse/{warehouse_id}")
        assert stranger.get("/statistics").refused(404, "NoSuchWarehouseException")
    assert api.post("/statistics", {}).refused(405, "MethodNotAllowedException")


def test_permissions_are_checked(api: ApiClient, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_of = refuse(monkeypatch).asked_of
    assert api.get("/statistics").refused(404, "NoSuchWarehouseException")
    actions = (Can.GET_METADATA, Can.USE, Can.LIST_EVERYTHING, Can.READ_GRANTS)
    assert {each for each, _ in asked_of} == set(actions)
    assert {on for _, on in asked_of} == {f"warehouse:{warehouse.pk}"}
    missing = ApiClient(f"/management/v1/warehouse/{NO_ONE}").get("/statistics")
    assert reported(api.get("/statistics"), warehouse.pk) == reported(missing, NO_ONE)
    refuse(monkeypatch, Can.USE)
    assert api.get("/statistics").refused(403, "WarehouseActionForbidden", "get_metadata")


def test_a_worker_writes_them_down_and_deletes_old_ones(
    api: ApiClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(Namespace.objects.get(), 2)
    kept = settings.ICEKEEPER.model_copy(update={"endpoint_stat_retention": 3 * 86_400.0})
    monkeypatch.setattr(settings, "ICEKEEPER", kept)
    recent, old, oldest = (datetime.now(UTC) - timedelta(days=days) for days in (2, 4, 5))
    warehouse_id = Warehouse.objects.get().pk
    for hour in (recent, old, oldest):
        WarehouseStatistic.objects.create(
            warehouse_id=warehouse_id, hour=hour, tables=7, views=0, generic_tables=0, updated_at=hour
        )
    Worker(poll_interval=60).run_once()
    newest, *others = WarehouseStatistic.objects.order_by("-hour")
    assert newest.tables == 2
    assert [each.hour for each in others] == [recent, old], "the newest of the old ones holds until the recent one"
    assert newest.hour.minute == newest.hour.second == newest.hour.microsecond == 0
    assert service.delete_old_warehouse_statistics(actor=INTERNAL) == 0
