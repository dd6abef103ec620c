"""Delivery to NATS, core and JetStream, with a real server that works, hangs, dies and restarts."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from threading import Thread
from threading import enumerate as all_threads
from time import monotonic, sleep

import pytest

from events.sinks.nats import NatsSink, NatsTarget
from events.sinks.port import DeliveryError, EventRejected
from tests.events.sinks.nats_subscriber import Subscriber, add_stream, stored
from tests.events.sinks.sample_events import HARD_TEXT, event, large_event, send_failing, send_until_delivered
from tests.parts.nats import Nats
from tests.parts.process import free_port
from tests.parts.relay import Relay

pytestmark = pytest.mark.part("nats")

TIMEOUT = 3.0
QUICK = 2.5
"""Maximum time of what does not wait for the timeout."""
_numbers = count(1)


@pytest.fixture
def subject() -> str:
    return f"lake.{next(_numbers)}.events"


@pytest.fixture
def sink(nats: Nats, subject: str) -> Iterator[NatsSink]:
    sink = NatsSink(NatsTarget(addresses=[nats.url], subject=subject, timeout=TIMEOUT))
    yield sink
    sink.close()


@pytest.fixture
def stream(nats: Nats, subject: str) -> str:
    """A stream of JetStream that stores the subject, with messages of at most 5,000 bytes."""
    name = subject.replace(".", "-")
    add_stream(nats.url, name, subject, max_msg_size=5000)
    return name


@pytest.fixture
def stored_sink(nats: Nats, subject: str) -> Iterator[NatsSink]:
    sink = NatsSink(NatsTarget(addresses=[nats.url], subject=subject, timeout=TIMEOUT, jetstream=True))
    yield sink
    sink.close()


def test_a_message_is_the_json_form_of_the_event(nats: Nats, sink: NatsSink, subject: str) -> None:
    sent = event(1, name=HARD_TEXT)
    with Subscriber(nats.url, subject) as subscriber:
        assert sink.send([sent]) == {}
        (content,) = subscriber.wait_for(1)
    assert json.loads(content) == {**sent.attributes, "data": {"n": 1}}
    assert subscriber.messages[0].headers is None
    assert sink.keeps_order


def test_events_arrive_in_their_order(nats: Nats, sink: NatsSink, subject: str) -> None:
    events = [large_event(number, 1000) for number in range(1000)]
    with Subscriber(nats.url, subject) as subscriber:
        assert sink.send(events) == {}
        assert sink.send(events[:3]) == {}
        received = subscriber.wait_for(1003)
    assert received == [each.structured for each in [*events, *events[:3]]]


def test_an_event_that_is_too_large_is_rejected_alone(nats: Nats, sink: NatsSink, subject: str) -> None:
    fitting = 1_048_576 - len(large_event(2, 2).structured) + 2
    events = [event(1), large_event(2, fitting), large_event(3, fitting + 1), event(4)]
    with Subscriber(nats.url, subject) as subscriber:
        errors = sink.send(events)
        received = subscriber.wait_for(3)
    assert {index: (type(error), str(error)) for index, error in errors.items()} == {
        2: (EventRejected, "the event has 1048577 bytes, and the NATS server accepts 1048576")
    }
    assert received == [events[index].structured for index in (0, 1, 3)]


def test_a_dead_server_costs_no_time(subject: str) -> None:
    sink = NatsSink(NatsTarget(addresses=[f"nats://127.0.0.1:{free_port()}"], subject=subject, timeout=TIMEOUT))
    for _ in range(2):
        assert send_failing(sink, [event(1)], seconds=QUICK) == "NATS: Connection refused"
    sink.close()


def test_a_server_that_hangs_costs_the_timeout_and_gets_nothing_late(nats: Nats, sink: NatsSink, subject: str) -> None:
    large = [large_event(number, 100_000) for number in range(100)]  # more than the buffers of both sides
    with Subscriber(nats.url, subject) as subscriber:
        assert sink.send([event(1)]) == {}
        subscriber.wait_for(1)
        nats.suspend()
        try:
            assert send_failing(sink, large, seconds=TIMEOUT + 3) == "NATS did not respond within 3 s"
            assert send_failing(sink, [event(2)], seconds=TIMEOUT + 3) == "NATS did not respond within 3 s"
        finally:
            nats.resume()
        assert sink.send([event(3)]) == {}
        until = monotonic() + 10
        while event(3).structured not in [each.data for each in subscriber.messages]:
            assert monotonic() < until
        numbers = [json.loads(each.data)["position"] for each in subscriber.messages]
    assert numbers[0] == "1"
    assert numbers[-1] == "3", "an event that was reported as failed arrived after a later one"


def test_a_restart_in_the_middle_loses_nothing(tmp_path_factory: pytest.TempPathFactory, subject: str) -> None:
    with Nats(tmp_path_factory.mktemp("nats")) as server:
        sink = NatsSink(NatsTarget(addresses=[server.url], subject=subject, timeout=TIMEOUT))
        assert sink.send([event(1)]) == {}
        server.kill()
        assert "NATS" in send_failing(sink, [event(2)], seconds=QUICK)
        server.start()
        with Subscriber(server.url, subject) as subscriber:
            send_until_delivered(sink, [event(2), event(3)], seconds=5)
            assert subscriber.wait_for(2)[:2] == [event(2).structured, event(3).structured]
        sink.close()


def test_the_second_address_is_used_while_the_first_is_dead(nats: Nats, subject: str) -> None:
    dead = f"nats://127.0.0.1:{free_port()}"
    sink = NatsSink(NatsTarget(addresses=[dead, nats.url], subject=subject, timeout=TIMEOUT))
    with Subscriber(nats.url, subject) as subscriber:
        assert sink.send([event(1)]) == {}
        assert subscriber.wait_for(1) == [event(1).structured]
    sink.close()


def test_a_connection_that_was_cut_is_replaced(nats: Nats, subject: str) -> None:
    with Relay(nats.port) as relay:
        sink = NatsSink(NatsTarget(addresses=[f"nats://127.0.0.1:{relay.port}"], subject=subject, timeout=TIMEOUT))
        assert sink.send([event(1)]) == {}
        with relay.refusing():
            assert "NATS" in send_failing(sink, [event(2)], seconds=QUICK)
        send_until_delivered(sink, [event(2)], seconds=5)
        with relay.silent():
            assert send_failing(sink, [event(3)], seconds=TIMEOUT + 3)
        send_until_delivered(sink, [event(3)], seconds=5)
        sink.close()


def test_an_address_is_checked_before_each_connection(nats: Nats, subject: str) -> None:
    checked: list[str] = []

    def deny(address: str) -> None:
        checked.append(address)
        raise DeliveryError("this address is not permitted")

    sink = NatsSink(NatsTarget(addresses=[nats.url], subject=subject, timeout=TIMEOUT, check_address=deny))
    for _ in range(2):
        assert send_failing(sink, [event(1)], seconds=QUICK) == "this address is not permitted"
    assert checked == [nats.url, nats.url]
    sink.close()


def test_confirmation_follows_the_messages(subject: str) -> None:
    """A server that records what it reads: nats-py's own `flush` would write PING first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lines: list[bytes] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with suppress(ConnectionResetError), connection, connection.makefile("rb") as reader:
                connection.sendall(b'INFO {"server_id":"x","version":"2.9.10","max_payload":1048576}\r\n')
                for line in reader:
                    lines.append(line.partition(b" ")[0].strip())
                    if lines[-1] == b"PING":
                        connection.sendall(b"PONG\r\n")
                    elif lines[-1] == b"PUB":
                        reader.readline()

        thread = Thread(target=serve, daemon=True)
        thread.start()
        address = f"nats://127.0.0.1:{listener.getsockname()[1]}"
        sink = NatsSink(NatsTarget(addresses=[address], subject=subject, timeout=TIMEOUT))
        assert sink.send([event(1), event(2)]) == {}
        sink.close()
        thread.join(5)
    assert lines == [b"CONNECT", b"PING", b"PUB", b"PUB", b"PING"]


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 200 OK\r\n\r\n", b"INFO not json\r\n", b"INFO " + b"x" * 200_000, b""])
def test_a_server_of_another_kind_is_an_error(greeting: bytes, subject: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with suppress(OSError), connection:
                connection.sendall(greeting)

        Thread(target=serve, daemon=True).start()
        address = f"nats://127.0.0.1:{listener.getsockname()[1]}"
        sink = NatsSink(NatsTarget(addresses=[address], subject=subject, timeout=TIMEOUT))
        assert "NATS" in send_failing(sink, [event(1)], seconds=TIMEOUT + 3)
        sink.close()


@pytest.mark.usefixtures("stream")
def test_jetstream_stores_each_event_once(nats: Nats, stored_sink: NatsSink, subject: str, stream: str) -> None:
    events = [event(number) for number in range(1000)]
    assert stored_sink.send(events) == {}
    assert stored_sink.send(events[500:]) == {}  # as after an acknowledgement that was lost
    assert stored(nats.url, stream) == [(each.id, each.structured) for each in events]
    assert not stored_sink.keeps_order


def test_jetstream_without_a_stream_is_an_error(stored_sink: NatsSink, subject: str) -> None:
    expected = f"no stream of JetStream stores the subject {subject}"
    assert send_failing(stored_sink, [event(1), event(2)], seconds=QUICK) == expected


def test_jetstream_rejects_an_event_above_the_limit_of_the_stream(
    nats: Nats, stored_sink: NatsSink, stream: str
) -> None:
    errors = stored_sink.send([event(1), large_event(2, 5000), large_event(3, 2_000_000)])
    assert {index: type(error) for index, error in errors.items()} == {1: EventRejected, 2: EventRejected}
    assert str(errors[1]) == "JetStream: message size exceeds maximum allowed"
    assert [identifier for identifier, _ in stored(nats.url, stream)] == [event(1).id]


def test_jetstream_that_hangs_costs_the_timeout(nats: Nats, stored_sink: NatsSink, stream: str) -> None:
    assert stored_sink.send([event(1)]) == {}
    nats.suspend()
    try:
        expected = "JetStream did not acknowledge the event within 3 s"
        assert send_failing(stored_sink, [event(2)], seconds=TIMEOUT + 3) == expected
    finally:
        nats.resume()
    assert stored_sink.send([event(2), event(3)]) == {}
    assert [identifier for identifier, _ in stored(nats.url, stream)] == [event(number).id for number in (1, 2, 3)]


def test_jetstream_that_is_killed_during_deliveries_stores_each_event_once(
    tmp_path_factory: pytest.TempPathFactory, subject: str
) -> None:
    sent = 0

    def send_all(sink: NatsSink) -> None:
        nonlocal sent
        for first in range(0, 5000, 50):
            send_until_delivered(sink, [event(number) for number in range(first, first + 50)], seconds=30)
            sent += 50

    with Nats(tmp_path_factory.mktemp("nats")) as server, ThreadPoolExecutor() as thread:
        add_stream(server.url, "killed", subject)
        sink = NatsSink(NatsTarget(addresses=[server.url], subject=subject, timeout=TIMEOUT, jetstream=True))
        sending = thread.submit(send_all, sink)
        while sent < 500 and not sending.done():
            sleep(0.001)
        server.kill()
        at_kill = sent
        server.start()
        sending.result(60)
        sink.close()
        assert at_kill < 5000
        identifiers = [identifier for identifier, _ in stored(server.url, "killed")]
        assert sorted(identifiers) == [event(number).id for number in range(5000)]


def test_a_full_stream_is_an_error_but_no_rejection(nats: Nats, subject: str) -> None:
    add_stream(nats.url, f"full-{next(_numbers)}", subject, max_msgs=1, discard="new")
    sink = NatsSink(NatsTarget(addresses=[nats.url], subject=subject, timeout=TIMEOUT, jetstream=True))
    assert sink.send([event(1)]) == {}
    errors = sink.send([event(2)])
    assert {index: (type(error), str(error)) for index, error in errors.items()} == {
        0: (DeliveryError, "JetStream: maximum messages exceeded")
    }
    sink.close()


def test_a_closed_sink_has_no_thread(nats: Nats, subject: str) -> None:
    sink = NatsSink(NatsTarget(addresses=[nats.url], subject=subject, timeout=TIMEOUT))
    assert sink.send([event(1)]) == {}
    assert "nats-sink" in {thread.name for thread in all_threads()}
    sink.close()
    sink.close()
    assert "nats-sink" not in {thread.name for thread in all_threads()}
    assert sink.send([event(2)]) == {}  # opens it again
    sink.close()
