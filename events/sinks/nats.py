"""Delivery of events to NATS: core NATS, or JetStream, which stores them and acknowledges each one."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.errors import APIError, NoStreamResponseError

from events.cloud_events import CloudEvent
from events.sinks.event_loop import EventLoopThread
from events.sinks.nats_connection import ConnectionLost, NatsConnection, NatsLogin
from events.sinks.port import DeliveryError, EventRejected, Sink

MESSAGE_ID_HEADER: Final = "Nats-Msg-Id"
"""JetStream stores one message of an id within the duplicate window of the stream (two minutes by default)."""
HEADER_BYTES: Final = len(f"NATS/1.0\r\n{MESSAGE_ID_HEADER}: \r\n\r\n")
TOO_LARGE_FOR_STREAM: Final = 10054
"""JetStream's error code of a message above the limit of its stream."""
MIN_SECONDS: Final = 0.01
SPARE_SECONDS: Final = 0.5
"""Time of the thread's own timeout beyond that of the delivery."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class NatsTarget:
    """Where events are published, and how to connect.

    `addresses` are URLs `nats://host:port` or `tls://host:port`. `login` and `tls` are called for each connection, so
    that renewed files are read; `check_address` is called before it, and raises `DeliveryError`.
    """

    addresses: Sequence[str]
    subject: str
    timeout: float
    jetstream: bool = False
    login: Callable[[], NatsLogin] = field(default=NatsLogin, repr=False)
    tls: Callable[[str], ssl.SSLContext | None] = field(default=lambda _: None, repr=False)
    check_address: Callable[[str], None] = field(default=lambda _: None, repr=False)


class NatsSink(Sink):
    """Publishes the JSON form of events to one subject.

    Core NATS acknowledges that a server has received the events, in order; whether anything subscribes is not known.
    JetStream acknowledges that each event is stored.

    After an error the connection is closed, and bytes that have not left this machine are discarded: otherwise events
    that were reported as failed could arrive after later ones.
    """

    def __init__(self, target: NatsTarget) -> None:
        self._target = target
        self.keeps_order = not target.jetstream
        self._thread: EventLoopThread | None = None
        self._connection: NatsConnection | None = None

    def send(self, events: Sequence[CloudEvent]) -> dict[int, DeliveryError]:
        timeout = self._target.timeout
        until = time.monotonic() + timeout
        publish = self._publish_stored if self._target.jetstream else self._publish
        try:
            connection = self._connection
            if connection is None or not connection.is_usable:
                connection = self._connect(until)
            return self._call(publish(connection, events, until), until)
        except TimeoutError:
            self._disconnect()
            raise DeliveryError(f"NATS did not respond within {timeout:g} s") from None
        except (ConnectionLost, NatsError, OSError) as error:
            self._disconnect()
            raise DeliveryError(f"NATS: {error}") from None
        except BaseException:
            self._disconnect()
            raise

    def close(self) -> None:
        self._disconnect()
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    def _connect(self, until: float) -> NatsConnection:
        """Connect to the first address that accepts it. Raises the error of the last one."""
        self._disconnect()
        target = self._target
        for number, address in enumerate(target.addresses, 1):
            try:
                target.check_address(address)
                opening = _open(address, target.login(), target.tls(address), until)
                self._connection = self._call(opening, until)
            except (ConnectionLost, TimeoutError, DeliveryError):
                if number == len(target.addresses) or _seconds_until(until) <= 0:
                    raise
            else:
                return self._connection
        raise DeliveryError("no address of a NATS server is configured")

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                self._call(connection.discard(), time.monotonic() + SPARE_SECONDS)

    def _call(self, coroutine: Coroutine[Any, Any, T], until: float) -> T:
        if self._thread is None:
            self._thread = EventLoopThread("nats-sink")
        return self._thread.call(coroutine, _seconds_until(until) + SPARE_SECONDS)

    async def _publish(
        self, connection: NatsConnection, events: Sequence[CloudEvent], until: float
    ) -> dict[int, DeliveryError]:
        """Publish the events in order and wait until the server has read them."""
        subject, errors = self._target.subject, _too_large(events, connection, 0)

        async def publish_all() -> None:
            for index, event in enumerate(events):
                if index not in errors:
                    await connection.client.publish(subject, event.structured)
            await connection.client.confirm()

        await connection.run(publish_all(), _seconds_until(until))
        return errors

    async def _publish_stored(
        self, connection: NatsConnection, events: Sequence[CloudEvent], until: float
    ) -> dict[int, DeliveryError]:
        """Publish the events and wait for the acknowledgement of each one."""
        errors = _too_large(events, connection, HEADER_BYTES)
        accepted = [index for index in range(len(events)) if index not in errors]
        stream = connection.client.jetstream()

        async def publish_one(event: CloudEvent) -> None:
            await stream.publish(
                self._target.subject,
                event.structured,
                timeout=_seconds_until(until),
                headers={MESSAGE_ID_HEADER: event.id},
            )

        async def publish_all() -> list[BaseException | None]:
            return await asyncio.gather(*(publish_one(events[each]) for each in accepted), return_exceptions=True)

        results = await connection.run(publish_all(), _seconds_until(until) + SPARE_SECONDS / 2)
        if any(isinstance(each, NatsTimeout) for each in results):
            await connection.discard()
        for index, result in zip(accepted, results, strict=True):
            if result is not None:
                errors[index] = self._stream_error(result)
        return errors

    def _stream_error(self, error: BaseException) -> DeliveryError:
        match error:
            case NoStreamResponseError():
                return DeliveryError(f"no stream of JetStream stores the subject {self._target.subject}")
            case NatsTimeout():
                return DeliveryError(f"JetStream did not acknowledge the event within {self._target.timeout:g} s")
            case APIError(err_code=code, description=text):
                kind = EventRejected if code == TOO_LARGE_FOR_STREAM else DeliveryError
                return kind(f"JetStream: {text or code}")
            case ValueError() | LookupError() | TypeError():
                return DeliveryError("the acknowledgement is not one of JetStream")
        return DeliveryError(f"JetStream: {type(error).__name__}")


async def _open(address: str, login: NatsLogin, tls: ssl.SSLContext | None, until: float) -> NatsConnection:
    connection = NatsConnection()
    try:
        await connection.open(address, login, tls=tls, timeout=max(_seconds_until(until), MIN_SECONDS))
    except BaseException:
        await connection.discard()
        raise
    return connection


def _too_large(events: Sequence[CloudEvent], connection: NatsConnection, header_bytes: int) -> dict[int, DeliveryError]:
    """Return the errors of events that are larger than a message may be; `header_bytes` without the id."""
    limit = connection.max_payload
    errors: dict[int, DeliveryError] = {}
    for index, event in enumerate(events):
        size = len(event.structured) + (header_bytes + len(event.id) if header_bytes else 0)
        if size > limit:
            errors[index] = EventRejected(f"the event has {size} bytes, and the NATS server accepts {limit}")
    return errors


def _seconds_until(until: float) -> float:
    return max(until - time.monotonic(), 0.0)
