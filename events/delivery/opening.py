"""Opens the connections of sinks from their rows."""

from __future__ import annotations

from events.models import EventSink
from events.selectors.sinks import read_definition_of
from events.sinks.definition import InvalidConfiguration
from events.sinks.opening import open_sink
from events.sinks.port import DeliveryError, Sink
from icekeeper.kernel.errors.types import CatalogError


def open_sink_of(row: EventSink) -> Sink:
    """Return the sink of a row; its first `send` connects. Raises `DeliveryError` if its configuration is unusable."""
    try:
        return open_sink(read_definition_of(row))
    except InvalidConfiguration as error:
        raise DeliveryError(f"The configuration cannot be used: {error}") from None
    except CatalogError as error:
        raise DeliveryError(f"The secrets cannot be read: {error.message}") from None
