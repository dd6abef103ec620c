"""The dispatcher of a worker: sinks do not delay each other, workers divide the sinks, a stop waits for a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

import pytest
from django.db import connections

from events.cloud_events import CloudEvent
from events.delivery import dispatcher as module
from events.delivery.dispatcher import Dispatcher
from events.models import EventSink
from events.sinks.port import DeliveryError, Sink
from tests.events.event_fixtures import SinkInMemory, accept, dispatcher, newest_position, update

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(module, "CLAIM_SECONDS", 0.1)


@contextmanager
def running(*dispatchers: Dispatcher) -> Iterator[None]:
    with ExitStack() as stack:
        for each in dispatchers:
            each.start()
            stack.callback(each.stop)
        yield
    connections.close_all()


def wait_until(is_true: Callable[[], bool], seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def create(*names: str) -> None:
    for name in names:
        EventSink.objects.create(name=name, type="log")


def delivered(name: str) -> bool:
    return EventSink.objects.get(name=name).position == newest_position()


def test_new_events_are_delivered() -> None:
    create("a")
    sink = SinkInMemory(accept, keeps_order=True)
    with running(dispatcher(sink)):
        for number in range(5):
            update("t")
            wait_until(lambda number=number: sink.numbers("t") == list(range(1, number + 2)))
    assert sink.is_closed
    assert EventSink.objects.get().leased_until is None, "another worker can continue at once"


def test_a_hanging_and_a_dead_receiver_delay_no_other_one() -> None:
    create("dead", "fine", "hanging")
    let_go = Event()

    def hang(_: CloudEvent) -> None:
        let_go.wait(30)

    sinks: dict[str, Sink] = {
        "dead": SinkInMemory(lambda _: DeliveryError("refused"), keeps_order=True),
        "fine": SinkInMemory(accept, keeps_order=False),
        "hanging": SinkInMemory(hang, keeps_order=True),
    }
    with running(dispatcher(lambda row: sinks[row.name])):
        for _ in range(3):
            update("t", "u")
            wait_until(lambda: delivered("fine"))
        assert not delivered("hanging")
        wait_until(lambda: EventSink.objects.get(name="dead").failures > 0)
        assert not delivered("dead")
        let_go.set()
        wait_until(lambda: delivered("hanging"))


def test_workers_divide_the_sinks_and_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SINKS", 2)
    create("a", "b", "c", "d")
    received = SinkInMemory(accept, keeps_order=True)
    first, second = dispatcher(received), dispatcher(received)
    with running(first):
        update("t")
        wait_until(lambda: EventSink.objects.filter(position=newest_position()).count() == 2)
        with running(second):
            wait_until(lambda: EventSink.objects.filter(position=newest_position()).count() == 4)
        update("t")
        wait_until(lambda: EventSink.objects.filter(position=newest_position()).count() == 2)
    monkeypatch.setattr(module, "MAX_SINKS", 4)
    with running(dispatcher(received)):
        wait_until(lambda: EventSink.objects.filter(position=newest_position()).count() == 4)
    assert len(received.received) == 8


def test_a_paused_sink_gets_nothing_until_it_continues() -> None:
    create("a")
    sink = SinkInMemory(accept, keeps_order=True)
    with running(dispatcher(sink)):
        update("t")
        wait_until(lambda: sink.numbers("t") == [1])
        EventSink.objects.update(is_paused=True, lease=100, leased_until=None)
        update("t")
        time.sleep(0.3)  # a batch that began before is sent, and not recorded
        before = len(sink.received)
        update("t")
        time.sleep(0.3)
        assert len(sink.received) == before
        EventSink.objects.update(is_paused=False)
        wait_until(lambda: delivered("a"))
    assert list(dict.fromkeys(sink.numbers("t"))) == [1, 2, 3]


def test_nothing_is_delivered_in_maintenance() -> None:
    create("a")
    update("t")
    sink = SinkInMemory(accept, keeps_order=True)
    paused = dispatcher(sink, is_paused=lambda: True)
    with running(paused):
        time.sleep(0.3)
    assert (sink.received, EventSink.objects.get().lease) == ([], 0)


def test_one_run_delivers_everything() -> None:
    create("a", "b")
    update(*[f"t{number}" for number in range(1200)])
    sink = SinkInMemory(accept, keeps_order=True)
    dispatcher(sink).run_once()
    assert (len(sink.received), sink.sends) == (2400, [500, 500, 200] * 2)
    dispatcher(sink).run_once()
    assert len(sink.received) == 2400


def test_old_events_are_deleted_after_many_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS_UNTIL_DELETION", 10)
    deletions: list[int] = []
    sink = SinkInMemory(accept, keeps_order=True)
    update("t")
    with running(dispatcher(sink, delete_old_events=lambda: deletions.append(newest_position()))):
        time.sleep(0.3)
        before = len(deletions)
        assert before <= 1, "positions of earlier tests count"
        update(*["t"] * 10)
        wait_until(lambda: len(deletions) == before + 1)
        update("t")
        time.sleep(0.3)
    assert len(deletions) == before + 1
