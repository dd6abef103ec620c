"""A topic of Kafka with one partition, read as any consumer reads it."""

from __future__ import annotations

from time import monotonic

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


def create_topic(bootstrap: str, topic: str, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {name.replace("_", "."): value for name, value in settings.items()}
    for created in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
        created.result(30)


def read_topic(bootstrap: str, topic: str, *, key: str, seconds: float = 20) -> list[Message]:
    """Return all messages of the topic up to the first one with `key`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = []
    until = monotonic() + seconds
    try:
        while not messages or messages[-1].key() != key.encode():
            assert monotonic() < until, f"{len(messages)} messages, none with the key {key}"
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                messages.append(message)
    finally:
        consumer.close()
    return messages


def event_ids(messages: list[Message]) -> list[str]:
    found = []
    for message in messages:
        content = dict(message.headers() or [])["ce_id"]
        assert isinstance(content, bytes)
        found.append(content.decode())
    return found
