"""Batches of events: filters, limits, and that nothing is skipped between two batches."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest

from events import outbox
from events.cloud_events import Payload, StoredEvent
from events.outbox import Batch, EventFilter, read_batch
from icekeeper.kernel.ids import new_id
from tenancy.actor import INTERNAL
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import OutboxEvent
from tests.events.event_fixtures import newest_position, update

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
W, X = new_id(), new_id()


@pytest.fixture(autouse=True)
def start() -> int:
    update("first")
    return newest_position()


def read(start: int, event_filter: EventFilter | None = None, *, limit: int = 100, payload: str = "full") -> Batch:
    return read_batch(
        "default",
        after=start,
        through=newest_position(),
        event_filter=event_filter or EventFilter(),
        payload=Payload(payload),
        limit=limit,
    )


def subjects(batch: Batch) -> list[str]:
    return [each.public_id for each in batch.events]


def test_all_columns(start: int) -> None:
    update("t", warehouse=W)
    (event,) = read(start).events
    assert event == StoredEvent(
        position=newest_position(), event_id=event.event_id, object_key="table:t", sequence=1, type="updateTable",
        time=event.time, public_id="t", names='["a", "b", "t"]', project_id="p", warehouse_id=str(W), actor="internal",
        assumed_role=None, request_id="", event_count=1, event_index=0, data='{"of":"t"}',
    )  # fmt: skip
    row = OutboxEvent.objects.get(position=event.position)
    assert (event.event_id, event.at) == (str(row.event_id), row.at)


@pytest.mark.parametrize("payload", ["full", "ids"])
@pytest.mark.parametrize(
    ("microsecond", "fraction"), [(0, "000000"), (1, "000001"), (1500, "001500"), (120_000, "120000")]
)
def test_ids_and_times_are_texts_of_one_format(start: int, microsecond: int, fraction: str, payload: str) -> None:
    update("t")
    time = datetime(2026, 1, 31, 13, 0, 0, microsecond, timezone(timedelta(hours=1)))
    low, high = UUID(int=10), UUID(int=2**128 - 1)
    OutboxEvent.objects.filter(position=newest_position()).update(
        event_id=low, at=time, warehouse_id=high, assumed_role=low
    )
    (event,) = read(start, payload=payload).events
    assert event.time == f"2026-01-31T12:00:00.{fraction}Z"
    assert event.at == time
    assert (event.event_id, event.warehouse_id, event.assumed_role) == (
        "00000000-0000-0000-0000-00000000000a",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "00000000-0000-0000-0000-00000000000a",
    )


def test_batches_continue_where_the_last_one_ended(start: int) -> None:
    names = [f"t{number}" for number in range(7)]
    update(*names)
    first = read(start, limit=3)
    second = read(first.through, limit=3)
    third = read(second.through, limit=3)
    assert subjects(first) + subjects(second) + subjects(third) == names
    assert third.through == newest_position()
    assert read(third.through) == Batch([], newest_position())


def test_filters(start: int) -> None:
    update("in w", "too", warehouse=W)
    update("in x", warehouse=X)
    update("elsewhere", project="q")
    with change(INTERNAL) as tx:
        tx.record(Change.ROLE_CREATED, subject="a", project="p", named="a")
        tx.record(Change.NAMESPACE_CREATED, subject="n", project="p", warehouse=W, levels=["a", "b"])
        tx.record(Change.NAMESPACE_CREATED, subject="m", project="p", warehouse=W, levels=["a", "b2"])
        tx.record(Change.NAMESPACE_CREATED, subject="o", project="p", warehouse=W, levels=['a", "b'])
    for event_filter, expected in (
        (EventFilter(warehouses=(W,)), ["in w", "too", "n", "m", "o"]),
        (EventFilter(warehouses=(W, X), types=("updateTable",)), ["in w", "too", "in x"]),
        (EventFilter(projects=("q",)), ["elsewhere"]),
        (EventFilter(projects=("p",), warehouses=(X,)), ["in x"]),
        (EventFilter(types=("createRole", "none")), ["a"]),
        (EventFilter(namespaces=(("a", "b"),), warehouses=(W,)), ["in w", "too", "n"]),
        (EventFilter(namespaces=(("a", "b"), ("a", "b2")), types=("createNamespace",)), ["n", "m"]),
        (EventFilter(namespaces=(('a", "b',),)), ["o"]),
        (EventFilter(namespaces=(("a",),)), ["in w", "too", "in x", "elsewhere", "n", "m"]),
        (EventFilter(objects=("too", "n")), ["too", "n"]),
        (EventFilter(warehouses=(new_id(),)), []),
    ):
        found = read(start, event_filter)
        assert subjects(found) == expected, event_filter
        assert found.through == newest_position()


def test_a_filter_without_an_index_compares_a_limited_number_of_events(
    start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_SCANNED", 3)
    update(*"abcdefg")
    rare, position, found, steps = EventFilter(objects=("f",)), start, list[str](), 0
    while position < newest_position():
        batch = read(position, rare)
        found += subjects(batch)
        assert position < batch.through <= position + 3
        position, steps = batch.through, steps + 1
    assert (found, steps) == (["f"], 3)


def test_data_of_a_batch_is_limited(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_BATCH_BYTES", 1000)
    with change(INTERNAL) as tx:
        for number in range(5):
            tx.record(Change.TABLE_UPDATED, subject=f"{number}", project="p", data={"text": "x" * 600})
    sizes, position = [], start
    while position < newest_position():
        batch = read(position)
        sizes.append(len(batch.events))
        position = batch.through
    assert sizes == [2, 2, 1]
    assert len(read(start, payload="summary").events) == 5


def test_an_event_can_have_more_data_than_its_share(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_BATCH_BYTES", 1000)
    texts = ["x" * size for size in (1, 600, 1)]
    with change(INTERNAL) as tx:
        for number, text in enumerate(texts):
            tx.record(Change.TABLE_UPDATED, subject=f"{number}", project="p", data={"text": text})
    for limit, expected in ((3, texts), (2, texts[:2]), (1, texts[:1])):
        batch = read(start, limit=limit)
        assert [json.loads(each.data or "")["text"] for each in batch.events] == expected
        assert batch.through == batch.events[-1].position


def test_data_are_read_only_for_the_full_payload(start: int) -> None:
    update("t")
    assert [json.loads(each.data or "") for each in read(start).events] == [{"of": "t"}]
    for payload in ("summary", "ids"):
        assert [each.data for each in read(start, payload=payload).events] == [None]
