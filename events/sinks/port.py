"""The port of sinks: where events are delivered to, and the errors of deliveries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from events.cloud_events import CloudEvent


class DeliveryError(Exception):
    """An event was not acknowledged and is sent again later. The message is for operators and contains no secrets.

    `retry_after` is the pause in seconds that the receiver requested, if it did.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EventRejected(DeliveryError):
    """The receiver can never accept this event, such as one that is too large: it becomes a dead letter."""


class Sink(ABC):
    """A connection to a receiver. One thread uses it at a time; connections are opened by the first `send`."""

    keeps_order: bool = False
    """Whether events of one `send` reach the receiver in their order, also if some of them fail. Otherwise one `send`
    has at most one event of each object."""

    max_events: int = 1000
    """Events of one `send` for which the sink's timeout is enough while the receiver works; more are allowed."""

    @abstractmethod
    def send(self, events: Sequence[CloudEvent]) -> Mapping[int, DeliveryError]:
        """Send the events; return the errors by index once each event was acknowledged or has failed.

        Takes at most the sink's timeout. Raises `DeliveryError` if the receiver cannot be reached at all: then none of
        the events counts as delivered.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections. Never raises."""
