"""The context of an action in batch checks: what would be created, dropped, updated or moved.

Custom authorizers may use it. Ours does not: it is validated and then ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import parse_id
from tenancy.authz.action_names import ACTIONS_ON
from tenancy.authz.actions import Can
from tenancy.models import Securable


@dataclass(frozen=True, slots=True)
class ContextMember:
    """The type of a member: its name in error messages, its schema, and whether it accepts a value."""

    name: str
    schema: Mapping[str, Any]
    accepts: Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_id(value: Any) -> bool:
    return value is None or (isinstance(value, str) and parse_id(value) is not None)


def _is_properties(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


_TEXT: Final = ContextMember(
    "a string or null", {"type": "string", "nullable": True}, lambda v: v is None or isinstance(v, str)
)
_ID: Final = ContextMember("a UUID or null", {"type": "string", "format": "uuid", "nullable": True}, _is_id)
_FLAG: Final = ContextMember("true or false", {"type": "boolean"}, lambda v: isinstance(v, bool))
_TEXTS: Final = ContextMember("a list of strings", {"type": "array", "items": {"type": "string"}}, _is_texts)
_PROPERTIES: Final = ContextMember(
    "an object of strings", {"type": "object", "additionalProperties": {"type": "string"}}, _is_properties
)

_NAMED: Final = {"name": _TEXT}
_CREATED: Final = {"name": _TEXT, "properties": _PROPERTIES}
_DROPPED: Final = {"force": _FLAG, "purge": _FLAG}
_UPDATED: Final = {"updated_properties": _PROPERTIES, "removed_properties": _TEXTS}

CONTEXTS: Final[Mapping[tuple[Securable.Type, Can], Mapping[str, ContextMember]]] = {
    (Securable.Type.SERVER, Can.CREATE_PROJECT): {"name": _TEXT, "project_id": _TEXT},
    (Securable.Type.PROJECT, Can.CREATE_WAREHOUSE): _NAMED,
    (Securable.Type.PROJECT, Can.CREATE_ROLE): _NAMED,
    (Securable.Type.PROJECT, Can.CREATE_TAG): _NAMED,
    (Securable.Type.WAREHOUSE, Can.CREATE_NAMESPACE): _CREATED,
    (Securable.Type.WAREHOUSE, Can.ACCEPT_MOVED_NAMESPACE): {"source": _TEXTS},
    (Securable.Type.NAMESPACE, Can.CREATE_TABLE): {**_CREATED, "table_id": _ID},
    (Securable.Type.NAMESPACE, Can.CREATE_VIEW): _CREATED,
    (Securable.Type.NAMESPACE, Can.CREATE_NAMESPACE): _CREATED,
    (Securable.Type.NAMESPACE, Can.CREATE_GENERIC_TABLE): {
        **_CREATED,
        "generic_table_id": _ID,
        "format": _TEXT,
        "base_location": _TEXT,
    },
    (Securable.Type.NAMESPACE, Can.DELETE): {**_DROPPED, "recursive": _FLAG},
    (Securable.Type.NAMESPACE, Can.UPDATE_PROPERTIES): _UPDATED,
    (Securable.Type.NAMESPACE, Can.MOVE): {"destination": _TEXTS, "force": _FLAG},
    (Securable.Type.NAMESPACE, Can.ACCEPT_MOVED_NAMESPACE): {"source": _TEXTS},
    (Securable.Type.TABLE, Can.DROP): _DROPPED,
    (Securable.Type.TABLE, Can.COMMIT): {**_UPDATED, "target_refs": _TEXTS, "update_kinds": _TEXTS},
    (Securable.Type.VIEW, Can.DROP): _DROPPED,
    (Securable.Type.VIEW, Can.COMMIT): _UPDATED,
    (Securable.Type.GENERIC_TABLE, Can.DROP): _DROPPED,
}
"""By type of objects and action; the other actions have none."""

REQUIRED: Final = {(Securable.Type.NAMESPACE, Can.MOVE): "destination"}


def read_action(value: Any, securable_type: Securable.Type) -> Can:
    """Read an action such as `{"action": "drop", "force": true}`. Unknown members are ignored. Raises `BadRequest`."""
    if not isinstance(value, dict) or not isinstance(value.get("action"), str):
        raise BadRequest('action: must be an object such as {"action": "get_metadata"}')
    action = next((each for each in ACTIONS_ON[securable_type] if each.value == value["action"]), None)
    if action is None:
        raise BadRequest(f"action: {value['action'][:100]!r} is not an action on a {securable_type.value}")
    key = (securable_type, action)
    for name, kind in CONTEXTS.get(key, {}).items():
        if name in value and not kind.accepts(value[name]):
            raise BadRequest(f"action.{name}: must be {kind.name}")
    if key in REQUIRED and REQUIRED[key] not in value:
        raise BadRequest(f"action.{REQUIRED[key]}: required")
    return action


class ActionField(serializers.DictField):
    """An action on objects of a type, with its context; parsed by `read_action`."""

    def __init__(self, securable_type: Securable.Type, **options: Any) -> None:
        super().__init__(**options)
        self.securable_type = securable_type


class ActionFieldSchema(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = ActionField

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        securable_type: Securable.Type = self.target.securable_type
        own = {key[1]: kinds for key, kinds in CONTEXTS.items() if key[0] == securable_type}
        members = {name: dict(kind.schema) for kinds in own.values() for name, kind in kinds.items()}
        for name, schema in members.items():
            actions = ", ".join(f"`{action.value}`" for action, kinds in own.items() if name in kinds)
            schema["description"] = f"With {actions}"
        names = {"type": "string", "enum": [action.value for action in ACTIONS_ON[securable_type]]}
        return {"type": "object", "properties": {"action": names, **members}, "required": ["action"]}
