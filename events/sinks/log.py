"""Events as log lines of this server, as Lakekeeper's LOG_CLOUDEVENTS."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence

from events.cloud_events import CloudEvent
from events.sinks.port import DeliveryError, Sink

logger = logging.getLogger("icekeeper.events")


class LogSink(Sink):
    """Logs one line for each event, with the event in the field `event`."""

    keeps_order = True

    def send(self, events: Sequence[CloudEvent]) -> Mapping[int, DeliveryError]:
        for event in events:
            logger.info("CloudEvent", extra={"event": json.loads(event.structured)})
        return {}

    def close(self) -> None:
        """Nothing is open."""
