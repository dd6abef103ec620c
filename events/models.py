"""Sinks, with the progress of their deliveries, and events that a receiver rejected."""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import UUID

from django.db import models

from events.cloud_events import CloudEvent, Payload
from events.outbox import EventFilter
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id

MAX_NAME_LENGTH: Final = 128
"""Characters of the name of a sink."""


class EventSink(models.Model):
    """A receiver of events, and how far they were delivered to it.

    The row has no secrets: `secret_id` is their id in the secret store. A sink of the settings has no configuration
    here; workers with other settings leave it alone.

    A worker delivers while it has the lease. Each change of the configuration, the position or the pause counts `lease`
    up, which ends the lease: its worker cannot record anything any more.
    """

    class Type(models.TextChoices):
        NATS = "nats"
        KAFKA = "kafka"
        WEBHOOK = "webhook"
        LOG = "log"

    id = models.UUIDField(primary_key=True, default=new_id)
    name = models.CharField(max_length=MAX_NAME_LENGTH, unique=True)
    type = models.CharField(max_length=16, choices=Type.choices)
    is_from_settings = models.BooleanField(default=False)
    configuration: models.JSONField[dict[str, Any]] = models.JSONField(default=dict, help_text="Without secrets.")
    secret_id = models.UUIDField("secret ID", null=True, help_text="In the secret store.")
    secret_names: models.JSONField[list[str]] = models.JSONField(
        default=list, help_text="Names of the secrets, which the API shows."
    )
    filter: models.JSONField[dict[str, Any]] = models.JSONField(
        default=dict, help_text="Lists of projects, warehouses, namespaces and types; none: all events."
    )
    payload = models.CharField(
        max_length=16, choices=[(each.value, each.value) for each in Payload], default=Payload.FULL.value
    )
    version = models.IntegerField(default=1, help_text="Counts the changes of the configuration.")
    created_at = models.DateTimeField(default=now)
    updated_at = models.DateTimeField(default=now)

    position = models.BigIntegerField(default=0, help_text="Events up to this position were delivered or skipped.")
    is_paused = models.BooleanField(default=False)
    lease = models.BigIntegerField(default=0, help_text="Number of the last lease.")
    leased_until = models.DateTimeField(null=True, help_text="A worker delivers until then.")
    failures = models.IntegerField(default=0, help_text="Failed deliveries in a row.")
    retry_at = models.DateTimeField(null=True, help_text="The next delivery is at this time or later.")
    last_error = models.TextField(blank=True, default="")
    last_error_at = models.DateTimeField(null=True)
    last_delivery_at = models.DateTimeField(null=True)
    delivered = models.BigIntegerField(default=0, help_text="Number of delivered events.")

    class Meta:
        verbose_name = "event sink"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(payload__in=[each.value for each in Payload]), name="event_sink_payload"
            )
        ]

    def __str__(self) -> str:
        return self.name

    def event_filter(self) -> EventFilter:
        return filter_of(self.filter)


def filter_of(document: dict[str, Any]) -> EventFilter:
    """Return the filter of a `filter` column."""
    return EventFilter(
        projects=tuple(document.get("projects", ())),
        warehouses=tuple(UUID(each) for each in document.get("warehouses", ())),
        namespaces=tuple(tuple(levels) for levels in document.get("namespaces", ())),
        types=tuple(document.get("types", ())),
    )


def stored_filter(event_filter: EventFilter) -> dict[str, Any]:
    """Return the `filter` column of a filter; kinds without values are left out."""
    kinds = {
        "projects": list(event_filter.projects),
        "warehouses": [str(each) for each in event_filter.warehouses],
        "namespaces": [list(levels) for levels in event_filter.namespaces],
        "types": list(event_filter.types),
    }
    return {name: values for name, values in kinds.items() if values}


class DeadLetter(models.Model):
    """An event that the receiver of a sink rejected, with the reason. Later events were delivered without it."""

    id = models.BigAutoField(primary_key=True)
    sink = models.ForeignKey(EventSink, on_delete=models.CASCADE, related_name="dead_letters")
    position = models.BigIntegerField()
    event_id = models.UUIDField("event ID")
    type = models.CharField(max_length=64)
    object_key = models.CharField(max_length=300)
    error = models.TextField()
    at = models.DateTimeField(default=now)
    is_redelivered = models.BooleanField(default=False, help_text="It is sent again, and deleted when that succeeds.")
    event = models.TextField(help_text="The CloudEvent as JSON, as it was sent.")

    class Meta:
        verbose_name = "dead letter"
        constraints = [models.UniqueConstraint(fields=["sink", "position"], name="dead_letter_once")]

    def __str__(self) -> str:
        return f"{self.type} {self.position}"

    def document(self) -> dict[str, Any]:
        """Return the event as JSON values."""
        document: dict[str, Any] = json.loads(self.event)
        return document

    def cloud_event(self) -> CloudEvent:
        """Return the event as it was sent. Attributes are strings and integers, so `"data"` is the first object."""
        attributes, _, data = self.event.partition(',"data":')
        found = json.loads(attributes + "}")
        return CloudEvent(self.position, found.get("subject", self.object_key), found, data[:-1].encode())


def dead_letter_of(sink_id: UUID, event: CloudEvent, error: str) -> DeadLetter:
    return DeadLetter(
        sink_id=sink_id,
        position=event.position,
        event_id=UUID(event.id),
        type=event.type,
        object_key=str(event.attributes.get("objectkey", "")),
        error=error,
        event=event.structured.decode(),
    )
