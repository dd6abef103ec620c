"""The API that controls the deliveries of event sinks: pause, resume, replay, skip, test, and dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models.functions import Now

from events.cloud_events import CloudEvent
from events.models import DeadLetter, EventSink
from events.services import sinks as services
from events.sinks.port import DeliveryError, EventRejected
from tenancy.models import AuditRecord, OutboxEvent, OutboxState
from tests.events.event_fixtures import SinkInMemory, accept, dispatcher, publish_everything, update
from tests.harness.fingerprint import Fingerprint
from tests.management.event_sink_fixtures import api, create_sink, read_sink

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped"), pytest.mark.both_databases]

Everything = Callable[[], Fingerprint]


def post(sink: dict[str, Any], action: str, body: Any = None) -> Any:
    """Send a request that succeeds, and return the body of its response."""
    response = (
        api.post(f"/{sink['id']}/{action}", body) if body is not None else api.post(f"/{sink['id']}/{action}", raw=b"")
    )
    assert response.status in {200, 204}, response.body
    return response.json() if response.body else None


def recorded() -> list[tuple[str, dict[str, Any]]]:
    """Return the audit records of sinks after their creation, with their details but the name."""
    rows = AuditRecord.objects.filter(object_type="event-sink").order_by("at", "id").values_list("event", "details")
    read = [(event, json.loads(details)) for event, details in rows]
    return [(event, {k: v for k, v in details.items() if k != "named"}) for event, details in read][1:]


def deliver(receiver: SinkInMemory) -> list[str]:
    """Deliver as a worker does, and return the ids of the objects of the events that arrived this time."""
    publish_everything()
    before = len(receiver.received)
    dispatcher(receiver).run_once()
    EventSink.objects.update(leased_until=None)
    return [each.key for each in receiver.received[before:]]


def in_memory(respond: Callable[[CloudEvent], DeliveryError | None] = accept) -> SinkInMemory:
    return SinkInMemory(respond, keeps_order=True)


def reject(*keys: str) -> Callable[[CloudEvent], DeliveryError | None]:
    return lambda event: EventRejected("the webhook responded with status 400") if event.key in keys else None


TABLES = {"types": ["updateTable"]}


# --- pause and resume -------------------------------------------------------------------------------------------------


def test_a_paused_sink_gets_nothing_until_it_is_resumed() -> None:
    sink, receiver = create_sink(filter=TABLES), in_memory()
    post(sink, "pause")
    update("a")
    assert deliver(receiver) == []
    assert read_sink(sink)["delivery"]["status"] == "paused"
    post(sink, "resume")
    assert deliver(receiver) == ["a"]
    assert recorded() == [("event-sink.paused", {}), ("event-sink.resumed", {})]


def test_pause_and_resume_of_what_is_so_already_change_nothing(everything: Everything) -> None:
    running, paused = create_sink("running"), create_sink("paused", is_paused=True)
    before = everything()
    post(running, "resume")
    post(paused, "pause")
    assert everything() == before


def test_resume_ends_the_wait_after_failures() -> None:
    sink = create_sink(filter=TABLES)
    update("a")
    assert deliver(in_memory(lambda _: DeliveryError("down"))) == []
    failing = read_sink(sink)["delivery"]
    assert (failing["failures"], failing["last-error"]) == (1, "down")
    assert failing["retry-at"] > failing["last-error-at"]
    EventSink.objects.update(leased_until=Now(), lease=7)
    post(sink, "resume")
    row = EventSink.objects.get()
    assert (row.lease, row.retry_at, row.failures) == (8, None, 1)
    assert recorded() == []
    assert deliver(in_memory()) == ["a"]
    assert read_sink(sink)["delivery"]["failures"] == 0


# --- replay -----------------------------------------------------------------------------------------------------------


def test_events_are_delivered_again_from_a_position() -> None:
    sink, receiver = create_sink(filter=TABLES), in_memory()
    start = publish_everything()
    update("a", "b", "c")
    assert deliver(receiver) == ["a", "b", "c"]
    first = receiver.received[0]
    former = EventSink.objects.get().position
    assert post(sink, "replay", {"position": first.position}) == {"position": first.position}
    assert deliver(receiver) == ["b", "c"]
    assert receiver.received[3].structured == receiver.received[1].structured
    assert post(sink, "replay", {"from": "earliest"}) == {"position": 0}
    assert deliver(receiver) == ["a", "b", "c"]
    update("d")
    latest = publish_everything()
    assert post(sink, "replay", {"from": "latest"}) == {"position": latest}
    assert deliver(receiver) == []
    details = [details for event, details in recorded() if event == "event-sink.replayed"]
    assert details[0] == {"from_position": former, "to_position": first.position}
    assert start < first.position


def test_events_are_delivered_again_from_a_time() -> None:
    sink, receiver = create_sink(filter=TABLES), in_memory()
    update("a")
    update("b")
    position = publish_everything()
    deliver(receiver)
    OutboxEvent.objects.filter(position__lt=position).update(at="2026-01-01T00:00:00Z")
    OutboxEvent.objects.filter(position=position).update(at="2026-01-01T01:00:00Z")
    assert post(sink, "replay", {"time": "2026-01-01T02:00:00+01:00"}) == {"position": position - 1}
    assert deliver(receiver) == ["b"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "exactly one of position, time and from is required"),
        ({"position": 1, "time": "2026-01-01T00:00:00Z"}, "exactly one of"),
        ({"position": None}, "position"),
        ({"position": "1"}, "position"),
        ({"position": 0}, "position: must be from 1 to"),
        ({"position": 10**9}, "position: must be from 1 to"),
        ({"start": 1}, "start"),
        ([], ""),
    ],
)
def test_invalid_positions_change_nothing(body: Any, message: str, everything: Everything) -> None:
    sink = create_sink()
    OutboxState.objects.update_or_create(pk=1, defaults={"deleted_through": 1, "published_through": 5})
    before = everything()
    assert api.post(f"/{sink['id']}/replay", body).refused(400, "BadRequestException", message)
    assert everything() == before


# --- skip and test ----------------------------------------------------------------------------------------------------


def test_an_event_that_the_receiver_does_not_take_is_skipped() -> None:
    sink = create_sink(filter=TABLES, payload="summary")
    update("a", "b")
    assert deliver(in_memory(lambda _: DeliveryError("down"))) == []
    skipped = post(sink, "skip")
    assert skipped | {"event": None, "at": None} == {
        "position": skipped["position"],
        "event-id": skipped["event"]["id"],
        "type": "updateTable",
        "object-key": "table:a",
        "error": "Skipped by anonymous. Last error: down",
        "is-redelivered": False,
        "event": None,
        "at": None,
    }
    assert (skipped["event"]["subject"], skipped["event"]["data"]) == ("a", None)
    delivery = read_sink(sink)["delivery"]
    assert (delivery["failures"], delivery["dead-letters"], delivery["position"]) == (0, 1, skipped["position"])
    assert "retry-at" not in delivery
    assert deliver(in_memory()) == ["b"]
    assert recorded() == [("event-sink.event-skipped", {"position": skipped["position"], "event": skipped["event-id"]})]


def test_an_event_can_be_skipped_twice_after_a_replay() -> None:
    sink = create_sink(filter=TABLES)
    update("a")
    publish_everything()
    first = post(sink, "skip")
    post(sink, "replay", {"position": first["position"] - 1})
    second = post(sink, "skip")
    assert (second["position"], second["event-id"]) == (first["position"], first["event-id"])
    assert DeadLetter.objects.count() == 1


def test_without_an_event_nothing_is_skipped(everything: Everything) -> None:
    sink = create_sink(filter={"types": ["dropTable"]})
    update("a")
    publish_everything()
    before = everything()
    assert api.post(f"/{sink['id']}/skip").refused(409, "NoEventToSkip", "has no event to deliver")
    assert everything() == before


def test_an_event_that_was_delivered_meanwhile_is_not_skipped(
    monkeypatch: pytest.MonkeyPatch, everything: Everything
) -> None:
    sink = create_sink(filter=TABLES)
    update("a")
    newest = publish_everything()
    found = services._next_event

    def deliver_first(row: EventSink) -> CloudEvent:
        event = found(row)
        EventSink.objects.update(position=newest)
        return event

    monkeypatch.setattr(services, "_next_event", deliver_first)
    assert api.post(f"/{sink['id']}/skip").refused(409, "NoEventToSkip", "was delivered")
    assert not DeadLetter.objects.exists()


@pytest.mark.parametrize(
    ("error", "status"),
    [(None, 204), (DeliveryError("down"), 502), (EventRejected("the webhook responded with status 400"), 502)],
)
def test_a_test_event_is_sent_at_once(
    error: DeliveryError | None, status: int, monkeypatch: pytest.MonkeyPatch, everything: Everything
) -> None:
    receiver = in_memory(lambda _: error)
    monkeypatch.setattr("events.services.sinks.open_sink_of", lambda row: receiver)
    sink = create_sink(is_paused=True)
    before = everything()
    response = api.post(f"/{sink['id']}/test")
    assert response.status == status
    if error is None:
        assert [each.type for each in receiver.received] == ["testEventSink"]
    else:
        assert response.refused(502, "EventNotDelivered", f"The test event was not delivered: {error}")
    assert receiver.is_closed
    assert everything() == before


# --- dead letters -----------------------------------------------------------------------------------------------------


def letters(sink: dict[str, Any], query: str = "") -> Any:
    response = api.get(f"/{sink['id']}/dead-letters{query}")
    assert response.status == 200, response.body
    return response.json()


@pytest.fixture
def rejecting() -> dict[str, Any]:
    """A sink whose receiver rejected the events of b and c."""
    sink = create_sink(filter=TABLES)
    update("a", "b", "c", "d")
    assert deliver(in_memory(reject("b", "c"))) == ["a", "d"]
    return sink


def test_rejected_events_are_listed_in_pages(rejecting: dict[str, Any]) -> None:
    found = letters(rejecting)["dead-letters"]
    assert [each["object-key"] for each in found] == ["table:b", "table:c"]
    assert found[0] | {"at": None, "event-id": None, "position": None} == {
        "position": None,
        "event-id": None,
        "type": "updateTable",
        "object-key": "table:b",
        "error": "the webhook responded with status 400",
        "at": None,
        "is-redelivered": False,
    }
    first = letters(rejecting, "?pageSize=1")
    assert first["dead-letters"] == found[:1]
    second = letters(rejecting, f"?pageSize=1&pageToken={first['next-page-token']}")
    assert second == {"dead-letters": found[1:]}
    own = f"/{rejecting['id']}/dead-letters"
    details = api.get(f"{own}/{found[0]['position']}").json()
    assert details == found[0] | {"event": details["event"]}
    assert (details["event"]["subject"], details["event"]["data"]) == ("b", {"of": "b"})
    for other in ("x", "0", "9" * 18, "9" * 19, "-1", "1.0"):
        assert api.get(f"{own}/{other}").refused(404, "DeadLetterNotFound", other)
    for query in ("?pageToken=x", "?pageSize=0"):
        assert api.get(f"{own}{query}").status == 400
    other_sink = create_sink("other")
    token = first["next-page-token"]
    assert api.get(f"/{other_sink['id']}/dead-letters?pageToken={token}").refused(400, "InvalidPaginationToken")


def test_dead_letters_are_redelivered(rejecting: dict[str, Any]) -> None:
    first, second = (each["position"] for each in letters(rejecting)["dead-letters"])
    assert post(rejecting, "dead-letters/redeliver", {"positions": [second, second + 1000]}) == {"count": 1}
    assert [each["is-redelivered"] for each in letters(rejecting)["dead-letters"]] == [False, True]
    assert deliver(in_memory()) == ["c"]
    assert [each["position"] for each in letters(rejecting)["dead-letters"]] == [first]
    assert post(rejecting, "dead-letters/redeliver", {}) == {"count": 1}
    assert deliver(in_memory(reject("b"))) == []
    assert [each["is-redelivered"] for each in letters(rejecting)["dead-letters"]] == [False]
    assert post(rejecting, "dead-letters/redeliver") == {"count": 1}
    assert deliver(in_memory()) == ["b"]
    assert letters(rejecting) == {"dead-letters": []}
    assert post(rejecting, "dead-letters/redeliver", {}) == {"count": 0}
    assert recorded() == [("event-sink.dead-letters-redelivered", {"number": 1})] * 3


def test_dead_letters_are_deleted(rejecting: dict[str, Any]) -> None:
    first, second = (each["position"] for each in letters(rejecting)["dead-letters"])
    assert post(rejecting, "dead-letters/delete", {"positions": []}) == {"count": 0}
    assert post(rejecting, "dead-letters/delete", {"positions": [first]}) == {"count": 1}
    assert [each["position"] for each in letters(rejecting)["dead-letters"]] == [second]
    assert post(rejecting, "dead-letters/delete", {}) == {"count": 1}
    assert letters(rejecting) == {"dead-letters": []}
    assert recorded() == [("event-sink.dead-letters-deleted", {"number": 1})] * 2
    assert deliver(in_memory()) == []


@pytest.mark.parametrize(
    "body", [{"positions": [-1]}, {"positions": ["1"]}, {"positions": [1] * 1001}, {"position": [1]}, {"positions": 1}]
)
def test_invalid_positions_of_dead_letters_change_nothing(
    body: dict[str, Any], rejecting: dict[str, Any], everything: Everything
) -> None:
    before = everything()
    for action in ("redeliver", "delete"):
        assert api.post(f"/{rejecting['id']}/dead-letters/{action}", body).refused(
            400, "BadRequestException", next(iter(body))
        )
    assert everything() == before
