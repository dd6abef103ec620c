"""CloudEvents 1.0 of the events in the outbox, with Lakekeeper's types, source and extension attributes.

Lakekeeper's events of tables and views have names with hyphens and two spellings of namespaces, which its consumers
expect; `docs/events.md` has all attributes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from icekeeper.kernel.json.strict import read_stored_json, write_json

GAP_TYPE: Final = "eventsDeleted"
"""Type of the event that a receiver gets instead of events that were deleted before they were delivered."""

CONNECTION_TEST_TYPE: Final = "testEventSink"

TYPES_DOCUMENT: Final = "/api-docs/events/v1/asyncapi.json"
"""Path at which the server describes all types of events."""

SOURCE_PREFIX: Final = "uri:iceberg-catalog-service:"
TABULAR_TYPES: Final = frozenset({"table", "view", "generic-table"})

_JOINED_BY_SEPARATOR: Final = frozenset({"updateTable", "renameTable", "undropTabulars"})
"""Types whose `namespace` is joined by 0x1F instead of dots."""
_WITHOUT_PREFIX: Final = _JOINED_BY_SEPARATOR | {"renameView"}
"""Types whose `prefix` is empty instead of the id of the warehouse."""


class Payload(StrEnum):
    """How much of an event a receiver gets."""

    FULL = "full"
    """Everything, with the data of the change."""
    SUMMARY = "summary"
    """Names, but no data."""
    IDS = "ids"
    """Neither names nor data."""


class StoredEvent(NamedTuple):
    """An event of the outbox; see the columns of `OutboxEvent`. `names` and `data` are JSON texts.

    Ids and the time are texts as CloudEvents have them: thousands of events a second are only written out again.
    """

    position: int
    event_id: str
    object_key: str
    sequence: int
    type: str
    time: str
    """In UTC with microseconds: 2026-01-31T12:00:00.001500Z."""
    public_id: str
    names: str
    project_id: str
    warehouse_id: str | None
    actor: str
    assumed_role: str | None
    request_id: str
    event_count: int
    event_index: int
    data: str | None

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.time)

    @property
    def object_type(self) -> str:
        return self.object_key.partition(":")[0]


@dataclass  # not frozen, which would take a sixth of the time that an event takes
class CloudEvent:
    """A CloudEvent: its attributes by name, strings or integers, and its data as JSON text. It does not change.

    `key` identifies the object, for partitions: events of one key must be delivered in order.
    """

    position: int
    key: str
    attributes: dict[str, str | int]
    data: bytes

    @property
    def id(self) -> str:
        return str(self.attributes["id"])

    @property
    def type(self) -> str:
        return str(self.attributes["type"])

    @property
    def structured(self) -> bytes:
        """Return the event in the JSON format of CloudEvents (`application/cloudevents+json`)."""
        return write_json(self.attributes)[:-1] + b',"data":' + self.data + b"}"


def cloud_event_of(event: StoredEvent, *, server_id: UUID, payload: Payload = Payload.FULL) -> CloudEvent:
    """Return the CloudEvent of a stored event. Equal for each delivery: `source` and `id` identify it."""
    # Fields of a named tuple are read several times faster at once than by name.
    (
        position, event_id, object_key, sequence, event_type, time, public_id, names, project_id, warehouse_id,
        actor, assumed_role, request_id, event_count, event_index, data,
    ) = event  # fmt: skip
    attributes: dict[str, str | int] = {
        "specversion": "1.0",
        "id": event_id,
        "source": _source(server_id),
        "type": event_type,
        "datacontenttype": "application/json",
        "time": time,
        "subject": public_id,
    }
    if project_id:
        attributes["project-id"] = project_id
    if warehouse_id:
        attributes["warehouse-id"] = warehouse_id
    _add_names(attributes, object_key.partition(":")[0], [] if payload is Payload.IDS else _read_names(names))
    attributes["num-events"] = event_count
    attributes["sequence-number"] = event_index
    attributes["trace-id"] = request_id
    attributes["actor"] = _actor_text(actor, assumed_role)
    attributes["objectkey"] = object_key
    attributes["objectsequence"] = str(sequence)
    attributes["position"] = str(position)
    if data is None or payload is not Payload.FULL:
        data = "null"
    return CloudEvent(position, public_id, attributes, data.encode())


def gap_event(event_id: UUID, first: int, last: int, *, server_id: UUID) -> CloudEvent:
    """Return the CloudEvent that reports deleted events, from position `first` to `last`, to their receiver."""
    attributes: dict[str, str | int] = {
        "specversion": "1.0",
        "id": str(event_id),
        "source": f"{SOURCE_PREFIX}{server_id}",
        "type": GAP_TYPE,
        "datacontenttype": "application/json",
        "position": str(last),
    }
    data = write_json({"first-position": first, "last-position": last, "reason": "retention"})
    return CloudEvent(last, GAP_TYPE, attributes, data)


def connection_test_event(event_id: UUID, *, server_id: UUID) -> CloudEvent:
    """Return an event that tests the connection to a receiver; it is in no outbox."""
    attributes: dict[str, str | int] = {
        "specversion": "1.0",
        "id": str(event_id),
        "source": f"{SOURCE_PREFIX}{server_id}",
        "type": CONNECTION_TEST_TYPE,
        "datacontenttype": "application/json",
    }
    return CloudEvent(0, CONNECTION_TEST_TYPE, attributes, b"null")


def _add_names(attributes: dict[str, str | int], object_type: str, names: list[str]) -> None:
    """Add the attributes that say where the object is, from its names; those of a table or view also without names."""
    if object_type in TABULAR_TYPES:
        event_type = attributes["type"]
        attributes["tabular-type"] = object_type
        attributes["tabular-id"] = attributes["subject"]
        attributes["name"] = names[-1] if names else ""
        attributes["namespace"] = ("\x1f" if event_type in _JOINED_BY_SEPARATOR else ".").join(names[:-1])
        attributes["prefix"] = "" if event_type in _WITHOUT_PREFIX else attributes.get("warehouse-id", "")
        return
    if names:
        attributes["name"] = names[-1]
    if len(names) > 1:
        attributes["namespace"] = ".".join(names[:-1])


def _read_names(text: str) -> list[str]:
    """Return the names; unpaired surrogates, which UTF-8 does not have, are replaced."""
    if "\\ud" not in text:
        names: list[str] = read_stored_json(text.encode())
        return names
    return [each.encode("utf-8", "replace").decode() for each in json.loads(text)]


@lru_cache(maxsize=16)
def _source(server_id: UUID) -> str:
    return f"{SOURCE_PREFIX}{server_id}"


@lru_cache(maxsize=1024)
def _actor_text(actor: str, assumed_role: str | None) -> str:
    if actor in {"anonymous", "internal"}:
        found = {"type": actor}
    elif assumed_role is None:
        found = {"type": "principal", "principal": actor}
    else:
        found = {"type": "role", "principal": actor, "assumed-role": assumed_role}
    return json.dumps(found, separators=(",", ":"))
