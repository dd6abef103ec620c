"""Deliveries to one sink: order, repetition after failures, dead letters, leases and gaps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from events.cloud_events import CloudEvent
from events.delivery import delivery as module
from events.delivery.delivery import Delivery
from events.delivery.leases import LEASE_SECONDS, Lease, LeaseLost, claim_sinks, extend_leases
from events.models import DeadLetter, EventSink
from events.publication import State
from events.sinks.port import DeliveryError, EventRejected, Sink
from icekeeper.kernel.ids import new_id
from tests.events.event_fixtures import SERVER_ID, SinkInMemory, accept, newest_position, update

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def published() -> State:
    newest = newest_position()
    return State(newest, 0, newest)


@pytest.fixture
def row() -> EventSink:
    update("before")
    return EventSink.objects.create(name="all", type="log", position=newest_position())


def claim() -> Lease:
    (lease,) = claim_sinks(from_settings=(), except_for=(), limit=10)
    return lease


def open_delivery(sink: Sink, lease: Lease | None = None) -> Delivery:
    return Delivery(lease or claim(), server_id=SERVER_ID, open_sink=lambda _: sink)


def deliver_all(delivery: Delivery) -> None:
    while delivery.deliver(published()):
        pass


def failing(*failing_times: tuple[str, int, DeliveryError]) -> Callable[[CloudEvent], DeliveryError | None]:
    """Return a response that fails for an object and a sequence number, each time once."""
    left = list(failing_times)

    def respond(event: CloudEvent) -> DeliveryError | None:
        for each in left:
            if (event.key, event.attributes.get("objectsequence", "0")) == (each[0], str(each[1])):
                left.remove(each)
                return each[2]
        return None

    return respond


@pytest.mark.parametrize("keeps_order", [True, False])
def test_events_are_delivered_in_the_order_of_each_object(row: EventSink, keeps_order: bool) -> None:
    update("a", "b", "a")
    update("b", "c", "a")
    sink = SinkInMemory(accept, keeps_order=keeps_order)
    deliver_all(open_delivery(sink))
    assert {key: sink.numbers(key) for key in "abc"} == {"a": [1, 2, 3], "b": [1, 2], "c": [1]}
    assert sink.sends == ([6] if keeps_order else [3, 2, 1]), "without order, one of each object at a time"
    row.refresh_from_db()
    assert (row.position, row.delivered, row.failures, row.last_error) == (newest_position(), 6, 0, "")
    assert row.last_delivery_at is not None
    assert json.loads(sink.received[0].data) == {"of": "a"}


def test_a_large_wave_is_sent_in_parts(row: EventSink) -> None:
    update(*[f"t{number}" for number in range(7)])
    sink = SinkInMemory(accept, keeps_order=False)
    sink.max_events = 3
    deliver_all(open_delivery(sink))
    assert sink.sends == [3, 3, 1]


@pytest.mark.parametrize("keeps_order", [True, False])
def test_a_failed_event_is_repeated_and_blocks_its_object(row: EventSink, keeps_order: bool) -> None:
    update("a", "b", "a", "b", "c")
    sink = SinkInMemory(failing(("b", 1, DeliveryError("no response"))), keeps_order=keeps_order)
    delivery = open_delivery(sink)
    assert not delivery.deliver(published())
    row.refresh_from_db()
    assert (row.failures, row.last_error) == (1, "no response")
    assert row.position == newest_position() - 4, "a was acknowledged, b is the next one"
    assert row.retry_at is not None
    assert row.delivered == 1
    assert not sink.is_closed, "an idempotent producer keeps its identity"
    assert delivery.retry_at > 0
    deliver_all(delivery)
    assert sink.numbers("b") == [1, 2]
    assert sink.numbers("a") == [1, 2], "position was recorded after it"
    assert set(sink.numbers("c")) == {1}
    row = EventSink.objects.get()
    assert (row.position, row.failures) == (newest_position(), 0)
    assert row.retry_at is None
    assert row.last_error == "no response", "it stays, with its time"


def test_a_receiver_that_cannot_be_reached(row: EventSink) -> None:
    update("a")

    class Unreachable(SinkInMemory):
        def send(self, events: object) -> dict[int, DeliveryError]:
            raise DeliveryError("cannot connect", retry_after=120)

    delivery = open_delivery(Unreachable(accept, keeps_order=True))
    for failures in (1, 2, 3):
        assert not delivery.deliver(published())
        row.refresh_from_db()
        assert (row.failures, row.position, row.last_error) == (failures, newest_position() - 1, "cannot connect")
        assert row.retry_at is not None
        assert row.last_error_at is not None
        assert timedelta(seconds=110) < row.retry_at - row.last_error_at < timedelta(seconds=130)


@pytest.mark.parametrize("keeps_order", [True, False])
def test_a_rejected_event_becomes_a_dead_letter(row: EventSink, keeps_order: bool) -> None:
    update("a", "b", "a")
    sink = SinkInMemory(failing(("a", 1, EventRejected("413 too large"))), keeps_order=keeps_order)
    deliver_all(open_delivery(sink))
    assert (sink.numbers("a"), sink.numbers("b")) == ([2], [1])
    letter = DeadLetter.objects.get()
    assert (letter.sink, letter.position, letter.error) == (row, newest_position() - 2, "413 too large")
    assert (letter.type, letter.object_key) == ("updateTable", "table:a")
    event = json.loads(letter.event)
    assert (event["data"], event["id"]) == ({"of": "a"}, str(letter.event_id))
    row.refresh_from_db()
    assert (row.position, row.delivered, row.failures) == (newest_position(), 2, 0)


def test_rejected_events_before_and_after_a_failure(row: EventSink) -> None:
    """Only what is recorded as done becomes a dead letter; the rest is tried again."""
    update("a", "b", "c")
    rejected, lost = EventRejected("no"), DeliveryError("lost")
    sink = SinkInMemory(failing(("a", 1, rejected), ("b", 1, lost), ("c", 1, rejected)), keeps_order=False)
    delivery = open_delivery(sink)
    delivery.deliver(published())
    assert list(DeadLetter.objects.values_list("object_key", flat=True)) == ["table:a"]
    row.refresh_from_db()
    assert (row.position, row.delivered) == (newest_position() - 2, 0)
    deliver_all(delivery)
    assert (sink.numbers("b"), sink.numbers("c")) == ([1], [1])
    assert DeadLetter.objects.count() == 1


def test_too_many_dead_letters_stop_the_delivery(row: EventSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DEAD_LETTERS", 2)
    sink = SinkInMemory(lambda _: EventRejected("no"), keeps_order=True)
    delivery = open_delivery(sink)
    update("a", "b")
    deliver_all(delivery)
    update("c")
    assert not delivery.deliver(published())
    row.refresh_from_db()
    assert row.last_error == "2 events were rejected: deliver them again, or delete them"
    assert (row.position, sink.sends) == (newest_position() - 1, [2])
    DeadLetter.objects.all().delete()
    deliver_all(delivery)
    assert DeadLetter.objects.get().object_key == "table:c"


def test_filters_and_payload(row: EventSink) -> None:
    warehouse = new_id()
    EventSink.objects.update(filter={"warehouses": [str(warehouse)]}, payload="ids")
    update("hidden")
    update("shown", warehouse=warehouse)
    update("hidden too")
    sink = SinkInMemory(accept, keeps_order=True)
    deliver_all(open_delivery(sink))
    (event,) = sink.received
    assert (event.key, event.attributes["name"], event.data) == ("shown", "", b"null")
    row.refresh_from_db()
    assert (row.position, row.delivered) == (newest_position(), 1)


def test_events_that_were_deleted_before_are_reported(row: EventSink) -> None:
    update("a", "b", "c")
    newest = newest_position()
    sink = SinkInMemory(accept, keeps_order=False)
    delivery = open_delivery(sink)
    state = State(newest, newest - 1, newest)
    while delivery.deliver(state):
        pass
    gap, event = sink.received
    assert (gap.type, json.loads(gap.data)) == (
        "eventsDeleted",
        {"first-position": newest - 2, "last-position": newest - 1, "reason": "retention"},
    )
    assert event.key == "c"
    row.refresh_from_db()
    assert row.position == newest


def test_one_worker_at_a_time_delivers(row: EventSink) -> None:
    lease = claim()
    assert claim_sinks(from_settings=(), except_for=(), limit=10) == []
    EventSink.objects.update(leased_until=Now() - timedelta(seconds=1))
    other = claim()
    assert other == (lease.sink_id, lease.number + 1)
    assert extend_leases([lease, other]) == [lease]
    update("a")
    with pytest.raises(LeaseLost):
        open_delivery(SinkInMemory(accept, keeps_order=True), lease)
    sink = SinkInMemory(accept, keeps_order=True)
    deliver_all(open_delivery(sink, other))
    assert sink.numbers("a") == [1]


def test_a_worker_whose_sink_was_changed_sends_and_records_nothing(row: EventSink) -> None:
    sink = SinkInMemory(accept, keeps_order=True)
    delivery = open_delivery(sink)
    update("a")
    EventSink.objects.update(position=0, lease=row.lease + 10, leased_until=None)
    with pytest.raises(LeaseLost):
        delivery.deliver(published())
    delivery.close()
    row.refresh_from_db()
    assert (row.position, row.delivered, row.leased_until) == (0, 0, None)
    assert sink.sends == []


def test_a_worker_whose_sink_is_changed_while_it_sends_records_nothing(row: EventSink) -> None:
    def change_sink(_: CloudEvent) -> None:
        EventSink.objects.update(position=0, lease=row.lease + 10, leased_until=None)

    sink = SinkInMemory(change_sink, keeps_order=True)
    delivery = open_delivery(sink)
    update("a")
    with pytest.raises(LeaseLost):
        delivery.deliver(published())
    row.refresh_from_db()
    assert (row.position, row.delivered, row.leased_until) == (0, 0, None)
    assert sink.sends == [1]


def test_paused_sinks_and_sinks_of_other_settings_are_not_claimed(row: EventSink) -> None:
    EventSink.objects.update(is_paused=True)
    EventSink.objects.create(name="nats", type="nats", is_from_settings=True)
    assert claim_sinks(from_settings=("kafka",), except_for=(), limit=10) == []
    (lease,) = claim_sinks(from_settings=("nats",), except_for=(), limit=10)
    assert EventSink.objects.get(pk=lease.sink_id).name == "nats"
    assert claim_sinks(from_settings=("nats",), except_for=(lease.sink_id,), limit=10) == []


def test_a_released_sink_can_be_claimed_at_once(row: EventSink) -> None:
    delivery = open_delivery(SinkInMemory(accept, keeps_order=True))
    delivery.close()
    assert claim().number == 2


def test_the_lease_is_extended_before_a_slow_receiver_is_called(
    row: EventSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    update("a")
    sink = SinkInMemory(accept, keeps_order=True)
    delivery = open_delivery(sink)
    EventSink.objects.update(leased_until=Now() + timedelta(seconds=1))
    monkeypatch.setattr(delivery, "_leased_until", 0.0)
    deliver_all(delivery)
    row.refresh_from_db()
    assert row.leased_until is not None
    (at,) = EventSink.objects.annotate(now=Now()).values_list("now", flat=True)
    assert row.leased_until - at > timedelta(seconds=LEASE_SECONDS / 2)


def test_redelivered_dead_letters(row: EventSink) -> None:
    update("a", "b")
    rejecting = SinkInMemory(lambda _: EventRejected("no"), keeps_order=True)
    delivery = open_delivery(rejecting)
    deliver_all(delivery)
    delivery.close()
    DeadLetter.objects.update(is_redelivered=True)
    again = SinkInMemory(failing(("b", 1, EventRejected("still not"))), keeps_order=True)
    delivery = open_delivery(again)
    deliver_all(delivery)
    assert again.numbers("a") == [1]
    letter = DeadLetter.objects.get()
    assert (letter.object_key, letter.error, letter.is_redelivered) == ("table:b", "still not", False)
    DeadLetter.objects.update(is_redelivered=True)
    delivery.close()
    again = SinkInMemory(accept, keeps_order=True)
    deliver_all(open_delivery(again))
    (event,) = again.received
    assert (event.key, json.loads(event.data), event.position) == ("b", {"of": "b"}, letter.position)
    assert not DeadLetter.objects.exists()


def test_a_receiver_that_cannot_be_reached_for_dead_letters_gets_them_later(row: EventSink) -> None:
    update("a")
    delivery = open_delivery(SinkInMemory(lambda _: EventRejected("no"), keeps_order=True))
    deliver_all(delivery)
    delivery.close()
    DeadLetter.objects.update(is_redelivered=True)

    class FirstUnreachable(SinkInMemory):
        def send(self, events: Sequence[CloudEvent]) -> Mapping[int, DeliveryError]:
            self.sends.append(len(events))
            if len(self.sends) == 1:
                raise DeliveryError("cannot connect")
            return super().send(events)

    sink = FirstUnreachable(failing(("a", 1, DeliveryError("503"))), keeps_order=True)
    delivery = open_delivery(sink)
    for failures in (1, 2):
        assert not delivery.deliver(published())
        assert delivery.retry_at
        assert EventSink.objects.get().failures == failures
    deliver_all(delivery)
    assert (sink.numbers("a"), delivery.retry_at, EventSink.objects.get().failures) == ([1], 0.0, 0)
    assert not DeadLetter.objects.exists()


def test_progress_is_recorded_within_a_batch_and_a_pause_ends_it(
    row: EventSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECORD_SECONDS", -1)
    positions: list[int] = []

    def respond(event: CloudEvent) -> None:
        positions.append(EventSink.objects.get().position - row.position)
        if event.attributes["objectsequence"] == "4":
            EventSink.objects.update(is_paused=True, lease=row.lease + 10, leased_until=None)

    update(*["a"] * 6)
    sink = SinkInMemory(respond, keeps_order=False)
    delivery = open_delivery(sink)
    with pytest.raises(LeaseLost):
        delivery.deliver(published())
    assert positions == [0, 1, 2, 3]
    assert sink.numbers("a") == [1, 2, 3, 4]


def test_a_pause_is_noticed_while_no_progress_can_be_recorded(row: EventSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORD_SECONDS", -1)
    update("a", "a", "b", "c", "d")  # the second one of `a` is sent last

    def respond(event: CloudEvent) -> None:
        if event.key == "b":
            EventSink.objects.update(is_paused=True, lease=row.lease + 10, leased_until=None)

    sink = SinkInMemory(respond, keeps_order=False)
    sink.max_events = 1
    with pytest.raises(LeaseLost):
        open_delivery(sink).deliver(published())
    assert [each.key for each in sink.received] == ["a", "b"]


def test_a_stop_ends_a_batch_and_keeps_its_progress(row: EventSink) -> None:
    update(*["a"] * 5)

    def respond(event: CloudEvent) -> None:
        delivery.is_stopping = event.attributes["objectsequence"] == "3"

    sink = SinkInMemory(respond, keeps_order=False)
    delivery = open_delivery(sink)
    assert not delivery.deliver(published())
    delivery.close()
    row = EventSink.objects.get()
    assert (sink.numbers("a"), row.position, row.delivered) == ([1, 2, 3], newest_position() - 2, 3)
    assert row.leased_until is None
    deliver_all(open_delivery(again := SinkInMemory(accept, keeps_order=True)))
    assert again.numbers("a") == [4, 5]


def test_a_pause_after_a_failure_is_kept_by_the_next_worker(row: EventSink) -> None:
    update("a")
    delivery = open_delivery(SinkInMemory(lambda _: DeliveryError("busy", retry_after=100), keeps_order=True))
    deliver_all(delivery)
    delivery.close()
    assert 80 < open_delivery(SinkInMemory(accept, keeps_order=True)).retry_at - time.monotonic() < 101


def test_an_unexpected_error_is_a_failure(row: EventSink) -> None:
    update("a")

    def respond(_: CloudEvent) -> None:
        raise ZeroDivisionError("oh")

    delivery = open_delivery(SinkInMemory(respond, keeps_order=True))
    assert not delivery.deliver(published())
    row = EventSink.objects.get()
    assert (row.failures, row.last_error) == (1, "ZeroDivisionError: oh")


def test_a_gap_that_cannot_be_reported_is_reported_later(row: EventSink) -> None:
    update("a", "b")
    newest = newest_position()
    sink = SinkInMemory(failing(("eventsDeleted", 0, DeliveryError("lost"))), keeps_order=True)
    delivery = open_delivery(sink)
    state = State(newest, newest, newest)
    assert not delivery.deliver(state)
    while delivery.deliver(state):
        pass
    assert [each.type for each in sink.received] == ["eventsDeleted"]
