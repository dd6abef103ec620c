"""The single question whether somebody may do something, in the older words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.selectors.addressed import Address
from catalog.selectors.rights_targets import RightsTarget, find_target, target_project, the_server
from icekeeper.kernel.api_shapes import KebabSerializer, Text, answers
from icekeeper.kernel.errors import BadRequest
from management.api.base import NO_WAREHOUSE, PROJECT_HEADER, PROJECT_REFUSALS, ManagementView
from management.api.permission_places import TAGS
from management.api.principals import UserOrRole, read_grantee
from management.api.protection import MISSING
from management.api.tabular_shapes import IdText, required_id
from management.api.users import BAD_USER_ID
from tenancy.authz.vocabulary import OLD_WORDS
from tenancy.models import Securable
from tenancy.selectors.allowed_actions import is_allowed_for

T = Securable.Type

_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("table_id", "view_id", "view-id", "generic_table_id", "generic-table-id"), "table-id"),
    **dict.fromkeys(("view", "generic_table", "generic-table"), "table"),
}
"""Other spellings of the members that say which table, view or generic table is meant."""


def _action(kind: Securable.Type) -> serializers.ChoiceField:
    return serializers.ChoiceField(list(OLD_WORDS[kind]))


class _Levels(serializers.ListField):
    child = Text()

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, allow_empty=False, **options)


class ServerCheck(KebabSerializer):
    action = _action(T.SERVER)


class ProjectCheck(KebabSerializer):
    action = _action(T.PROJECT)
    project_id = Text(required=False, allow_null=True, help_text="Default: the project of the request")


class WarehouseCheck(KebabSerializer):
    action = _action(T.WAREHOUSE)
    warehouse_id = IdText()


class NamespaceCheck(KebabSerializer):
    action = _action(T.NAMESPACE)
    warehouse_id = IdText()
    namespace_id = IdText(required=False, help_text="Or `namespace`; with both this counts")
    namespace = _Levels(help_text="Its levels")


class TabularCheck(KebabSerializer):
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


class TableCheck(TabularCheck):
    action = _action(T.TABLE)


class ViewCheck(TabularCheck):
    action = _action(T.VIEW)


class GenericTableCheck(TabularCheck):
    action = _action(T.GENERIC_TABLE)


class PermissionCheckOperation(KebabSerializer):
    server = ServerCheck(required=False)
    project = ProjectCheck(required=False)
    warehouse = WarehouseCheck(required=False)
    namespace = NamespaceCheck(required=False)
    table = TableCheck(required=False)
    view = ViewCheck(required=False)
    generic_table = GenericTableCheck(required=False)


class PermissionCheckRequest(KebabSerializer):
    identity = UserOrRole(required=False, allow_null=True, help_text="Either a user or a role; default: who asks")
    operation = PermissionCheckOperation(help_text="Exactly one of its members")


class PermissionCheckResponse(KebabSerializer):
    allowed = serializers.BooleanField()


class PermissionCheckView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="check_permission",
        tags=TAGS,
        summary="Whether somebody may do something",
        description="To ask about oneself takes to see the object, to ask about somebody else the right to read the "
        "grants there. Inactive warehouses and what was dropped and can be restored are found by their ids.",
        parameters=[PROJECT_HEADER],
        request=PermissionCheckRequest,
        responses=answers(
            {200: PermissionCheckResponse},
            {
                400: f"{PROJECT_REFUSALS[400]}, {BAD_USER_ID}",
                404: f"{', '.join(MISSING.values())}, {NO_WAREHOUSE}, {PROJECT_REFUSALS[404]}; "
                "`UserNotFound`, `RoleIdNotFound`: nobody is whom `identity` names",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(PermissionCheckRequest)
        identity = body.get("identity")
        grantee = None if identity is None else read_grantee(identity, "identity")
        kind, asked = only_operation(body["operation"])
        target = find_place(self, kind, asked)
        allowed = is_allowed_for(
            actor=self.actor,
            grantee=grantee,
            ref=target.ref,
            action=OLD_WORDS[kind][asked["action"]],
            missing=target.missing,
        )
        return Response({"allowed": allowed})


def find_place(view: ManagementView, kind: Securable.Type, asked: dict[str, Any]) -> RightsTarget:
    """The object that an operation of a type is about. Raises `BadRequest`, and the 404 of its type."""
    if kind is T.SERVER:
        return the_server()
    if kind is T.PROJECT:
        return target_project(view.project(asked.get("project_id")))
    return find_target(actor=view.actor, address=_address(kind, asked), project=None)


def only_operation(operation: dict[str, Any]) -> tuple[Securable.Type, dict[str, Any]]:
    """The one type that is asked about, and what is asked. Raises `BadRequest`."""
    if len(operation) != 1:
        raise BadRequest(f"operation: there must be exactly one of {', '.join(PermissionCheckOperation().fields)}")
    ((name, asked),) = operation.items()
    return Securable.Type(name.replace("_", "-")), asked


def _address(kind: Securable.Type, asked: dict[str, Any]) -> Address:
    where = f"operation.{kind.value}"
    warehouse_id = required_id(asked["warehouse_id"], f"{where}.warehouse-id")
    if kind is T.WAREHOUSE:
        return Address(kind, warehouse_id)
    own = "namespace-id" if kind is T.NAMESPACE else "table-id"
    own_id = asked.get(own.replace("-", "_"))
    if own_id is not None:
        return Address(kind, warehouse_id, required_id(own_id, f"{where}.{own}"))
    levels, name = asked.get("namespace"), asked.get("table", "")
    if levels is None or (kind is not T.NAMESPACE and not name):
        raise BadRequest(f"{where}: there must be {own}, or the name")
    return Address(kind, warehouse_id, None, tuple(levels), name)
