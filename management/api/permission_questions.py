"""What `permissions/check` and `permissions/explain` are asked: about one action on one object, of somebody.

The two differ in the words for actions that they know, and so in the types of objects: roles and tags are explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rest_framework import serializers

from catalog.objects.object_keys import ObjectKey, find_target
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.serializers import KebabSerializer, Text
from management.api.base import ManagementView
from management.api.principals import UserOrRole, read_grantee
from management.api.schema import BAD_USER_ID, MISSING_OBJECTS, NO_WAREHOUSE, PROJECT_ERRORS
from management.api.serializers import IdText
from management.api.tabulars.serializers import require_uuid
from tenancy.actor import Grantee
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.selectors.objects import RightsTarget, find_role_target, find_tag_target, target_project, the_server

T = Securable.Type
Words = Mapping[Securable.Type, Mapping[str, Can]]

BAD_QUESTION: Final = f"{PROJECT_ERRORS[400]}, {BAD_USER_ID}"
NOTHING_THERE: Final = f"{', '.join(MISSING_OBJECTS.values())}, {NO_WAREHOUSE}, {PROJECT_ERRORS[404]}"

_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("table_id", "view_id", "view-id", "generic_table_id", "generic-table-id"), "table-id"),
    **dict.fromkeys(("view", "generic_table", "generic-table"), "table"),
}
"""Other spellings of the members that say which table, view or generic table is meant."""


class _Levels(serializers.ListField):
    child = Text()

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, allow_empty=False, **options)


class _Server(KebabSerializer):
    pass


class _Project(KebabSerializer):
    project_id = Text(required=False, allow_null=True, help_text="Default: the project of the request")


class _Warehouse(KebabSerializer):
    warehouse_id = IdText()


class _Namespace(KebabSerializer):
    warehouse_id = IdText()
    namespace_id = IdText(required=False, help_text="Or `namespace`; with both this counts")
    namespace = _Levels(help_text="Its levels")


class _Tabular(KebabSerializer):
    warehouse_id = IdText()
    table_id = IdText(
        required=False,
        help_text="As clients know it; with a name beside it this counts. Also `view-id`, `generic-table-id`",
    )
    namespace = _Levels(help_text="Without an id: its levels, and the name in `table`")
    table = Text(required=False, help_text="Its name. Also `view`, `generic-table`")

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            renamed: dict[Any, Any] = {}
            for name, value in data.items():
                meant = _ALIASES.get(name, name)
                if meant in renamed:
                    raise serializers.ValidationError({meant: ["It is given under two names."]})
                renamed[meant] = value
            data = renamed
        return super().to_internal_value(data)


class _Role(KebabSerializer):
    role_id = IdText(help_text="Of a role of the request's project")


class _Tag(KebabSerializer):
    tag_definition_id = IdText(help_text="Of a tag definition of any project")


_PLACES: Final[Mapping[Securable.Type, tuple[str, type[KebabSerializer]]]] = {
    T.SERVER: ("Server", _Server),
    T.PROJECT: ("Project", _Project),
    T.WAREHOUSE: ("Warehouse", _Warehouse),
    T.NAMESPACE: ("Namespace", _Namespace),
    T.TABLE: ("Table", _Tabular),
    T.VIEW: ("View", _Tabular),
    T.GENERIC_TABLE: ("GenericTable", _Tabular),
    T.ROLE: ("Role", _Role),
    T.TAG: ("Tag", _Tag),
}


def operation_shape(words: Words, *, name: str, of_type: str, told: str | None = None) -> KebabSerializer:
    """The member `operation`, about the types that have `words`: its shape is called `name`, that of a type `Table` and
    `of_type`; `told` is said of the actions."""
    members: dict[str, Any] = {}
    for kind, known in words.items():
        noun, place = _PLACES[kind]
        action = serializers.ChoiceField(list(known), help_text=told)
        asked: type[KebabSerializer] = type(f"{noun}{of_type}", (place,), {"action": action})
        members[kind.value.replace("-", "_")] = asked(required=False)
    shape: type[KebabSerializer] = type(name, (KebabSerializer,), members)
    return shape(help_text="Exactly one of its members")


class PermissionQuestion(KebabSerializer):  # with a member `operation`: see `operation_shape`
    identity = UserOrRole(required=False, allow_null=True, help_text="Either a user or a role; default: who asks")


@dataclass(frozen=True, slots=True)
class Asked:
    """`grantee` None: about whoever asks."""

    grantee: Grantee | None
    target: RightsTarget
    action: Can


def read_question(view: ManagementView, shape: type[PermissionQuestion], words: Words) -> Asked:
    """Raises `BadRequest`, the 404 of the object's type, and what `read_grantee` raises."""
    body = view.body(shape)
    identity, operation = body.get("identity"), body["operation"]
    grantee = None if identity is None else read_grantee(identity, "identity")
    if len(operation) != 1:
        raise BadRequest(f"operation: there must be exactly one of {', '.join(each.value for each in words)}")
    ((name, asked),) = operation.items()
    kind = Securable.Type(name.replace("_", "-"))
    return Asked(grantee, _target(view, kind, asked), words[kind][asked["action"]])


def _target(view: ManagementView, kind: Securable.Type, asked: dict[str, Any]) -> RightsTarget:
    match kind:
        case T.SERVER:
            return the_server()
        case T.PROJECT:
            return target_project(view.project(asked.get("project_id")))
        case T.ROLE:
            role_id = require_uuid(asked["role_id"], "operation.role.role-id")
            return find_role_target(actor=view.actor, project=view.project(), role_id=role_id)
        case T.TAG:
            definition_id = require_uuid(asked["tag_definition_id"], "operation.tag.tag-definition-id")
            return find_tag_target(actor=view.actor, project=None, definition_id=definition_id)
        case _:
            return find_target(actor=view.actor, key=_object_key(kind, asked), project=None)


def _object_key(kind: Securable.Type, asked: dict[str, Any]) -> ObjectKey:
    where = f"operation.{kind.value}"
    warehouse_id = require_uuid(asked["warehouse_id"], f"{where}.warehouse-id")
    if kind is T.WAREHOUSE:
        return ObjectKey(kind, warehouse_id)
    own = "namespace-id" if kind is T.NAMESPACE else "table-id"
    own_id = asked.get(own.replace("-", "_"))
    if own_id is not None:
        return ObjectKey(kind, warehouse_id, require_uuid(own_id, f"{where}.{own}"))
    levels, name = asked.get("namespace"), asked.get("table", "")
    if levels is None or (kind is not T.NAMESPACE and not name):
        raise BadRequest(f"{where}: there must be {own}, or the name")
    return ObjectKey(kind, warehouse_id, None, tuple(levels), name)
