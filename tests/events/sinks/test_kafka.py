"""Delivery to Kafka, with a real broker that works, hangs, dies and restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from events.sinks.definition import read_definition
from events.sinks.kafka import KafkaSink, KafkaTarget
from events.sinks.opening import open_sink
from events.sinks.port import DeliveryError, EventRejected
from tests.events.sinks.kafka_topic import create_topic, event_ids, read_topic
from tests.events.sinks.sample_events import HARD_TEXT, event, large_event, send_failing, send_until_delivered
from tests.parts.kafka import Kafka
from tests.parts.process import free_port
from tests.receiver_fixtures import KAFKA_PASSWORD, KAFKA_USER

pytestmark = [pytest.mark.part("kafka"), pytest.mark.timeout(300)]

TIMEOUT = 4.0
_numbers = count(1)


@pytest.fixture
def topic() -> str:
    return f"lake-{next(_numbers)}"


@pytest.fixture
def opened() -> Iterator[list[KafkaSink]]:
    sinks: list[KafkaSink] = []
    yield sinks
    for each in sinks:
        each.close()


def open_kafka(opened: list[KafkaSink], bootstrap: str, topic: str, **options: Any) -> KafkaSink:
    given = {"bootstrap.servers": bootstrap, **options.pop("settings", {})}
    sink = KafkaSink(KafkaTarget(topic=topic, timeout=TIMEOUT, settings=given, **options))
    opened.append(sink)
    return sink


def test_a_message_has_the_binary_form_of_the_event(kafka: Kafka, topic: str, opened: list[KafkaSink]) -> None:
    sink = open_kafka(opened, kafka.bootstrap, topic)
    sent = event(1, key="table-1", name=HARD_TEXT)
    assert sink.send([sent]) == {}
    assert sink.send([event(2, key="table-2", data=b"null")]) == {}
    first, second = read_topic(kafka.bootstrap, topic, key="table-2")
    assert (first.key(), first.value(), second.value()) == (b"table-1", b'{"n":1}', b"null")
    assert first.headers() == [
        ("ce_specversion", b"1.0"),
        ("ce_id", sent.id.encode()),
        ("ce_source", b"uri:iceberg-catalog-service:test"),
        ("ce_type", b"updateTable"),
        ("ce_tabular-id", b"table-1"),
        ("ce_num-events", b"1"),
        ("ce_position", b"1"),
        ("ce_name", HARD_TEXT.encode()),
        ("content-type", b"application/json"),
    ]
    assert not sink.keeps_order


def test_a_thousand_events_arrive_once_and_in_their_order(kafka: Kafka, topic: str, opened: list[KafkaSink]) -> None:
    sink = open_kafka(opened, kafka.bootstrap, topic)
    events = [large_event(number, 1000) for number in range(1000)]
    assert sink.send(events) == {}
    messages = read_topic(kafka.bootstrap, topic, key="key-999")
    assert [(each.key(), each.value()) for each in messages] == [(each.key.encode(), each.data) for each in events]


def test_an_event_that_is_too_large_is_rejected_alone(kafka: Kafka, topic: str, opened: list[KafkaSink]) -> None:
    """The last one is small, but in one batch with others that are together above the limit of the broker."""
    create_topic(kafka.bootstrap, topic, max_message_bytes="100000")
    sink = open_kafka(opened, kafka.bootstrap, topic, settings={"linger.ms": "100"})
    events = [
        large_event(1, 2_000_000),
        large_event(2, 150_000),
        *(large_event(number, 40_000) for number in (3, 4, 5)),
    ]
    errors = sink.send(events)
    assert {index: (type(error), str(error)) for index, error in errors.items()} == {
        0: (EventRejected, "Kafka: Unable to produce message: Broker: Message size too large"),
        1: (EventRejected, "Kafka: Broker: Message size too large"),
    }
    assert sink.send([event(6)]) == {}
    messages = read_topic(kafka.bootstrap, topic, key="key-6")
    assert event_ids(messages) == [event(number).id for number in (3, 4, 5, 6)]


def test_a_dead_broker_is_an_error(topic: str, opened: list[KafkaSink]) -> None:
    sink = open_kafka(opened, f"127.0.0.1:{free_port()}", topic)
    message = send_failing(sink, [event(1), event(2)], seconds=TIMEOUT + 3)
    assert "Connection refused" in message


def test_a_broker_that_hangs_or_restarts_gets_each_key_in_order(
    kafka: Kafka, topic: str, opened: list[KafkaSink]
) -> None:
    """Events that were reported as failed may be delivered, but not after later events of their key."""
    sink = open_kafka(opened, kafka.bootstrap, topic)
    assert sink.send([event(1, key="t")]) == {}
    kafka.suspend()
    try:
        message = send_failing(sink, [event(2, key="t")], seconds=TIMEOUT + 3)
        assert message == "Kafka did not acknowledge the event within 4 s"
    finally:
        kafka.resume()
    send_until_delivered(sink, [event(2, key="t")], seconds=30)
    assert sink.send([event(3, key="t")]) == {}
    kafka.kill()
    try:
        assert "Kafka" in send_failing(sink, [event(4, key="t")], seconds=TIMEOUT + 3)
    finally:
        kafka.start()
    send_until_delivered(sink, [event(4, key="t")], seconds=30)
    assert sink.send([event(5, key="t")]) == {}
    assert sink.send([event(6, key="end")]) == {}
    messages = read_topic(kafka.bootstrap, topic, key="end")
    ids = event_ids(messages)
    assert ids == sorted(ids)
    assert sorted(set(ids)) == [event(number).id for number in (1, 2, 3, 4, 5, 6)]


def test_a_broker_that_is_killed_during_deliveries_loses_nothing(
    kafka: Kafka, topic: str, opened: list[KafkaSink]
) -> None:
    sink = open_kafka(opened, kafka.bootstrap, topic)
    sent = 0

    def send_all() -> None:
        nonlocal sent
        for first in range(0, 5000, 50):
            events = [event(number, key=f"key-{number % 50}") for number in range(first, first + 50)]
            send_until_delivered(sink, events, seconds=60)
            sent += 50

    with ThreadPoolExecutor() as thread:
        sending = thread.submit(send_all)
        while sent < 500 and not sending.done():
            sleep(0.001)
        kafka.kill()
        at_kill = sent
        kafka.start()
        sending.result(120)
    assert at_kill < 5000
    assert sink.send([event(9999, key="end")]) == {}
    messages = read_topic(kafka.bootstrap, topic, key="end")
    received = [int(each[-12:]) for each in event_ids(messages)][:-1]
    assert set(received) == set(range(5000))
    for key in range(50):
        of_key = [number for number in received if number % 50 == key]
        assert of_key == sorted(of_key)


def test_an_unknown_topic_without_automatic_creation_is_an_error(
    kafka: Kafka, topic: str, opened: list[KafkaSink]
) -> None:
    sink = open_kafka(opened, kafka.bootstrap, topic, settings={"allow.auto.create.topics": "false"})
    assert "Unknown topic or partition" in send_failing(sink, [event(1)], seconds=TIMEOUT + 3)


def test_settings_that_librdkafka_rejects_are_an_error_without_values(opened: list[KafkaSink]) -> None:
    for name in ("no.such.setting", "sasl.mechanisms", "enable.idempotence"):
        sink = open_kafka(opened, "127.0.0.1:1", "t", settings={name: "canary value"}, secrets=("canary value",))
        message = send_failing(sink, [event(1)], seconds=TIMEOUT)
        assert message.startswith("Kafka rejects the settings: ")
        assert name in message
        assert "canary" not in message + repr(sink.__dict__)


def test_addresses_are_checked_before_the_first_connection(kafka: Kafka, topic: str, opened: list[KafkaSink]) -> None:
    def deny() -> None:
        raise DeliveryError("this address is not permitted")

    sink = open_kafka(opened, kafka.bootstrap, topic, check_addresses=deny)
    for _ in range(2):
        assert send_failing(sink, [event(1)], seconds=TIMEOUT) == "this address is not permitted"


def test_password_and_tls(kafka: Kafka, topic: str, opened: list[KafkaSink]) -> None:
    authority = (kafka.home / "authority.pem").read_text()
    login = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": KAFKA_USER}
    given = {"bootstrap.servers": kafka.secured_bootstrap, "ssl.ca.pem": authority, **login}

    def open_with(settings: dict[str, str]) -> KafkaSink:
        definition = read_definition(
            {"type": "kafka", "topic": topic, "timeout-seconds": TIMEOUT, "settings": settings}
        )
        assert "canary" not in repr(definition) + json.dumps(definition.describe())
        sink = open_sink(definition)
        assert isinstance(sink, KafkaSink)
        opened.append(sink)
        assert "canary" not in repr(vars(sink))
        return sink

    assert open_with(given | {"sasl.password": KAFKA_PASSWORD}).send([event(1)]) == {}
    assert [each.key() for each in read_topic(kafka.bootstrap, topic, key="key-1")] == [b"key-1"]

    wrong = send_failing(open_with(given | {"sasl.password": "canary-wrong"}), [event(2)], seconds=TIMEOUT)
    assert "Authentication failed" in wrong
    assert "canary" not in wrong
    settings = {name: value for name, value in given.items() if name != "ssl.ca.pem"}
    untrusted = send_failing(open_with(settings | {"sasl.password": KAFKA_PASSWORD}), [event(3)], seconds=TIMEOUT + 3)
    assert "certificate verify failed" in untrusted


def test_a_closed_sink_can_be_opened_again(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    sink = KafkaSink(KafkaTarget(topic=topic, timeout=TIMEOUT, settings={"bootstrap.servers": kafka.bootstrap}))
    sink.close()
    for number in (1, 2):
        assert sink.send([event(number)]) == {}
        sink.close()
        sink.close()
    assert sink.send([]) == {}
    assert len(read_topic(kafka.bootstrap, topic, key="key-2")) == 2
