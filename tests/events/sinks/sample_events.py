"""Events for tests of sinks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from events.cloud_events import CloudEvent
from events.sinks.port import DeliveryError, Sink

HARD_TEXT = 'naïve "50 %" \U0001f9ca\x1fx'
"""Text with everything that headers encode."""


def event(number: int, *, key: str | None = None, data: bytes = b'{"n":1}', **attributes: str | int) -> CloudEvent:
    standard: dict[str, str | int] = {
        "specversion": "1.0",
        "id": f"00000000-0000-7000-8000-{number:012d}",
        "source": "uri:iceberg-catalog-service:test",
        "type": "updateTable",
        "datacontenttype": "application/json",
        "tabular-id": key or f"key-{number}",
        "num-events": 1,
        "position": str(number),
    }
    return CloudEvent(number, key or f"key-{number}", standard | attributes, data)


def large_event(number: int, size: int) -> CloudEvent:
    """Return an event with `size` bytes of data."""
    return event(number, data=b'"' + b"x" * (size - 2) + b'"')


def send_failing(sink: Sink, events: Sequence[CloudEvent], *, seconds: float) -> str:
    """Send the events, none of which is delivered within `seconds`; return the messages of the errors."""
    started = monotonic()
    messages: set[str]
    try:
        errors = sink.send(events)
        assert set(errors) == set(range(len(events)))
        messages = {str(each) for each in errors.values()}
    except DeliveryError as error:
        messages = {str(error)}
    assert monotonic() - started < seconds
    return " | ".join(sorted(messages))


def send_until_delivered(sink: Sink, events: Sequence[CloudEvent], *, seconds: float) -> None:
    """Send the events until all are delivered."""
    until = monotonic() + seconds
    while True:
        with suppress(DeliveryError):
            if not sink.send(events):
                return
        assert monotonic() < until, "the events were not delivered in time"
