"""Endpoint statistics: attribution of calls, sums per hour, and queries."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from catalog.services.delete_warehouse import delete_warehouse
from icekeeper.kernel.http.paging import write_page_token
from icekeeper.kernel.names import name_key
from management import call_counter as counter_module
from management import endpoint_statistics
from management.api.statistics import views as api_module
from management.call_counter import CallCounter
from management.endpoint_statistics import CallCount, CallKey, delete_old_statistics, record_calls
from management.models import NO_WAREHOUSE, EndpointStatistic
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL, Actor
from tenancy.authz import port
from tenancy.authz.actions import Can
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tests.harness.wsgi_client import ApiClient, Response, call
from tests.management.warehouse_request_fixtures import NO_ONE, reported

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

api = ApiClient("/management/v1")
DEFAULT_PROJECT = "00000000-0000-0000-0000-000000000000"
UNKNOWN_ID = "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"
LOAD = "catalog/v1/<segment:prefix>/namespaces/<segment:namespace>"
LOADED = "GET /catalog/v1/{prefix}/namespaces/{namespace}"
LIST = "management/v1/warehouse"
EIGHT = datetime(2026, 3, 1, 8, tzinfo=UTC)


@pytest.fixture
def other(bootstrapped: None, storage_root: Path) -> Warehouse:
    """A warehouse in another project."""
    project = Project.objects.create(id="other", name="Other", name_key=name_key("Other"))
    server = Securable.objects.get(type=Securable.Type.SERVER)
    add_securable(Securable.Type.PROJECT, project.pk, parent=ObjectRef(Securable.Type.SERVER, server.object_id))
    profile = {"type": "local", "path": str(storage_root / "other")}
    return create_warehouse(actor=INTERNAL, project=project, name="elsewhere", storage_profile=profile)


def tally(count: int, first: datetime, last: datetime | None = None) -> CallCount:
    created = CallCount(first.timestamp())
    created.count, created.last = count, (last or first).timestamp()
    return created


def counted(
    count: int = 1,
    *,
    at: datetime = EIGHT,
    last: datetime | None = None,
    method: str = "GET",
    route: str = LOAD,
    status: int = 200,
    warehouse: object = None,
    project: str | None = None,
) -> dict[CallKey, CallCount]:
    hour = int(at.timestamp()) // 3600
    key = CallKey(hour, method, route, status, None if warehouse is None else str(warehouse), project)
    return {key: tally(count, at, last)}


def rows() -> list[tuple[Any, ...]]:
    fields = ("project_id", "warehouse_id", "endpoint", "status", "count")
    return sorted(EndpointStatistic.objects.values_list(*fields), key=str)


def ask(body: dict[str, Any], **headers: str) -> Response:
    return call("POST", "/management/v1/endpoint-statistics", body=json.dumps(body).encode(), headers=headers)


def window(end: datetime = EIGHT + timedelta(hours=4), interval: str = "P1D") -> dict[str, Any]:
    return {"type": "window", "end": end.isoformat(), "interval": interval}


ALL = {"warehouse": {"type": "all"}, "range-specifier": window()}


# --- writing ------------------------------------------------------------------------------------------------------


def test_calls_add_up_within_their_hour(warehouse: Warehouse) -> None:
    record_calls(counted(1, at=EIGHT + timedelta(minutes=5), warehouse=warehouse.pk))
    row = EndpointStatistic.objects.get()
    assert (row.project_id, row.warehouse_id, row.endpoint, row.status) == (DEFAULT_PROJECT, warehouse.pk, LOADED, 200)
    assert (row.hour, row.count, row.created_at, row.updated_at) == (EIGHT, 1, EIGHT + timedelta(minutes=5), None)

    later = {"at": EIGHT + timedelta(minutes=20), "last": EIGHT + timedelta(minutes=30)}
    record_calls(counted(4, warehouse=warehouse.pk, **later))
    row.refresh_from_db()
    assert (row.count, row.created_at, row.updated_at) == (5, EIGHT + timedelta(minutes=5), later["last"])

    # Another process writes late what it counted early.
    record_calls(counted(1, at=EIGHT + timedelta(minutes=1), warehouse=warehouse.pk))
    row.refresh_from_db()
    assert (row.count, row.created_at, row.updated_at) == (6, EIGHT + timedelta(minutes=1), later["last"])

    record_calls(counted(2, at=EIGHT + timedelta(hours=1), warehouse=warehouse.pk))
    record_calls(counted(7, status=404, warehouse=warehouse.pk))
    assert sorted(EndpointStatistic.objects.values_list("hour", "status", "count")) == [
        (EIGHT, 200, 6), (EIGHT, 404, 7), (EIGHT + timedelta(hours=1), 200, 2),
    ]  # fmt: skip


def test_the_second_call_of_another_process_is_an_update(warehouse: Warehouse) -> None:
    for minute in (5, 9):
        record_calls(counted(1, at=EIGHT + timedelta(minutes=minute)))
    row = EndpointStatistic.objects.get()
    assert (row.count, row.created_at, row.updated_at) == (
        2, EIGHT + timedelta(minutes=5), EIGHT + timedelta(minutes=9),
    )  # fmt: skip


def test_whose_calls_they_are(warehouse: Warehouse, other: Warehouse) -> None:
    record_calls(
        counted(1, warehouse=warehouse.pk)
        | counted(2, warehouse=str(warehouse.pk).upper(), project="other")  # the project of the warehouse applies
        | counted(4, warehouse=other.pk)
        | counted(8, warehouse=UNKNOWN_ID)
        | counted(16, warehouse="x" * 36, project="other")
        | counted(32, project="unknown")
        | counted(64, project="no/project")
        | counted(128)
    )
    assert rows() == [
        (DEFAULT_PROJECT, NO_WAREHOUSE, LOADED, 200, 8 + 128),
        (DEFAULT_PROJECT, warehouse.pk, LOADED, 200, 1 + 2),
        ("other", NO_WAREHOUSE, LOADED, 200, 16),
        ("other", other.pk, LOADED, 200, 4),
    ]


def test_without_a_default_project_calls_without_a_project_are_not_counted(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"enable_default_project": False})
    )  # fmt: skip
    record_calls(counted(1) | counted(2, project=DEFAULT_PROJECT))
    assert rows() == [(DEFAULT_PROJECT, NO_WAREHOUSE, LOADED, 200, 2)]
    record_calls({})


def test_statistics_are_deleted_with_their_project(warehouse: Warehouse, other: Warehouse) -> None:
    record_calls(counted(1, warehouse=warehouse.pk) | counted(1, warehouse=other.pk))
    delete_warehouse(actor=INTERNAL, warehouse_id=other.pk)
    assert len(rows()) == 2
    Project.objects.get(pk="other").delete()
    assert [row[0] for row in rows()] == [DEFAULT_PROJECT]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_processes_that_write_at_once_lose_nothing_and_do_not_deadlock(bootstrapped: None) -> None:
    routes = [f"management/v1/route-{number}" for number in range(40)]

    def write(number: int) -> None:
        order = random.Random(number)
        try:
            for _ in range(5):
                calls: dict[CallKey, CallCount] = {}
                for route in order.sample(routes, len(routes)):
                    calls |= counted(2, route=route)
                record_calls(calls)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert rows() == [
        (DEFAULT_PROJECT, NO_WAREHOUSE, f"GET /{route}", 200, 40) for route in sorted(routes)
    ]  # fmt: skip


def test_old_hours_are_deleted_in_batches(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"endpoint_stat_retention": 7200.0})
    )  # fmt: skip
    monkeypatch.setattr(endpoint_statistics, "now", lambda: EIGHT)
    for hours_ago in (6, 5, 4, 3, 2, 1, 0):
        record_calls(counted(1, at=EIGHT - timedelta(hours=hours_ago)))
    assert delete_old_statistics(actor=INTERNAL, batch=2) == 4
    assert sorted(EndpointStatistic.objects.values_list("hour", flat=True)) == [
        EIGHT - timedelta(hours=2), EIGHT - timedelta(hours=1), EIGHT,
    ]  # fmt: skip


# --- counting requests ---------------------------------------------------------------------------------------------


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> CallCounter:
    """Count the calls of this test only."""
    fresh = CallCounter()
    monkeypatch.setattr(counter_module, "call_counter", fresh)
    return fresh


def test_every_call_of_an_api_is_counted(warehouse: Warehouse, counter: CallCounter) -> None:
    catalog = ApiClient(f"/catalog/v1/{warehouse.pk}")
    assert catalog.post("/namespaces", {"namespace": ["a"]}).status == 200
    assert catalog.get("/namespaces/a").status == 200
    assert catalog.get("/namespaces/a").status == 200
    assert catalog.get("/namespaces/b").status == 404
    assert catalog.head("/namespaces/a").status == 204
    assert catalog.post("/namespaces", raw=b"{").status == 400
    assert call("GET", "/catalog/v1/config?warehouse=wh").status == 200
    assert call("GET", "/catalog/v1/config?warehouse=no").status == 404
    assert call("PUT", "/catalog/v1/config").status == 405
    assert call("GET", "/catalog/v1/no-such-route").status == 404
    assert call("GET", f"/catalog/v1/{UNKNOWN_ID}/namespaces").status == 404
    assert api.get(f"/warehouse/{warehouse.pk}").status == 200
    assert api.get("/info").status == 200
    assert call("GET", "/api-docs/catalog/v1/openapi.json").status == 200
    record_calls(counter.take())
    assert [row[1:] for row in rows()] == sorted(
        [
            (warehouse.pk, "POST /catalog/v1/{prefix}/namespaces", 200, 1),
            (warehouse.pk, "POST /catalog/v1/{prefix}/namespaces", 400, 1),
            (warehouse.pk, LOADED, 200, 2),
            (warehouse.pk, LOADED, 404, 1),
            (warehouse.pk, "HEAD /catalog/v1/{prefix}/namespaces/{namespace}", 204, 1),
            (warehouse.pk, "GET /catalog/v1/config", 200, 1),
            (warehouse.pk, "GET /management/v1/warehouse/{warehouse_id}", 200, 1),
            (NO_WAREHOUSE, "GET /catalog/v1/config", 404, 1),
            (NO_WAREHOUSE, "PUT /catalog/v1/config", 405, 1),
            (NO_WAREHOUSE, "GET /catalog/v1/{prefix}/namespaces", 404, 1),
            (NO_WAREHOUSE, "GET /management/v1/info", 200, 1),
        ],
        key=str,
    )


# --- reading ------------------------------------------------------------------------------------------------------


def test_the_response(warehouse: Warehouse) -> None:
    nine = EIGHT + timedelta(hours=1)
    record_calls(
        counted(3, at=EIGHT + timedelta(minutes=1), last=EIGHT + timedelta(minutes=2), warehouse=warehouse.pk)
        | counted(1, at=nine, method="POST", route=LIST, status=201)
        | counted(1, at=EIGHT, route=LIST)
    )
    response = ask(ALL)
    assert response.status == 200, response.body
    content = response.json()
    assert set(content) == {"timestamps", "called-endpoints", "previous-page-token", "next-page-token"}
    assert content["timestamps"] == ["2026-03-01T09:00:00+00:00", "2026-03-01T10:00:00+00:00"]
    unmapped = {"warehouse-id": None, "warehouse-name": None, "updated-at": None}
    assert content["called-endpoints"] == [
        [
            {
                "http-route": LOADED,
                "status-code": 200,
                "count": 3,
                "warehouse-id": str(warehouse.pk),
                "warehouse-name": "wh",
                "created-at": "2026-03-01T08:01:00+00:00",
                "updated-at": "2026-03-01T08:02:00+00:00",
            },
            {
                "http-route": "GET /management/v1/warehouse",
                "status-code": 200,
                "count": 1,
                "created-at": "2026-03-01T08:00:00+00:00",
                **unmapped,
            },
        ],
        [
            {
                "http-route": "POST /management/v1/warehouse",
                "status-code": 201,
                "count": 1,
                "created-at": "2026-03-01T09:00:00+00:00",
                **unmapped,
            }
        ],
    ]


def found(body: dict[str, Any], **headers: str) -> list[int]:
    """Return the counts of a response, which tests choose as powers of two."""
    response = ask(body, **headers)
    assert response.status == 200, response.body
    return [entry["count"] for hour in response.json()["called-endpoints"] for entry in hour]


def test_filters(warehouse: Warehouse, other: Warehouse) -> None:
    record_calls(
        counted(1, warehouse=warehouse.pk)
        | counted(2, warehouse=warehouse.pk, status=404)
        | counted(4, status=500)
        | counted(8, warehouse=other.pk)
        | counted(16, project="other")
    )
    assert found(ALL) == [1, 2, 4]
    assert found(ALL | {"warehouse": {"type": "unmapped"}}) == [4]
    assert found(ALL | {"warehouse": {"type": "warehouse-id", "id": str(warehouse.pk)}}) == [1, 2]
    assert found(ALL | {"status-codes": [404, 500]}) == [2, 4]
    assert found(ALL | {"status-codes": []}) == []
    assert found(ALL | {"status-codes": None}) == [1, 2, 4]
    assert found(ALL, **{"x-project-id": "other"}) == [16, 8]
    foreign = ALL | {"warehouse": {"type": "warehouse-id", "id": str(other.pk)}}
    assert ask(foreign).refused(404, "NoSuchWarehouseException")
    assert found(foreign, **{"x-project-id": "other"}) == [8]
    assert ask(ALL, **{"x-project-id": "unknown"}).refused(404, "ProjectNotFound")


def test_a_deleted_warehouse_keeps_its_history(warehouse: Warehouse) -> None:
    record_calls(counted(1, warehouse=warehouse.pk))
    delete_warehouse(actor=INTERNAL, warehouse_id=warehouse.pk)
    ((entry,),) = ask(ALL).json()["called-endpoints"]
    assert (entry["warehouse-id"], entry["warehouse-name"]) == (str(warehouse.pk), None)


def test_windows_side_by_side_share_no_hour(warehouse: Warehouse) -> None:
    for number in range(6):
        record_calls(counted(2**number, at=EIGHT + timedelta(hours=number)))
    half_past_ten = EIGHT + timedelta(hours=2, minutes=30)
    first = {"warehouse": {"type": "all"}, "range-specifier": window(half_past_ten, "PT2H")}
    assert found(first) == [2, 4]

    def slot(body: dict[str, Any], token: str) -> dict[str, Any]:
        return first | {"range-specifier": {"type": "page-token", "token": ask(body).json()[token]}}

    after = slot(first, "next-page-token")
    assert found(after) == [8, 16]
    assert found(slot(after, "next-page-token")) == [32]
    assert found(slot(first, "previous-page-token")) == [1]
    assert found(slot(slot(first, "previous-page-token"), "previous-page-token")) == []
    assert found(slot(after, "previous-page-token")) == [2, 4]


def test_the_default_window_is_the_last_day_with_the_current_hour(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "now", lambda: EIGHT + timedelta(minutes=10))
    for hours_ago in (0, 23, 24, 25):
        record_calls(counted(hours_ago + 1, at=EIGHT - timedelta(hours=hours_ago)))
    assert found({"warehouse": {"type": "all"}}) == [24, 1]
    assert found({"warehouse": {"type": "all"}, "range-specifier": None}) == [24, 1]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"warehouse": None},
        {"warehouse": "all"},
        {"warehouse": {"type": "some"}},
        {"warehouse": {"type": ["all"]}},
        {"warehouse": {"type": "warehouse-id"}},
        {"warehouse": {"type": "warehouse-id", "id": 7}},
        {"warehouse": {"type": "warehouse-id", "id": "x"}},
        {"warehouse": {"type": "warehouse-id", "id": str(NO_WAREHOUSE)}},
        ALL | {"status-codes": 200},
        ALL | {"status-codes": ["many"]},
        ALL | {"status-codes": [-1]},
        ALL | {"status-codes": [2**40]},
        ALL | {"status-codes": [200] * 1001},
        ALL | {"range-specifier": "P1D"},
        ALL | {"range-specifier": {"type": "window"}},
        ALL | {"range-specifier": {"type": "window", "end": "2026-03-01T08:00:00Z"}},
        ALL | {"range-specifier": {"type": "window", "interval": "P1D"}},
        ALL | {"range-specifier": {"type": "window", "end": 7, "interval": "P1D"}},
        ALL | {"range-specifier": {"type": "window", "end": "soon", "interval": "P1D"}},
        ALL | {"range-specifier": {"type": "window", "end": "0001-01-01T00:00:00+14:00", "interval": "P1D"}},
        ALL | {"range-specifier": {"type": "window", "end": "1969-12-31T23:59:59Z", "interval": "P1D"}},
        ALL | {"range-specifier": {"type": "window", "end": "9999-12-31T23:59:59Z", "interval": "P1D"}},
        *[
            ALL | {"range-specifier": {"type": "window", "end": "2026-03-01T08:00:00Z", "interval": interval}}
            for interval in ("", "1D", "P", "PT0S", "-P1D", "P-1D", "P3661D", "P99999999999D", "1 00:00:00", 86400)
        ],
    ],
)
def test_bad_questions(bootstrapped: None, body: dict[str, Any]) -> None:
    assert ask(body).refused(400, "BadRequestException")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "é",
        write_page_token("tables", "2026-03-01T08:00:00+00:00", "3600.0"),
        write_page_token("endpoint-statistics", "2026-03-01T08:00:00+00:00"),
        write_page_token("endpoint-statistics", "2026-03-01T08:00:00", "3600.0"),
        write_page_token("endpoint-statistics", "soon", "3600.0"),
        write_page_token("endpoint-statistics", "1960-03-01T08:00:00+00:00", "3600.0"),
        write_page_token("endpoint-statistics", "2026-03-01T08:00:00+00:00", "-1"),
        write_page_token("endpoint-statistics", "2026-03-01T08:00:00+00:00", "nan"),
        write_page_token("endpoint-statistics", "2026-03-01T08:00:00+00:00", "1e400"),
        write_page_token("endpoint-statistics", "2026-03-01T08:00:00+00:00", "soon"),
    ],
)
def test_bad_tokens(bootstrapped: None, token: str) -> None:
    body = ALL | {"range-specifier": {"type": "page-token", "token": token}}
    assert ask(body).status == 400
    if token:
        assert ask(body).refused(400, "InvalidPaginationToken")


def test_the_first_and_the_last_window_have_neighbours(bootstrapped: None) -> None:
    for end in ("1970-01-01T00:00:00Z", "9000-01-01T00:00:00Z"):
        response = ask(ALL | {"range-specifier": {"type": "window", "end": end, "interval": "P3660D"}})
        assert response.status == 200, response.body


def test_a_response_has_the_newest_complete_hours_that_fit(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        at = EIGHT + timedelta(hours=number)
        record_calls(counted(4**number, at=at) | counted(2 * 4**number, at=at, status=404))

    def turned(body: dict[str, Any], token: str) -> dict[str, Any]:
        return ALL | {"range-specifier": {"type": "page-token", "token": ask(body).json()[token]}}

    for most, pages in (
        (8, [[1, 2, 4, 8, 16, 32, 64, 128], []]),
        (7, [[4, 8, 16, 32, 64, 128], [1, 2], []]),
        (6, [[4, 8, 16, 32, 64, 128], [1, 2], []]),
        (5, [[16, 32, 64, 128], [1, 2, 4, 8], []]),
        (2, [[64, 128], [16, 32], [4, 8], [1, 2], []]),
    ):
        monkeypatch.setattr(endpoint_statistics, "MAX_ENTRIES", most)
        body = ALL
        for page in pages:
            assert found(body) == page
            body = turned(body, "previous-page-token")
        assert found(turned(ALL, "next-page-token")) == []
    assert ask(ALL).json()["timestamps"] == ["2026-03-01T12:00:00+00:00"]


def test_an_hour_that_does_not_fit_is_refused(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    record_calls(counted(1) | counted(2, status=404) | counted(4, at=EIGHT - timedelta(hours=1)))
    monkeypatch.setattr(endpoint_statistics, "MAX_ENTRIES", 1)
    assert ask(ALL).refused(
        400, "BadRequestException", "The hour from 2026-03-01T08:00:00+00:00 has more than 1 entries"
    )
    assert found(ALL | {"status-codes": [404]}) == [2]


def test_rights_are_those_of_the_project_or_the_warehouse(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, project = f"warehouse:{warehouse.pk}", f"project:{DEFAULT_PROJECT}"
    of_warehouse = ALL | {"warehouse": {"type": "warehouse-id", "id": str(warehouse.pk)}}
    of_nothing = ALL | {"warehouse": {"type": "warehouse-id", "id": NO_ONE}}
    unmapped = ALL | {"warehouse": {"type": "unmapped"}}
    for granted, statuses in (
        ((), [403, 403, 404]),
        (((Can.USE, here),), [403, 403, 403]),
        (((Can.GET_ENDPOINT_STATISTICS, here),), [403, 403, 200]),
        (((Can.GET_ENDPOINT_STATISTICS, project),), [200, 200, 404]),
    ):
        monkeypatch.setattr("tenancy.authz.port.authorizer", lambda granted=granted: Listed(*granted))
        responses = [ask(body) for body in (ALL, unmapped, of_warehouse)]
        assert [response.status for response in responses] == statuses
        types = [response.error["type"] for response in responses if response.status == 403]
        assert types == [f"{kind}ActionForbidden" for kind in ("Project", "Project", "Warehouse")][: len(types)]
        if statuses[-1] == 404:
            assert reported(responses[-1], warehouse.pk) == reported(ask(of_nothing), NO_ONE)


class Listed(port.AllowAll):
    """Allow only the listed actions, each on one object."""

    def __init__(self, *granted: tuple[Can, str]) -> None:
        self.granted = granted

    def decide(self, actor: Actor, questions: Sequence[port.PermissionCheck]) -> list[bool]:
        return [(action, f"{kind}:{object_id}") in self.granted for action, (kind, object_id) in questions]
