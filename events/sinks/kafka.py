"""Delivery of events to Kafka by librdkafka, in the binary content mode of CloudEvents."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from events.cloud_events import CloudEvent
from events.sinks.port import DeliveryError, EventRejected, Sink

CONTENT_TYPE_HEADER: Final = ("content-type", b"application/json")
POLL_SECONDS: Final = 0.1
MIN_SECONDS: Final = 3.0
"""Minimum timeout of a sink: librdkafka looks for messages that are too old once a second."""
SPARE_SECONDS: Final = 1.5
"""Time before the sink's timeout at which librdkafka ends a message, so that its report still arrives in time."""
MAX_PURGE_SECONDS: Final = 1.0

DEFAULTS: Final[Mapping[str, str]] = {
    "enable.idempotence": "true",
    "acks": "all",
    "client.id": "icekeeper",
    "reconnect.backoff.max.ms": "1000",
    "allow.auto.create.topics": "true",
    "log.connection.close": "false",
    "linger.ms": "1",
    "enable.metrics.push": "false",
}
"""Settings of the producer that the operator may override."""

WITHOUT_IDEMPOTENCE: Final[Mapping[str, str]] = {"max.in.flight": "1"}
"""Keeps the order of each key if the operator disables `enable.idempotence`, which some brokers do not permit."""

REJECTIONS: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})
"""Errors of one message, which would also fail again."""
UNUSABLE: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001 - its names
"""Errors of connections that retries within one delivery do not resolve."""


@dataclass(frozen=True, kw_only=True)
class KafkaTarget:
    """Where events are published. `settings` are those of librdkafka, `secrets` the values that are never shown;
    `check_addresses` is called before a producer is created, and raises `DeliveryError`.
    """

    topic: str
    timeout: float
    settings: Mapping[str, str] = field(repr=False)
    secrets: Sequence[str] = field(default=(), repr=False)
    check_addresses: Callable[[], None] = field(default=lambda: None, repr=False)


class KafkaSink(Sink):
    """Publishes each event with the id of its object as the key: events of one object are in one partition, in order.

    The idempotent producer is kept after failed deliveries. librdkafka itself ends each message before the timeout, and
    then raises the epoch of the producer: the broker rejects what still arrives from before, so a late message cannot
    be written after later events of its key. A new producer would have another id, without this protection; it is
    created only after a fatal error, or when messages had to be purged.
    """

    def __init__(self, target: KafkaTarget) -> None:
        self._target = target
        self._timeout = max(target.timeout, MIN_SECONDS)
        self._producer: Producer | None = None
        self._connection_error: KafkaError | None = None
        self._must_replace = False

    def send(self, events: Sequence[CloudEvent]) -> dict[int, DeliveryError]:
        if not events:
            return {}
        until = time.monotonic() + self._timeout
        self._connection_error = None
        try:
            producer = self._open()
            errors = self._deliver(producer, dict(enumerate(events)), until)
            if len(events) > 1:
                # A broker rejects a batch that is too large; each of its messages may be small enough.
                for index in [each for each, error in errors.items() if _is_too_large(error)]:
                    del errors[index]
                    errors |= self._deliver(producer, {index: events[index]}, until)
        except KafkaException as error:
            self._must_replace = True
            raise DeliveryError(f"Kafka: {self._text(error.args[0])}") from None
        finally:
            if self._must_replace:
                self.close()
        found = {index: self._delivery_error(error) for index, error in errors.items()}
        if len(found) == len(events) and not any(isinstance(each, EventRejected) for each in found.values()):
            raise DeliveryError(str(found[0]))
        return found

    def close(self) -> None:
        producer, self._producer, self._must_replace = self._producer, None, False
        if producer is not None:
            producer.purge()
            producer.flush(MAX_PURGE_SECONDS)

    def _open(self) -> Producer:
        if self._producer is None:
            self._target.check_addresses()
            milliseconds = int((self._timeout - SPARE_SECONDS) * 1000)
            own = {
                "message.timeout.ms": milliseconds,
                "socket.timeout.ms": milliseconds,
                "socket.connection.setup.timeout.ms": max(1000, milliseconds),
                "topic.metadata.propagation.max.ms": milliseconds // 2,
                "delivery.report.only.error": False,
                "error_cb": self._note_connection_error,
                "logger": _NoLog(),
            }
            given = self._target.settings
            is_idempotent = given.get("enable.idempotence", "true").strip().lower() == "true"
            in_order = {} if is_idempotent else WITHOUT_IDEMPOTENCE
            try:
                self._producer = Producer({**DEFAULTS, **given, **in_order, **own})
            except (KafkaException, ValueError, TypeError) as error:
                raise DeliveryError(f"Kafka rejects the settings: {self._text(error.args[0])}") from None
        return self._producer

    def _deliver(
        self, producer: Producer, events: Mapping[int, CloudEvent], until: float
    ) -> dict[int, KafkaError | None]:
        """Publish events by index; return the error of each one that was not acknowledged, None without a report."""
        reports: dict[int, KafkaError | None] = {}
        for index, event in events.items():
            self._produce(producer, event, partial(_note_report, reports, index), until)
        while len(reports) < len(events) and time.monotonic() < until and not self._is_unusable:
            producer.poll(POLL_SECONDS)
        errors = {index: error for index, error in reports.items() if error is not None}
        missing = {index: None for index in events if index not in reports}
        self._must_replace |= bool(missing)
        return errors | missing

    def _produce(self, producer: Producer, event: CloudEvent, report: Callable[..., None], until: float) -> None:
        """Enqueue an event; wait while the queue is full. An event that cannot be enqueued is reported."""
        while True:
            try:
                producer.produce(
                    self._target.topic,
                    value=event.data,
                    key=event.key.encode("utf-8", "surrogatepass"),
                    headers=headers_of(event),
                    on_delivery=report,
                )
            except BufferError:
                if time.monotonic() >= until or self._is_unusable:
                    return
                producer.poll(POLL_SECONDS)
            except KafkaException as error:
                if error.args[0].code() not in REJECTIONS:
                    raise
                report(error.args[0], None)
                return
            else:
                producer.poll(0)
                return

    @property
    def _is_unusable(self) -> bool:
        error = self._connection_error
        return error is not None and (error.fatal() or error.code() in UNUSABLE)

    def _note_connection_error(self, error: KafkaError) -> None:
        """Keep the most useful error: a rejected password instead of the closed connections that follow."""
        if not self._is_unusable and error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - its name
            self._connection_error = error

    def _delivery_error(self, error: KafkaError | None) -> DeliveryError:
        if error is not None and error.code() in REJECTIONS:
            return EventRejected(f"Kafka: {self._text(error)}")
        if self._connection_error is not None:
            return DeliveryError(f"Kafka: {self._text(self._connection_error)}")
        if error is None or error.code() == KafkaError._MSG_TIMED_OUT:  # noqa: SLF001 - its name
            return DeliveryError(f"Kafka did not acknowledge the event within {self._timeout:g} s")
        return DeliveryError(f"Kafka: {self._text(error)}")

    def _text(self, error: object) -> str:
        """Return the text of an error without the values of secret settings."""
        text = error.str() if isinstance(error, KafkaError) else str(error)
        for secret in sorted(self._target.secrets, key=len, reverse=True):
            if secret:
                text = text.replace(secret, "********")
        return text


def headers_of(event: CloudEvent) -> list[tuple[str, str | bytes | None]]:
    """Return the headers of the Kafka protocol binding: each attribute as `ce_<name>`, in UTF-8."""
    attributes = event.attributes.items()
    named: list[tuple[str, str | bytes | None]] = [
        (f"ce_{name}", str(value).encode("utf-8", "surrogatepass"))
        for name, value in attributes
        if name != "datacontenttype"
    ]
    return [*named, CONTENT_TYPE_HEADER]


def _note_report(
    reports: dict[int, KafkaError | None], index: int, error: KafkaError | None, _message: Message | None
) -> None:
    reports[index] = error


def _is_too_large(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE


class _NoLog:
    """A logger of librdkafka that logs nothing: what matters is in the errors of deliveries."""

    def log(self, *_: Any) -> None:
        pass
