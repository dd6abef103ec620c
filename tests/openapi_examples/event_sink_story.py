"""Story: other systems get the events of the server, and one of them rejects some."""

from __future__ import annotations

from typing import Any

from tenancy.models import OutboxState
from tests.events.event_fixtures import number_events_after, publish_everything
from tests.openapi_examples.story import Story

FIRST_POSITION = 1_000_000
URL = "https://hooks.example.com/icekeeper"

WEBHOOK: dict[str, Any] = {
    "name": "orders-pipeline",
    "configuration": {
        "type": "webhook",
        "url": URL,
        "headers": {"Authorization": "Bearer EXAMPLE"},
        "signing-secrets": ["whsec_RVhBTVBMRUVYQU1QTEVFWEFNUExFRVhBTVBMRQ=="],
    },
    "filter": {"namespaces": [["finance", "sales"]], "types": ["createTable", "updateTable", "dropTable"]},
    "payload": "summary",
    "start": {"from": "latest"},
}
NATS = {
    "name": "lake-nats",
    "configuration": {
        "type": "nats",
        "addresses": ["tls://nats.example.com:4222"],
        "subject": "lake.events",
        "jetstream": True,
        "user": "icekeeper",
        "password": "example-password",
    },
}
KAFKA = {
    "name": "lake-kafka",
    "configuration": {
        "type": "kafka",
        "topic": "lake-events",
        "settings": {
            "bootstrap.servers": "kafka-1.example.com:9093",
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "icekeeper",
            "sasl.password": "example-password",
        },
    },
}
LOG = {"name": "lake-log", "configuration": {"type": "log"}, "payload": "ids", "is-paused": True}


def play(story: Story) -> None:
    number_events_after(FIRST_POSITION)
    OutboxState.objects.update_or_create(pk=OutboxState.ONLY, defaults={"published_through": FIRST_POSITION})
    sink = story.send("create_event_sink", body=WEBHOOK, summary="A webhook that gets some events of one namespace")
    story.send("create_event_sink", body=WEBHOOK, refused=409)
    for summary, new in (("NATS with JetStream", NATS), ("Kafka", KAFKA), ("The server's own log, paused", LOG)):
        story.send("create_event_sink", body=new, summary=summary)
    story.send("list_event_sinks")
    this = {"sink_id": sink["id"]}
    story.send("get_event_sink", this)
    story.clock.later(minutes=5)
    everything = {"type": "webhook", "url": URL, "mode": "binary"}
    changed = {"name": "pipeline", "configuration": everything, "filter": {}, "payload": "full", "version": 1}
    story.send("update_event_sink", this, changed, summary="The secrets stay as they are")
    story.send("update_event_sink", this, changed, refused=409)
    deliveries(story, this, sink["delivery"]["position"])
    dead_letters(story, this)
    story.send("delete_event_sink", this)


def deliveries(story: Story, this: dict[str, str], first: int) -> None:
    story.send("test_event_sink", this)
    story.send("pause_event_sink", this)
    story.send("resume_event_sink", this)
    publish_everything()
    story.send("replay_event_sink", this, {"from": "latest"}, summary="Skip everything so far")
    story.send("replay_event_sink", this, {"position": first + 2}, summary="After a position")


def dead_letters(story: Story, this: dict[str, str]) -> None:
    publish_everything()
    skipped = story.send("skip_event", this)
    story.send("list_dead_letters", this | {"pageSize": 100})
    story.send("get_dead_letter", this | {"position": skipped["position"]})
    some = {"positions": [skipped["position"]]}
    story.send("redeliver_dead_letters", this, some)
    story.send("delete_dead_letters", this, some)
