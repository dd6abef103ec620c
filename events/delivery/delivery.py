"""Delivery of events to one sink: batches in the order of positions, the errors, and the progress.

An event counts as delivered when the receiver has acknowledged it, and progress is recorded after that: a crash repeats
events, and loses none. Events of one object are sent in their order, also when some are repeated.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID, uuid5

from django.db import DatabaseError, InterfaceError
from django.db.models.functions import Now

from events.cloud_events import CloudEvent, Payload, cloud_event_of, gap_event
from events.delivery.leases import (
    LEASE_SECONDS,
    Lease,
    LeaseLost,
    Progress,
    record_failure,
    record_progress,
    release_lease,
    require_lease,
)
from events.models import DeadLetter, EventSink, dead_letter_of
from events.outbox import read_batch
from events.publication import State
from events.sinks.port import DeliveryError, EventRejected, Sink
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import batches
from icekeeper.kernel.metrics import delivery_ended
from icekeeper.kernel.retry import backoff_seconds

BATCH_SIZE: Final = 500
"""Events that one batch has at most."""

MAX_DEAD_LETTERS: Final = 200
"""Dead letters of a sink, each of up to 1 MB; then the delivery stops until an administrator deletes them."""

FIRST_BACKOFF_SECONDS: Final = 1.0
MAX_BACKOFF_SECONDS: Final = 300.0
MAX_RETRY_AFTER_SECONDS: Final = 3600.0
SEND_MARGIN_SECONDS: Final = 75.0
"""Time that must be left of the lease before something is sent: a sink takes a minute at most."""
RECORD_SECONDS: Final = 1.0
"""Time after which progress is recorded within a batch, and the lease is checked."""

logger = logging.getLogger("icekeeper.events")

OpenSink = Callable[[EventSink], Sink]
"""Returns the connection for a row. Raises `DeliveryError` if its configuration or its secrets cannot be used."""


class Delivery:
    """The deliveries to one sink while this worker has the lease. One thread at a time uses it.

    Every method raises `LeaseLost` when another worker has the sink, or it was changed.
    """

    def __init__(self, lease: Lease, *, server_id: UUID, open_sink: OpenSink) -> None:
        self.lease = lease
        row = EventSink.objects.filter(pk=lease.sink_id, lease=lease.number).annotate(read_at=Now()).first()
        if row is None:
            raise LeaseLost
        self.name: Final = row.name
        self.position = row.position
        self.is_stopping = False
        """Whether the next part of a batch must not be sent."""
        self._row, self._server_id, self._open_sink = row, server_id, open_sink
        self._filter, self._payload = row.event_filter(), Payload(row.payload)
        self._sink: Sink | None = None
        self._failures = row.failures
        self._dead_letters = row.dead_letters.count()
        self._has_redelivered = False
        self._pending_since, self._lag_seconds = now(), 0.0
        pause = 0.0 if row.retry_at is None else max(0.0, (row.retry_at - row.read_at).total_seconds())
        self.retry_at = time.monotonic() + pause if pause else 0.0
        """When the next batch is due, on the monotonic clock."""
        self._recorded_at = time.monotonic()
        self.extend()

    def extend(self) -> None:
        """Note that the lease was extended just now."""
        self._leased_until = time.monotonic() + LEASE_SECONDS

    def deliver(self, state: State) -> bool:
        """Deliver one batch of the published events; return whether there is more to deliver at once.

        Nothing is sent after the lease has ended: a pause or another configuration takes effect within a second, or
        after the part of a batch that is being sent.
        """
        require_lease(self.lease)
        self._recorded_at = time.monotonic()
        try:
            self._deliver(state)
        except DeliveryError as error:
            self._fail(error, Progress(self.position))
        except (LeaseLost, DatabaseError, InterfaceError):
            raise
        except Exception as error:
            logger.exception("a delivery failed unexpectedly", extra={"sink": self.name})
            self._fail(DeliveryError(f"{type(error).__name__}: {error}"), Progress(self.position))
        return self.position < state.published and not self.retry_at and not self.is_stopping

    def close(self) -> None:
        """Close the connection and release the lease."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None
        release_lease(self.lease)

    def _deliver(self, state: State) -> None:
        self._redeliver()
        if self.position < state.deleted:
            self._report_gap(state.deleted)
            return
        batch = read_batch(
            "default",
            after=self.position,
            through=state.published,
            event_filter=self._filter,
            payload=self._payload,
            limit=BATCH_SIZE,
        )
        self._lag_seconds = 0.0
        if batch.events:
            self._require_few_dead_letters()
            self._pending_since = batch.events[0].at
            if batch.through < state.published:
                self._lag_seconds = (now() - batch.events[-1].at).total_seconds()
        events = [cloud_event_of(each, server_id=self._server_id, payload=self._payload) for each in batch.events]
        self._send(events, through=batch.through)

    def _send(self, events: Sequence[CloudEvent], *, through: int) -> None:
        """Send the events in their order and record how far they were acknowledged, about once a second."""
        sent = _SentEvents(events, self.position)
        for indexes in self._waves(events):
            if self.is_stopping or time.monotonic() - self._recorded_at > RECORD_SECONDS:
                require_lease(self.lease)  # also while the first event of the batch is not done
                self._recorded_at = time.monotonic()
                self._record(sent.take_progress())
            if self.is_stopping:
                return
            errors = self._connection().send([events[index] for index in indexes])
            failure = sent.add(indexes, errors, self._dead_letter)
            if failure is not None:
                self._fail(failure, sent.take_progress())
                return
        self._record(sent.take_progress(through))

    def _waves(self, events: Sequence[CloudEvent]) -> Iterator[Sequence[int]]:
        """Yield the indexes of events that may be sent together: of each object one at most, or all in their order."""
        if events:
            connection = self._connection()
            waves = [range(len(events))] if connection.keeps_order else self._one_of_each_object(events)
            for wave in waves:
                yield from batches(wave, connection.max_events)

    def _one_of_each_object(self, events: Sequence[CloudEvent]) -> list[list[int]]:
        waves: list[list[int]] = []
        counts: Counter[str] = Counter()
        for index, event in enumerate(events):
            wave = counts[event.key]
            counts[event.key] += 1
            if wave == len(waves):
                waves.append([])
            waves[wave].append(index)
        return waves

    def _connection(self) -> Sink:
        if self._sink is None:
            self._sink = self._open_sink(self._row)
        return self._sink

    def _record(self, progress: Progress) -> None:
        """Record progress, and extend the lease. Without any a statement is needed only after a failure or a while."""
        is_same = progress.position == self.position and not progress.dead_letters
        if is_same and not self._failures and self._leased_until - time.monotonic() > SEND_MARGIN_SECONDS:
            return
        record_progress(self.lease, progress)
        self.extend()
        self._recorded_at = time.monotonic()
        self._dead_letters += len(progress.dead_letters)
        if self._failures:
            logger.info("events are delivered again", extra={"sink": self.name})
        self.position, self._failures, self.retry_at = progress.position, 0, 0.0
        delivery_ended(self.name, delivered=progress.delivered, has_failed=False, lag_seconds=self._lag_seconds)

    def _fail(self, error: DeliveryError, progress: Progress) -> None:
        self._failures += 1
        pause = backoff_seconds(self._failures, first=FIRST_BACKOFF_SECONDS, limit=MAX_BACKOFF_SECONDS)
        if error.retry_after is not None:
            pause = max(pause, min(error.retry_after, MAX_RETRY_AFTER_SECONDS))
        if self._failures == 1:
            logger.warning("events are not delivered: %s", error, extra={"sink": self.name})
        record_failure(self.lease, progress, error=str(error), pause=pause)
        self.extend()
        self._dead_letters += len(progress.dead_letters)
        self.position, self.retry_at = progress.position, time.monotonic() + pause
        lag = (now() - self._pending_since).total_seconds()
        delivery_ended(self.name, delivered=progress.delivered, has_failed=True, lag_seconds=lag)

    def _report_gap(self, deleted: int) -> None:
        """Send an event that reports events that were deleted before they were delivered."""
        first = self.position + 1
        logger.error(
            "events were deleted before they were delivered",
            extra={"sink": self.name, "first_position": first, "last_position": deleted},
        )
        event = gap_event(uuid5(self._row.pk, f"{first}-{deleted}"), first, deleted, server_id=self._server_id)
        self._send([event], through=deleted)

    def _dead_letter(self, event: CloudEvent, error: EventRejected) -> DeadLetter:
        logger.error("event rejected: %s", error, extra={"sink": self.name, "position": event.position})
        return dead_letter_of(self._row.pk, event, str(error))

    def _redeliver(self) -> None:
        """Send the dead letters that an administrator wants to be sent again; delete those that are acknowledged.

        Only once for a lease: the request to send them ends the former one. Raises `DeliveryError` to repeat it.
        """
        if self._has_redelivered:
            return
        after = -1
        while True:
            waiting = self._row.dead_letters.filter(is_redelivered=True, position__gt=after).order_by("position")
            letter = waiting.first()
            if letter is None or self.is_stopping:
                break
            if time.monotonic() - self._recorded_at > RECORD_SECONDS:
                require_lease(self.lease)
                self._recorded_at = time.monotonic()
            after, error = letter.position, self._connection().send([letter.cloud_event()]).get(0)
            if error is None:
                letter.delete()
                self._dead_letters -= 1
            elif isinstance(error, EventRejected):
                DeadLetter.objects.filter(pk=letter.pk).update(is_redelivered=False, error=str(error), at=now())
            else:
                raise error
        self._has_redelivered = not self.is_stopping

    def _require_few_dead_letters(self) -> None:
        """Raise `DeliveryError` if the sink has too many dead letters."""
        if self._dead_letters >= MAX_DEAD_LETTERS:
            self._dead_letters = DeadLetter.objects.filter(sink=self._row.pk).count()
        if self._dead_letters >= MAX_DEAD_LETTERS:
            raise DeliveryError(f"{self._dead_letters} events were rejected: deliver them again, or delete them")


class _SentEvents:
    """Which events of a batch are done: acknowledged, or rejected."""

    def __init__(self, events: Sequence[CloudEvent], position: int) -> None:
        self._events, self._position = events, position
        self._done: set[int] = set()
        self._rejected: dict[int, DeadLetter] = {}
        self._recorded = 0
        """Number of events, from the first one, that earlier progress contains."""

    def add(
        self,
        indexes: Sequence[int],
        errors: Mapping[int, DeliveryError],
        dead_letter: Callable[[CloudEvent, EventRejected], DeadLetter],
    ) -> DeliveryError | None:
        """Note the result of the events `indexes`, with `errors` by number among them; return the first to repeat."""
        failure: DeliveryError | None = None
        for number, index in enumerate(indexes):
            error = errors.get(number)
            if isinstance(error, EventRejected):
                self._rejected[index] = dead_letter(self._events[index], error)
            if error is None or isinstance(error, EventRejected):
                self._done.add(index)
            elif failure is None:
                failure = error
        return failure

    def take_progress(self, through: int | None = None) -> Progress:
        """Return what is done since the last call: all events up to the first one that is not; `through` if all are."""
        end = self._recorded
        while end in self._done:
            end += 1
        new = range(self._recorded, end)
        letters = [self._rejected[index] for index in new if index in self._rejected]
        self._recorded = end
        if through is not None:
            self._position = through
        elif end < len(self._events):
            self._position = max(self._position, self._events[end].position - 1)
        elif self._events:
            self._position = self._events[-1].position
        return Progress(self._position, len(new) - len(letters), letters)
