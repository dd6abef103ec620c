"""Reading of requests about permissions: one check or explanation, the checks of a batch, and the actions in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from catalog.identifiers import Levels
from catalog.objects import TABULARS, ObjectKey, find_permission_target
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementViewSet
from management.api.serializers import read_grantee, read_uuid
from tenancy.actor import Grantee
from tenancy.authz.actions import ACTIONS_ON, Can
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.objects import PermissionTarget, find_role_target, find_tag_target, target_project, the_server
from tenancy.selectors.permission_checks import THE_SERVER, ActionCheck
from tenancy.selectors.projects import ProjectIdMissing, require_project_id

T = Securable.Type
ActionNames = Mapping[Securable.Type, Mapping[str, Can]]
MAX_CHECKS: Final = 1000
TABULAR_IDS: Final = ("table-id", "view-id", "generic-table-id", "table_id", "view_id", "generic_table_id")
TABULAR_NAMES: Final = ("table", "view", "generic-table", "generic_table")
"""The members that may hold the id, and the name, of a table, view or generic table: clients use all of them."""


@dataclass(frozen=True, slots=True)
class PermissionCheck:
    """`grantee` is None for the caller."""

    grantee: Grantee | None
    target: PermissionTarget
    action: Can


def read_check(
    view: ManagementViewSet, shape: type[serializers.Serializer[Any]], names: ActionNames
) -> PermissionCheck:
    """Raises `BadRequest`, the 404 of the object's type, or what `read_grantee` raises."""
    body = view.body(shape)
    identity, operation = body.get("identity"), body["operation"]
    grantee = None if identity is None else read_grantee(identity, "identity")
    if len(operation) != 1:
        raise BadRequest(f"operation: exactly one of {', '.join(each.value for each in names)} is required")
    ((name, given),) = operation.items()
    kind = Securable.Type(name)
    return PermissionCheck(grantee, _target(view, kind, given), names[kind][given["action"]])


def _target(view: ManagementViewSet, kind: Securable.Type, given: dict[str, Any]) -> PermissionTarget:
    match kind:
        case T.SERVER:
            return the_server()
        case T.PROJECT:
            return target_project(view.project(given.get("project_id")))
        case T.ROLE:
            role_id = read_uuid(given["role_id"], "operation.role.role-id")
            return find_role_target(project=view.project(), role_id=role_id)
        case T.TAG:
            definition_id = read_uuid(given["tag_definition_id"], "operation.tag.tag-definition-id")
            return find_tag_target(project=None, definition_id=definition_id)
        case _:
            return find_permission_target(key=_object_key(kind, given), project=None)


def _object_key(kind: Securable.Type, given: dict[str, Any]) -> ObjectKey:
    where = f"operation.{kind.value}"
    warehouse_id = read_uuid(given["warehouse_id"], f"{where}.warehouse-id")
    if kind is T.WAREHOUSE:
        return ObjectKey(kind, warehouse_id)
    member = "namespace-id" if kind is T.NAMESPACE else "table-id"
    object_id = given.get(member.replace("-", "_"))
    if object_id is not None:
        return ObjectKey(kind, warehouse_id, read_uuid(object_id, f"{where}.{member}"))
    levels, name = given.get("namespace"), given.get("table", "")
    if levels is None or (kind is not T.NAMESPACE and not name):
        raise BadRequest(f"{where}: {member} or the name is required")
    return ObjectKey(kind, warehouse_id, None, tuple(levels), name)


@dataclass(frozen=True, slots=True)
class ContextMember:
    """The type of a member: its name in error messages, its schema, and whether it accepts a value."""

    name: str
    schema: Mapping[str, Any]
    accepts: Callable[[Any], bool]


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
    (T.SERVER, Can.CREATE_PROJECT): {"name": _TEXT, "project_id": _TEXT},
    (T.PROJECT, Can.CREATE_WAREHOUSE): _NAMED,
    (T.PROJECT, Can.CREATE_ROLE): _NAMED,
    (T.PROJECT, Can.CREATE_TAG): _NAMED,
    (T.WAREHOUSE, Can.CREATE_NAMESPACE): _CREATED,
    (T.WAREHOUSE, Can.ACCEPT_MOVED_NAMESPACE): {"source": _TEXTS},
    (T.NAMESPACE, Can.CREATE_TABLE): {**_CREATED, "table_id": _ID},
    (T.NAMESPACE, Can.CREATE_VIEW): _CREATED,
    (T.NAMESPACE, Can.CREATE_NAMESPACE): _CREATED,
    (T.NAMESPACE, Can.CREATE_GENERIC_TABLE): {
        **_CREATED,
        "generic_table_id": _ID,
        "format": _TEXT,
        "base_location": _TEXT,
    },
    (T.NAMESPACE, Can.DELETE): {**_DROPPED, "recursive": _FLAG},
    (T.NAMESPACE, Can.UPDATE_PROPERTIES): _UPDATED,
    (T.NAMESPACE, Can.MOVE): {"destination": _TEXTS, "force": _FLAG},
    (T.NAMESPACE, Can.ACCEPT_MOVED_NAMESPACE): {"source": _TEXTS},
    (T.TABLE, Can.DROP): _DROPPED,
    (T.TABLE, Can.COMMIT): {**_UPDATED, "target_refs": _TEXTS, "update_kinds": _TEXTS},
    (T.VIEW, Can.DROP): _DROPPED,
    (T.VIEW, Can.COMMIT): _UPDATED,
    (T.GENERIC_TABLE, Can.DROP): _DROPPED,
}
"""What would be created, dropped, updated or moved, by type of objects and action; the other actions have none.

Custom authorizers may use it. Ours does not: it is validated and then ignored.
"""

REQUIRED: Final = {(T.NAMESPACE, Can.MOVE): "destination"}


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


# The checks of a batch are parsed without serializers, which would cost more than the evaluation, and a malformed check
# does not fail the others.

_TYPES: Final = {each.value: each for each in (T.SERVER, T.PROJECT, T.WAREHOUSE, T.NAMESPACE, *TABULARS)}


class TooManyChecks(BadRequest):
    wire_type = "TooManyChecks"


class AmbiguousCheckId(BadRequest):
    """The result of a check without an id has the index for its id, and another check has that id."""

    wire_type = "AmbiguousCheckId"


def read_items(body: Any) -> list[Any]:
    """Return the unparsed checks. Raises `TooManyChecks`, `BadRequest`."""
    checks = body.get("checks")
    if not isinstance(checks, list):
        raise BadRequest("checks: must be a list")
    if len(checks) > MAX_CHECKS:
        raise TooManyChecks(f"checks: {len(checks)} checks; the maximum is {MAX_CHECKS}")
    return checks


def read_must_exist(body: Any) -> bool:
    given = body.get("error-on-not-found", False)
    if not isinstance(given, bool):
        raise BadRequest("error-on-not-found: must be true or false")
    return given


def read_ids(items: list[Any]) -> list[str]:
    """Return the id of each result: that of its check, else the index. Two checks may have the same id.

    Raises `AmbiguousCheckId`.
    """
    ids = [item.get("id") if isinstance(item, dict) else None for item in items]
    given = {each for each in ids if isinstance(each, str)}
    found = []
    for index, each in enumerate(ids):
        if not isinstance(each, str) and str(index) in given:
            raise AmbiguousCheckId(f"id: {str(index)!r} is also the index, from 0, of a check without an id")
        found.append(each if isinstance(each, str) else str(index))
    return found


def read_batch_check(item: Any, own_project: str | None) -> ActionCheck | CatalogError:
    """Read one check, of the project `own_project` if it names none. An error is returned."""
    try:
        return _batch_check(item, own_project)
    except BadRequest as error:
        return error


def _batch_check(item: Any, own_project: str | None) -> ActionCheck:
    if not isinstance(item, dict):
        raise BadRequest("A check must be an object")
    if not isinstance(item.get("id"), str | None):
        raise BadRequest("id: must be a string")
    identity = item.get("identity")
    grantee = None if identity is None else _batch_grantee(identity)
    operation = item.get("operation")
    if not isinstance(operation, dict) or len(operation) != 1:
        raise BadRequest(f"operation: must be an object with one of {', '.join(_TYPES)}")
    ((name, given),) = operation.items()
    securable_type = _TYPES.get(name)
    if securable_type is None:
        raise BadRequest(f"operation: {name[:100]!r} is none of {', '.join(_TYPES)}")
    if not isinstance(given, dict):
        raise BadRequest(f"operation.{name}: must be an object")
    action = read_action(given.get("action"), securable_type)
    if securable_type is T.SERVER:
        return ActionCheck(action, THE_SERVER, grantee)
    if securable_type is T.PROJECT:
        return ActionCheck(action, _batch_project(given, own_project), grantee)
    return ActionCheck(action, _batch_object_key(given, securable_type), grantee)


def _batch_grantee(identity: Any) -> Grantee:
    if not isinstance(identity, dict) or not identity.keys() <= {"user", "role"}:
        raise BadRequest("identity: must be an object with either user or role")
    if not all(isinstance(each, str | None) for each in identity.values()):
        raise BadRequest("identity: ids are strings")
    return read_grantee(identity, "identity")


def _batch_project(given: dict[str, Any], own_project: str | None) -> ObjectRef:
    project_id = given.get("project-id")
    if not isinstance(project_id, str | None):
        raise BadRequest("project-id: must be a string")
    if project_id is None and own_project is None:
        raise ProjectIdMissing("project-id: required, as there is no default project")
    return ObjectRef(T.PROJECT, own_project if project_id is None else require_project_id(project_id))


def _batch_object_key(given: dict[str, Any], securable_type: Securable.Type) -> ObjectKey:
    warehouse_id = read_uuid(given.get("warehouse-id"), "warehouse-id")
    if securable_type is T.WAREHOUSE:
        return ObjectKey(securable_type, warehouse_id)
    is_namespace = securable_type is T.NAMESPACE
    object_id = _one_of(given, ("namespace-id",) if is_namespace else TABULAR_IDS)
    if object_id is not None:
        return ObjectKey(securable_type, warehouse_id, read_uuid(*object_id))
    levels = _levels(given.get("namespace"))
    if is_namespace:
        return ObjectKey(securable_type, warehouse_id, None, levels)
    name = _one_of(given, TABULAR_NAMES)
    if name is None or not isinstance(name[0], str) or not name[0]:
        raise BadRequest(f"operation: the id or the name of the {securable_type.value} is required")
    return ObjectKey(securable_type, warehouse_id, None, levels, name[0])


def _one_of(given: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, str] | None:
    """Return the value of the only member with one of these names, and that name. Raises `BadRequest` for several."""
    found = [name for name in names if name in given]
    if len(found) > 1:
        raise BadRequest(f"operation: only one of {' and '.join(found)} is allowed")
    return (given[found[0]], found[0]) if found else None


def _levels(value: Any) -> Levels:
    if not isinstance(value, list) or not value or not all(isinstance(level, str) for level in value):
        raise BadRequest("namespace: must be a list of at least one name")
    return tuple(value)
