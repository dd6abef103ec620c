"""Labels and addresses of event sinks in the console."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from events.cloud_events import Payload
from events.models import EventSink
from events.selectors.sinks import SinkStatus
from management.admin.navigation import Text

STATUSES: Final[dict[SinkStatus, tuple[Text, str]]] = {
    SinkStatus.UP_TO_DATE: (_("up to date"), "good"),
    SinkStatus.DELIVERING: (_("delivering"), "accent"),
    SinkStatus.FAILING: (_("failing"), "bad"),
    SinkStatus.PAUSED: (_("paused"), "warning"),
    SinkStatus.STOPPED: (_("stopped"), "bad"),
}
"""Labels and tones."""

TYPES: Final[dict[str, Text]] = {
    EventSink.Type.WEBHOOK: _("Webhook"),
    EventSink.Type.NATS: _("NATS"),
    EventSink.Type.KAFKA: _("Kafka"),
    EventSink.Type.LOG: _("Log"),
}
PAYLOADS: Final[dict[Payload, Text]] = {
    Payload.FULL: _("Everything, with the data of each change"),
    Payload.SUMMARY: _("Names, but no data"),
    Payload.IDS: _("Ids alone: neither names nor data"),
}


def sink_url(sink_id: UUID) -> str:
    return reverse("admin:event-sink", args=[sink_id])
