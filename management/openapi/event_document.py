"""The AsyncAPI document of the events: a message for each type, with an example that a test recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.http import HttpRequest, HttpResponse

from events.cloud_events import GAP_TYPE, SOURCE_PREFIX, TABULAR_TYPES
from icekeeper.kernel.json.strict import write_json
from icekeeper.version import VERSION
from tenancy.changes.kinds import Change

RECORDED: Final = Path(__file__).parent / "recorded" / "events.json"

Schema = dict[str, Any]
TEXT: Final[Schema] = {"type": "string"}
UUID: Final[Schema] = {"type": "string", "format": "uuid"}
NUMBER: Final[Schema] = {"type": "string", "pattern": "^[0-9]+$"}


def _text(description: str, like: Schema = TEXT) -> Schema:
    return {**like, "description": description}


_ENVELOPE: Final[Schema] = {
    "specversion": {"type": "string", "const": "1.0"},
    "id": _text("The same for each delivery", UUID),
    "source": {"type": "string", "pattern": f"^{SOURCE_PREFIX}", "description": "Ends with the id of the server"},
    "datacontenttype": {"type": "string", "const": "application/json"},
    "position": _text("Position in the feed, a cursor", NUMBER),
}
_OF_A_CHANGE: Final[Schema] = {
    "time": {"type": "string", "format": "date-time"},
    "subject": _text("The id of the object that clients see"),
    "num-events": {"type": "integer", "minimum": 1, "description": "Number of events of the same transaction"},
    "sequence-number": {"type": "integer", "minimum": 0, "description": "Position among them"},
    "trace-id": _text("`X-Request-Id` of the request; empty outside of requests"),
    "actor": _text("JSON text: `type`, and `principal` and `assumed-role` of users"),
    "objectkey": _text("Type and internal id of the object"),
    "objectsequence": _text("Number of the event among those of the object, without gaps", NUMBER),
}
_WHERE: Final[Schema] = {"project-id": TEXT, "warehouse-id": UUID}
_NAMED: Final[Schema] = {
    "name": _text("Not with the payload `ids`"),
    "namespace": _text("The levels of the namespace, joined by dots. Not with the payload `ids`"),
}
_TABULAR: Final[Schema] = {
    "tabular-type": {"type": "string", "enum": sorted(TABULAR_TYPES)},
    "tabular-id": _text("As `subject`", UUID),
    "name": _text("Empty with the payload `ids`"),
    "namespace": _text(
        "The levels of the namespace, joined by U+001F in `updateTable`, `renameTable` and `undropTabulars`, else by "
        "dots. Empty with the payload `ids`"
    ),
    "prefix": _text("The id of the warehouse, or empty"),
}
_DATA: Final[Schema] = {"description": "Details of the change; null with the payloads `summary` and `ids`"}
_GAP_DATA: Final[Schema] = {
    "type": "object",
    "properties": {
        "first-position": {"type": "integer"},
        "last-position": {"type": "integer"},
        "reason": {"type": "string", "const": "retention"},
    },
    "required": ["first-position", "last-position", "reason"],
    "additionalProperties": False,
}


def event_types() -> dict[str, list[Change]]:
    """Return the changes of each type of events, in the order of the table of kinds."""
    found: dict[str, list[Change]] = {}
    for change in Change:
        found.setdefault(change.value.event_type, []).append(change)
    return found


def build_event_document() -> dict[str, Any]:
    """Build the document. Raises `LookupError` if a type of events has no recorded example."""
    examples = read_event_examples()
    types = event_types()
    if missing := sorted({*types, GAP_TYPE} - examples.keys()):
        raise LookupError(f"no example of the events {', '.join(missing)}")
    if unknown := sorted(examples.keys() - {*types, GAP_TYPE}):
        raise LookupError(f"examples of unknown events: {', '.join(unknown)}")
    messages = {
        name: _message(name, _summary(changes), _shape_of(changes), examples) for name, changes in types.items()
    }
    messages[GAP_TYPE] = _message(GAP_TYPE, "Events were deleted before they were read", "Gap", examples)
    references = {name: {"$ref": f"#/components/messages/{name}"} for name in messages}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Icekeeper events",
            "version": VERSION,
            "description": "CloudEvents of all changes, in the feed (`GET /management/v1/events`) and in sinks. New "
            "types and attributes can be added in any version: ignore unknown ones. Attributes that an event does not "
            "have are absent.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/cloudevents+json",
        "channels": {
            "events": {
                "address": "/management/v1/events",
                "description": "The feed. In streams each message is the `data` of one Server-Sent Event.",
                "messages": references,
            }
        },
        "operations": {
            "sendEvents": {
                "action": "send",
                "summary": "Send an event for each change",
                "channel": {"$ref": "#/channels/events"},
                "messages": [{"$ref": f"#/channels/events/messages/{name}"} for name in messages],
            }
        },
        "components": {
            "messages": messages,
            "schemas": {
                "Event": _schema({**_ENVELOPE, **_OF_A_CHANGE}, {**_WHERE, **_TABULAR, **_NAMED}, _DATA),
                "TabularEvent": _schema({**_ENVELOPE, **_OF_A_CHANGE, **_WHERE, **_TABULAR}, {}, _DATA),
                "Gap": _schema(_ENVELOPE, {}, _GAP_DATA),
            },
        },
    }


def read_event_examples() -> dict[str, Any]:
    """Return the recorded examples by type."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def _message(name: str, summary: str, shape: str, examples: dict[str, Any]) -> dict[str, Any]:
    of_type: Schema = {"properties": {"type": {"type": "string", "const": name}}, "required": ["type"]}
    return {
        "name": name,
        "title": name,
        "summary": summary,
        "contentType": "application/cloudevents+json",
        "payload": {"allOf": [{"$ref": f"#/components/schemas/{shape}"}, of_type]},
        "examples": [{"payload": examples[name]}],
    }


def _schema(required: Schema, optional: Schema, data: Schema) -> Schema:
    properties = {**required, "type": TEXT, **optional, "data": data}
    return {"type": "object", "properties": properties, "required": [*required, "type", "data"]}


def _shape_of(changes: Iterable[Change]) -> str:
    return "TabularEvent" if {each.value.object_type for each in changes} <= TABULAR_TYPES else "Event"


def _summary(changes: Iterable[Change]) -> str:
    return f"Change {', '.join(each.value.audit_event for each in changes)}"


@cache
def _document_bytes() -> bytes:
    return write_json(build_event_document())


def serve_event_document(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_document_bytes(), content_type="application/json")
