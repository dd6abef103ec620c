"""Events for tests, and a sink that keeps what it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from django.db import connection

from events.cloud_events import CloudEvent
from events.delivery.dispatcher import Dispatcher
from events.models import EventSink
from events.sinks.port import DeliveryError, EventRejected, Sink
from tenancy.actor import INTERNAL, Actor
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import OutboxEvent, OutboxState

SERVER_ID = UUID("01999999-0000-7000-8000-000000000001")


def update(*subjects: str, warehouse: UUID | None = None, project: str = "p", actor: Actor = INTERNAL) -> None:
    """Write an event for each subject, in one transaction."""
    with change(actor) as tx:
        for subject in subjects:
            tx.record(
                Change.TABLE_UPDATED,
                subject=subject,
                project=project,
                warehouse=warehouse,
                levels=["a", "b", subject],
                data={"of": subject},
            )


def newest_position() -> int:
    return OutboxEvent.objects.order_by("-position").values_list("position", flat=True)[0]


def number_events_after(position: int) -> None:
    """Let the next event have the position after this one, which no event has, for tests that show positions."""
    statement = "UPDATE sqlite_sequence SET seq = %s WHERE name = 'tenancy_outboxevent'"
    if connection.vendor == "postgresql":
        statement = "SELECT setval(pg_get_serial_sequence('tenancy_outboxevent', 'position'), %s + 1, false)"
    with connection.cursor() as cursor:
        cursor.execute(statement, [position])


def publish_everything() -> int:
    """Publish all events, as a worker does outside of the transaction of a test; return the newest position."""
    newest = newest_position()
    OutboxState.objects.update_or_create(pk=OutboxState.ONLY, defaults={"published_through": newest})
    return newest


class SinkInMemory(Sink):
    """Keeps acknowledged events. `respond` returns the error of an event, or None."""

    def __init__(self, respond: Callable[[CloudEvent], DeliveryError | None], *, keeps_order: bool) -> None:
        self.keeps_order = keeps_order
        self.received: list[CloudEvent] = []
        self.sends: list[int] = []
        self.is_closed = False
        self._respond = respond

    def send(self, events: Sequence[CloudEvent]) -> Mapping[int, DeliveryError]:
        self.sends.append(len(events))
        errors: dict[int, DeliveryError] = {}
        for index, event in enumerate(events):
            has_failed = any(not isinstance(error, EventRejected) for error in errors.values())
            error = DeliveryError("not sent") if has_failed and self.keeps_order else self._respond(event)
            if error is None:
                self.received.append(event)
            else:
                errors[index] = error
        return errors

    def close(self) -> None:
        self.is_closed = True

    def numbers(self, key: str) -> list[int]:
        """Return the sequence numbers of the received events of an object."""
        return [int(each.attributes["objectsequence"]) for each in self.received if each.key == key]


def accept(_: CloudEvent) -> None:
    return None


def dispatcher(
    sink: Sink | Callable[[EventSink], Sink],
    *,
    from_settings: Sequence[str] = (),
    is_paused: Callable[[], bool] = lambda: False,
    delete_old_events: Callable[[], object] = lambda: None,
) -> Dispatcher:
    """Return a dispatcher that has not started, for which each sink of the database is `sink`."""
    return Dispatcher(
        server_id=lambda: SERVER_ID,
        open_sink=sink if not isinstance(sink, Sink) else lambda _: sink,
        from_settings=from_settings,
        create_rows=lambda: None,
        delete_old_events=delete_old_events,
        is_paused=is_paused,
    )
