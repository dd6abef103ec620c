"""GET /management/v1/events: pages, cursors, filters, gaps, hostile queries."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from events import outbox
from events.cloud_events import Payload, cloud_event_of
from events.selectors import feed
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services.warehouse_changes import rename_warehouse
from tenancy.actor import INTERNAL
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import OutboxEvent, OutboxState
from tenancy.selectors.projects import server_id
from tests.events.event_fixtures import newest_position, update
from tests.events.feed_fixtures import api, create_role, delete_through, page, publish, read_all, subjects
from tests.harness.fingerprint import Fingerprint
from tests.harness.statement_counts import counting

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
W, X = new_id(), new_id()


@pytest.fixture
def start(bootstrapped: None) -> int:
    """The cursor before the events of a test."""
    update("first")
    return publish()


# --- pages -----------------------------------------------------------------------------------------------------------


def test_a_page_is_the_events_as_they_are_delivered(start: int) -> None:
    update("a", "b")
    publish()
    rows = outbox.read_batch(
        "default", after=start, through=start + 9, event_filter=outbox.EventFilter(), payload=Payload.FULL, limit=9
    ).events
    events = [json.loads(cloud_event_of(each, server_id=server_id()).structured) for each in rows]
    assert page(f"after={start}") == {"events": events, "next": str(newest_position()), "has-more": False}
    assert [each["data"] for each in events] == [{"of": "a"}, {"of": "b"}]
    assert page(f"after={newest_position()}") == {"events": [], "next": str(newest_position()), "has-more": False}


def test_pages_follow_each_other(start: int) -> None:
    names = [f"t{number}" for number in range(7)]
    update(*names)
    publish()
    found, after, sizes = list[str](), str(start), list[int]()
    while True:
        read = page(f"after={after}&limit=3")
        found += [each["subject"] for each in read["events"]]
        sizes.append(len(read["events"]))
        after = read["next"]
        assert read["has-more"] is (len(sizes) < 3)
        if not read["has-more"]:
            break
    assert (found, sizes) == (names, [3, 3, 1])


def test_the_default_start_is_the_oldest_event(start: int) -> None:
    everything = read_all()
    assert [int(each["position"]) for each in everything] == list(
        OutboxEvent.objects.order_by("position").values_list("position", flat=True)
    )
    assert read_all(after="0") == everything
    delete_through(int(everything[1]["position"]))
    assert read_all() == everything[2:]


def test_latest_is_the_cursor_of_now(start: int) -> None:
    update("a")
    assert page("after=latest") == {"events": [], "next": str(start), "has-more": False}, "it is not published"
    publish()
    assert page("after=latest") == {"events": [], "next": str(newest_position()), "has-more": False}


def test_events_are_shown_when_they_are_published(start: int) -> None:
    update("a")
    assert subjects(f"after={start}") == []
    publish()
    assert subjects(f"after={start}") == ["a"]


def test_since_starts_a_minute_before_a_time(start: int) -> None:
    update(*"abcdefghij")
    publish()
    at = now()
    for number, row in enumerate(OutboxEvent.objects.filter(position__gt=start).order_by("position")):
        OutboxEvent.objects.filter(pk=row.pk).update(at=at + timedelta(minutes=10 * number))
    OutboxEvent.objects.filter(public_id__in=["d", "e"]).delete()  # missing positions
    for minutes, expected in ((60, "ghij"), (50.5, "fghij"), (52, "ghij"), (41, "fghij"), (999, "")):
        since = (at + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
        assert "".join(subjects(f"since={since}")) == expected, minutes
    assert subjects("since=1970-01-01T00:00:00Z") == subjects("after=0")


def test_payloads(start: int) -> None:
    update("t", warehouse=W)
    publish()
    [full], [summary], [ids] = (page(f"after={start}&payload={each}")["events"] for each in ("full", "summary", "ids"))
    assert (full["data"], full["name"]) == ({"of": "t"}, "t")
    assert (summary["data"], summary["name"], summary["namespace"]) == (None, "t", "a\x1fb")
    assert (ids["data"], ids["name"], ids["namespace"]) == (None, "", "")
    assert full | {"data": None} == summary


def test_filters(start: int) -> None:
    update("in w", warehouse=W, project="p")
    create_role("r", project="q")
    with change(INTERNAL) as tx:
        tx.record(Change.ROLE_DELETED, subject="r", project="q")
    publish()
    for query, expected in (
        ("projectId=p", ["in w"]),
        ("projectId=q", ["r", "r"]),
        ("type=createRole", ["r"]),
        ("type=createRole&type=updateTable&type=createRole", ["in w", "r"]),
        ("type=createRole&projectId=p", []),
        ("objectId=r&type=deleteRole", ["r"]),
        ("objectId=none", []),
    ):
        assert subjects(f"after={start}&{query}") == expected, query
    assert subjects(f"after={start}", **{"x-project-id": "q"}) == ["r", "r"]
    assert subjects(f"after={start}&projectId=p", **{"x-project-id": "q"}) == ["in w"]


def test_filters_of_a_warehouse(warehouse: Warehouse) -> None:
    here, project = warehouse.pk, warehouse.project_id
    update("a", "b", warehouse=here, project=project)
    start = publish()
    update("c", warehouse=here, project=project)
    update("d", warehouse=X, project=project)
    publish()
    assert subjects(f"after={start}&warehouseId={here}") == ["c"]
    assert subjects(f"after={start}&warehouseId={here}", **{"x-project-id": "other"}) == ["c"]
    assert subjects(f"after={start}&warehouseId={here}&namespace=a") == ["c"]
    assert subjects(f"after={start}&warehouseId={here}&namespace=a%1Fb&projectId={project}") == ["c"]
    assert subjects(f"after={start}&warehouseId={here}&namespace=a%1Fc") == []
    assert api.get(f"?warehouseId={here}&projectId=other").refused(404, "NoSuchWarehouseException")
    rename_warehouse(actor=INTERNAL, warehouse_id=here, new_name="renamed")
    publish()
    renamed = page(f"after={start}&warehouseId={here}")["events"][-1]
    assert (renamed["type"], renamed["subject"], renamed["warehouse-id"]) == ("updateWarehouse", str(here), str(here))
    assert api.get(f"?warehouseId={X}").refused(404, "NoSuchWarehouseException", str(X))


def test_empty_pages_continue_for_a_while(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    update(*"abcdefgh")
    monkeypatch.setattr(outbox, "MAX_SCANNED", 2)
    publish()
    monkeypatch.setattr(feed, "monotonic", lambda: 0.0)
    assert subjects(f"after={start}&objectId=g") == ["g"]
    monkeypatch.setattr(feed, "monotonic", iter(range(100)).__next__)
    read = page(f"after={start}&objectId=g")
    assert read == {"events": [], "next": str(start + 2), "has-more": True}


def test_statements_of_a_page(start: int) -> None:
    update("a")
    publish()
    page()
    with counting() as counts:
        page(f"after={start}")
    assert counts == {"statements": 3}, "the state before and after, and the events"


def test_head_and_other_methods(start: int) -> None:
    response = api.head(f"?after={start}&wait=30")
    assert (response.status, response.headers["Content-Type"]) == (200, "application/json")
    assert api.post("").status == 405
    assert api.head("?after=x").status == 400


# --- events that were deleted ----------------------------------------------------------------------------------------


def test_a_consumer_that_was_away_gets_the_gap(start: int) -> None:
    update(*"abcd")
    publish()
    delete_through(start + 2)
    read = page(f"after={start}")
    gap, *events = read["events"]
    assert gap == {
        "specversion": "1.0", "id": gap["id"], "source": f"uri:iceberg-catalog-service:{server_id()}",
        "type": "eventsDeleted", "datacontenttype": "application/json", "position": str(start + 2),
        "data": {"first-position": start + 1, "last-position": start + 2, "reason": "retention"},
    }  # fmt: skip
    assert [each["subject"] for each in events] == ["c", "d"]
    assert page(f"after={start}")["events"][0] == gap
    assert page(f"after={start - 1}")["events"][0]["id"] != gap["id"]
    assert page(f"after={start}&limit=1") == {"events": [gap], "next": str(start + 2), "has-more": True}
    assert page(f"after={start}&limit=2")["events"] == [gap, events[0]]
    assert page(f"after={start}&type=createRole")["events"] == [gap]
    assert subjects(f"after={start + 2}") == ["c", "d"]


def test_events_that_are_deleted_during_a_read_are_reported(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    update(*"abcd")
    publish()
    read_batch = outbox.read_batch

    def delete_and_read(*args: Any, **options: Any) -> outbox.Batch:
        monkeypatch.setattr(feed, "read_batch", read_batch)
        delete_through(start + 2)
        return read_batch(*args, **options)

    monkeypatch.setattr(feed, "read_batch", delete_and_read)
    gap, *events = page(f"after={start}")["events"]
    assert gap["data"] == {"first-position": start + 1, "last-position": start + 2, "reason": "retention"}
    assert [each["subject"] for each in events] == ["c", "d"]


def test_all_events_were_deleted(start: int) -> None:
    delete_through(newest_position())
    assert page("") == {"events": [], "next": str(start), "has-more": False}
    [gap] = page(f"after={start - 1}")["events"]
    assert gap["type"] == "eventsDeleted"
    assert page(f"after={start}") == {"events": [], "next": str(start), "has-more": False}


# --- hostile queries -------------------------------------------------------------------------------------------------


def test_a_cursor_after_the_newest_event(start: int) -> None:
    text = f"{start + 1} is after the newest event ({start})"
    assert api.get(f"?after={start + 1}").refused(400, "UnknownEventCursor", text)
    assert api.get(f"?after={2**63 - 1}").refused(400, "UnknownEventCursor")
    assert page(f"after={start}")["events"] == []


def test_a_replica_that_lags_behind_knows_no_newer_cursor(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    update("a")
    newest = publish()
    OutboxState.objects.update(published_through=start)
    assert page(f"after={newest}") == {"events": [], "next": str(newest), "has-more": False}


LONG = "x" * 256
BAD_QUERIES = [
    "after=", "after=-1", "after=x", "after=1.5", "after=1e3", "after=%2B1", "after=0x1", "after=%D9%A3",
    "after=LATEST", f"after={2**63}", f"after={'9' * 4000}", "after=1&after=1", "after=%00",
    "after=1&since=2026-01-31T00:00:00Z",
    "since=", "since=yesterday", "since=2026-01-31", "since=2026-01-31T00:00:00", "since=9999-12-31T23:59:59-23:59",
    "limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=1&limit=1", "wait=31", "wait=-1", "wait=0.5",
    "wait=nan", "wait=1&wait=1", "warehouseId=x", f"warehouseId={W}&warehouseId={W}", "warehouseId=",
    "namespace=a", f"namespace=&warehouseId={W}", f"namespace=a%1F&warehouseId={W}", f"namespace=%1F&warehouseId={W}",
    "type=", "type=create_table", "type=createTable&type=x", f"type={LONG}", "type=eventsDeleted", "payload=all",
    "payload=", "objectId=", f"objectId={LONG}", "objectId=%ED%A0%80%00", "objectId=a&objectId=b", "projectId=",
    "foo=1", "warehouseid=1", "page=1", "%00=1",
]  # fmt: skip


@pytest.mark.parametrize("query", BAD_QUERIES)
def test_bad_queries(start: int, query: str, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    assert api.get(f"?{query}").refused(400, "BadRequestException")
    assert everything() == before


def test_an_unknown_type_names_the_list_of_types(start: int) -> None:
    message = "type: 'creatTable' is not a type of events: /api-docs/events/v1/asyncapi.json lists them"
    assert api.get("?type=creatTable").refused(400, "BadRequestException", message)


@pytest.mark.parametrize("cursor", ["-1", "x", "1.5", f"{2**63}", "latest", " ", "1,2"])
def test_bad_ids_of_last_events(start: int, cursor: str) -> None:
    headers = {"Last-Event-ID": cursor, "Accept": "text/event-stream"}
    assert api.get("", **headers).refused(400, "BadRequestException", "Last-Event-ID")


def test_bad_projects(start: int) -> None:
    for project in ("a%2Fb", "%27", "x" * 129):
        assert api.get(f"?projectId={project}").refused(400, "MalformedProjectID")


def test_hostile_names_come_through_as_text(start: int) -> None:
    names = ["quote\"'", "\u2028\n\r\nid: 7", "☃", "\ud800"]
    with change(INTERNAL) as tx:
        tx.record(Change.TABLE_CREATED, subject="t", project="p", levels=names, data={"a": "\u2028\n\nid: 7"})
    publish()
    [event] = page(f"after={start}")["events"]
    assert (event["name"], event["data"]) == ("?", {"a": "\u2028\n\nid: 7"})
    assert event["namespace"] == ".".join(names[:-1])
