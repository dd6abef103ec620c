"""Receivers of events, which are interrupted like the other parts: NATS with a stream, Kafka, and a webhook."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self
from uuid import uuid4

import nats
import requests
from confluent_kafka import Consumer

from tests.parts.kafka import Kafka
from tests.parts.nats import Nats
from tests.parts.server import CatalogServer
from tests.parts.webhook_receiver import HANG, RESET, Received, Response, WebhookReceiver

SUBJECT, TOPIC, STREAM, HOOK = "lake.events", "lake-events", "LAKE", "hook"
FAILURE_RATE = 0.1
"""Share of the requests to the webhook that fail while faults are injected."""


class ReceivedEvent(NamedTuple):
    """What identifies an event, and its number among those of its object."""

    id: str
    object_key: str
    sequence: int


class Receivers:
    """NATS, a webhook, and with `has_kafka` also Kafka. A context manager.

    With `settings` a server and its workers deliver to NATS and Kafka; `create_webhook` adds the webhook by the API.
    """

    def __init__(self, home: Path, seed: int, *, has_kafka: bool) -> None:
        self.random = random.Random(f"{seed} receivers")
        self.nats = Nats(home / "nats")
        self.kafka = Kafka(home / "kafka") if has_kafka else None
        self.webhook = WebhookReceiver()
        self.is_failing = True
        self._accepted: list[Received] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._stack.enter_context(self.nats)
            self._stack.enter_context(self.webhook)
            self.webhook.respond = self._respond
            if self.kafka is not None:
                self._stack.enter_context(self.kafka)
            asyncio.run(self._create_stream())
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def settings(self) -> dict[str, str]:
        wanted = {
            "LAKEKEEPER__NATS_ADDRESS": self.nats.url,
            "LAKEKEEPER__NATS_TOPIC": SUBJECT,
            "ICEKEEPER__EVENTS__NATS_JETSTREAM": "true",
        }
        if self.kafka is not None:
            wanted |= {
                "LAKEKEEPER__KAFKA_TOPIC": TOPIC,
                "LAKEKEEPER__KAFKA_CONFIG": f'{{"bootstrap.servers"="{self.kafka.bootstrap}"}}',
            }
        return wanted

    @property
    def names(self) -> list[str]:
        """The names of the sinks."""
        return ["nats", HOOK, *(["kafka"] if self.kafka is not None else [])]

    def create_webhook(self, server: CatalogServer) -> None:
        body = {
            "name": HOOK,
            "configuration": {"type": "webhook", "url": self.webhook.url, "timeout-seconds": 2},
            "start": {"from": "earliest"},
        }
        response = requests.post(f"{server.base_url}/management/v1/event-sinks", json=body, timeout=20)
        assert response.status_code == 201, response.text

    def faults(self) -> dict[str, Callable[[], None]]:
        faults: dict[str, Callable[[], None]] = {
            "kill NATS": lambda: self._kill(self.nats),
            "NATS does not respond": lambda: self._suspend(self.nats),
        }
        if self.kafka is not None:
            kafka = self.kafka
            faults |= {
                "kill Kafka": lambda: self._kill(kafka),
                "Kafka does not respond": lambda: self._suspend(kafka),
            }
        return faults

    def calm(self) -> None:
        """Let the webhook accept everything from now on."""
        self.is_failing = False

    def received(self) -> dict[str, list[ReceivedEvent]]:
        """Return what each sink has received, in the order of arrival."""
        found = {
            "nats": [_event(document) for document in asyncio.run(self._read_stream())],
            HOOK: [_event(json.loads(each.body)) for each in self._accepted],
        }
        if self.kafka is not None:
            found["kafka"] = list(_read_topic(self.kafka))
        return found

    def _respond(self, request: Received) -> Response | str:
        if self.is_failing and self.random.random() < FAILURE_RATE:
            failures: list[Response | str] = [Response(503), Response(500), RESET, HANG]
            return self.random.choice(failures)
        self._accepted.append(request)
        return Response()

    def _kill(self, part: Nats | Kafka) -> None:
        part.kill()
        time.sleep(self.random.uniform(0, 2))
        part.start()

    def _suspend(self, part: Nats | Kafka) -> None:
        part.suspend()
        time.sleep(self.random.uniform(0.5, 6))
        part.resume()

    async def _create_stream(self) -> None:
        connection = await nats.connect(self.nats.url)
        await connection.jetstream().add_stream(name=STREAM, subjects=[SUBJECT])
        await connection.close()

    async def _read_stream(self) -> list[Any]:
        connection = await nats.connect(self.nats.url)
        subscription = await connection.jetstream().pull_subscribe(SUBJECT, stream=STREAM)
        documents: list[Any] = []
        try:
            while True:
                messages = await subscription.fetch(500, timeout=2)
                documents += [json.loads(message.data) for message in messages]
                for message in messages:
                    await message.ack()
        except TimeoutError:
            return documents
        finally:
            await connection.close()


def _read_topic(kafka: Kafka) -> Iterator[ReceivedEvent]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": str(uuid4()),
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
        }
    )
    consumer.subscribe([TOPIC])
    until = time.monotonic() + 10
    while time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None or message.error() is not None:
            continue
        until = time.monotonic() + 5
        headers = dict(message.headers() or ())
        yield ReceivedEvent(
            _text(headers["ce_id"]), _text(headers["ce_objectkey"]), int(_text(headers["ce_objectsequence"]))
        )
    consumer.close()


def _text(value: str | bytes | None) -> str:
    assert isinstance(value, bytes)
    return value.decode()


def _event(document: dict[str, Any]) -> ReceivedEvent:
    return ReceivedEvent(document["id"], document.get("objectkey", ""), int(document.get("objectsequence", 0)))
