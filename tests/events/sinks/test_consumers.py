"""The consumers of docs/events.md, as they are on the page but for addresses: each prints what a sink delivers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from queue import Queue
from threading import Thread

import pytest

from events.cloud_events import CloudEvent
from events.sinks.kafka import KafkaSink, KafkaTarget
from events.sinks.nats import NatsSink, NatsTarget
from events.sinks.port import Sink
from tests.documentation.command_block_fixtures import blocks_below
from tests.events.sinks.sample_events import event, send_until_delivered
from tests.parts.kafka import Kafka
from tests.parts.nats import Nats

_numbers = count(1)


@contextmanager
def consumer(heading: str, **replaced: str) -> Iterator[Queue[str]]:
    """Run the program below a heading with other addresses; yield the lines that it prints."""
    (block,) = [each for each in blocks_below("events.md", heading) if each.kind == "python"]
    program = block.content
    for old, new in replaced.items():
        assert old in program
        program = program.replace(old, new)
    lines: Queue[str] = Queue()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as running:
        reader = Thread(target=_read, args=(running, lines), daemon=True)
        reader.start()
        try:
            yield lines
        finally:
            running.kill()
            reader.join(10)


def _read(running: subprocess.Popen[str], lines: Queue[str]) -> None:
    assert running.stdout is not None
    for line in running.stdout:
        lines.put(line.strip())


def sample(number: int) -> CloudEvent:
    return event(number, namespace="sales", name="orders", objectsequence=str(number))


def send(sink: Sink, number: int) -> None:
    try:
        assert sink.send([sample(number)]) == {}
    finally:
        sink.close()


@pytest.mark.part("nats")
def test_nats(nats: Nats) -> None:
    number = next(_numbers)
    subject = f"walk.{number}"
    target = NatsTarget(addresses=[nats.url], subject=subject, timeout=10, jetstream=True)
    replaced = {"nats://127.0.0.1:4222": nats.url, '"lake"': f'"walk-{number}"', "lake.events": subject}
    with consumer("Deliver to NATS", **replaced) as lines:
        with closing(NatsSink(target)) as sink:
            send_until_delivered(sink, [sample(1)], seconds=20)  # the consumer creates the stream
        assert lines.get(timeout=20) == "updateTable sales orders 1"
        send(NatsSink(target), 2)
        assert lines.get(timeout=20) == "updateTable sales orders 2"
    send(NatsSink(target), 3)
    with consumer("Deliver to NATS", **replaced) as lines:
        assert lines.get(timeout=20) == "updateTable sales orders 3", "it continues where it stopped"


@pytest.mark.part("kafka")
def test_kafka(kafka: Kafka) -> None:
    topic = f"walk-{next(_numbers)}"
    target = KafkaTarget(topic=topic, timeout=10, settings={"bootstrap.servers": kafka.bootstrap})
    send(KafkaSink(target), 1)
    with consumer("Deliver to Kafka", **{"127.0.0.1:9092": kafka.bootstrap, "lake-events": topic}) as lines:
        assert lines.get(timeout=40) == "updateTable sales orders 1"
        send(KafkaSink(target), 2)
        assert lines.get(timeout=20) == "updateTable sales orders 2"
