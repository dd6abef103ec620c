"""Requests and responses about permission checks, explanations, allowed actions and managed access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from rest_framework import serializers

from management.api.permissions.checks import MAX_CHECKS, TABULAR_IDS, TABULAR_NAMES, ActionField, ActionNames
from management.api.schema import OBJECT_TYPES, WITH_EXTENSIONS
from management.api.serializers import (
    Flag,
    GrantPrincipal,
    IdText,
    KebabSerializer,
    ResponseSerializer,
    Text,
    UserOrRole,
    VariantSerializer,
    render_grantee,
)
from management.resource_types import resource_type
from tenancy.authz.actions import ACTION_NAMES, LEGACY_ACTION_NAMES
from tenancy.authz.explanation import ALLOWALL
from tenancy.authz.permissions import Standing
from tenancy.authz.role_paths import Entry
from tenancy.models import Securable
from tenancy.selectors.explanations import VisibleGrant, VisibleStep
from tenancy.selectors.objects import NamedObject

T = Securable.Type
_LEVELS: Final = "The levels of its name"

_TABULAR_MEMBERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(TABULAR_IDS, "table-id"),
    **dict.fromkeys(TABULAR_NAMES, "table"),
}


class CheckOperation(VariantSerializer, KebabSerializer):
    action = serializers.ChoiceField([], help_text="Its name in this API; explanations also know those of batch-check")


class ProjectOperation(CheckOperation):
    project_id = Text(required=False, allow_null=True, help_text="Default: the project of the request")


class WarehouseOperation(CheckOperation):
    warehouse_id = IdText()


class NamespaceOperation(WarehouseOperation):
    namespace_id = IdText(required=False, help_text="The namespace's id; takes precedence over `namespace`")
    namespace = serializers.ListField(child=Text(), required=False, allow_empty=False, help_text=_LEVELS)


class TabularOperation(WarehouseOperation):
    table_id = IdText(
        required=False,
        help_text="The object's UUID; takes precedence over its name. Also `view-id`, `generic-table-id`",
    )
    namespace = serializers.ListField(
        child=Text(), required=False, allow_empty=False, help_text="Without an id: the levels of its namespace"
    )
    table = Text(required=False, help_text="Without an id: its name. Also `view`, `generic-table`")

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            renamed: dict[Any, Any] = {}
            for spelling, value in data.items():
                member = _TABULAR_MEMBERS.get(spelling, spelling)
                if member in renamed:
                    raise serializers.ValidationError({member: ["It is given more than once, under different names."]})
                renamed[member] = value
            data = renamed
        return super().to_internal_value(data)


class RoleOperation(CheckOperation):
    role_id = IdText(help_text="The id of a role of the request's project")


class TagOperation(CheckOperation):
    tag_definition_id = IdText(help_text="The id of a tag definition of any project")


_OPERATIONS: Final[Mapping[Securable.Type, type[CheckOperation]]] = {
    T.SERVER: CheckOperation,
    T.PROJECT: ProjectOperation,
    T.WAREHOUSE: WarehouseOperation,
    T.NAMESPACE: NamespaceOperation,
    T.TABLE: TabularOperation,
    T.VIEW: TabularOperation,
    T.GENERIC_TABLE: TabularOperation,
    T.ROLE: RoleOperation,
    T.TAG: TagOperation,
}


class PermissionCheckOperation(serializers.Serializer[Any]):
    # Exactly one member, named after the type of the object.
    action_names: ClassVar[ActionNames] = {
        kind: LEGACY_ACTION_NAMES[kind] for kind in LEGACY_ACTION_NAMES if kind is not T.ROLE
    }
    suffix: ClassVar = "Check"

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            kind.value: _OPERATIONS[kind](
                variant=f"{OBJECT_TYPES[kind].shape}{self.suffix}", choices=list(names), required=False
            )
            for kind, names in self.action_names.items()
        }


class PermissionCheckRequest(KebabSerializer):
    identity = UserOrRole(required=False, allow_null=True, help_text="Either a user or a role; default: the caller")
    operation = PermissionCheckOperation(help_text="Exactly one of its members")


class PermissionCheckResponse(ResponseSerializer):
    allowed = serializers.BooleanField()


class AllowedActionsResponse(VariantSerializer, ResponseSerializer):
    allowed_actions = serializers.ListField(child=serializers.ChoiceField([]))


class ObjectAction(VariantSerializer, ResponseSerializer):
    component = "{}ActionResponse"
    action = serializers.ChoiceField([], source="value")


class ObjectActionsResponse(VariantSerializer, ResponseSerializer):
    component = "{}ActionsResponse"
    allowed_actions = ObjectAction(many=True)


class SetManagedAccessRequest(KebabSerializer):
    managed_access = Flag(help_text="Whether owners of the objects in it may not grant privileges on them")


class WarehouseAuthPropertiesResponse(ResponseSerializer):
    managed_access = serializers.BooleanField(source="is_set")


class NamespaceAuthPropertiesResponse(ResponseSerializer):
    managed_access = serializers.BooleanField(source="is_set", help_text="Whether it is set on the namespace itself")
    managed_access_inherited = serializers.BooleanField(
        source="is_in_effect",
        help_text="Whether it applies: set on the namespace, on a parent, or on the warehouse",
    )


# The request of a batch check is described here and parsed by `management.api.permissions.checks`.


class ServerActionOperation(KebabSerializer):
    action = ActionField(T.SERVER)


class ProjectActionOperation(KebabSerializer):
    action = ActionField(T.PROJECT)
    project_id = Text(required=False, allow_null=True, help_text="Default: the project of the request")


class WarehouseActionOperation(KebabSerializer):
    action = ActionField(T.WAREHOUSE)
    warehouse_id = IdText()


class NamespaceActionOperation(KebabSerializer):
    action = ActionField(T.NAMESPACE)
    warehouse_id = IdText()
    namespace_id = IdText(required=False, help_text="Or `namespace`")
    namespace = serializers.ListField(child=Text(), required=False, help_text=_LEVELS)


class TableActionOperation(KebabSerializer):
    action = ActionField(T.TABLE)
    warehouse_id = IdText()
    table_id = IdText(required=False, help_text="The object's UUID. Also `view_id`, `generic_table_id`")
    namespace = serializers.ListField(child=Text(), required=False, help_text="Without an id: the levels, and `table`")
    table = Text(required=False, help_text="Its name. Also `view`, `generic_table`")


class ViewActionOperation(TableActionOperation):
    action = ActionField(T.VIEW)


class GenericTableActionOperation(TableActionOperation):
    action = ActionField(T.GENERIC_TABLE)


class ActionCheckOperation(KebabSerializer):
    """Exactly one of these."""

    server = ServerActionOperation(required=False)
    project = ProjectActionOperation(required=False)
    warehouse = WarehouseActionOperation(required=False)
    namespace = NamespaceActionOperation(required=False)
    table = TableActionOperation(required=False)
    view = ViewActionOperation(required=False)
    generic_table = GenericTableActionOperation(required=False)


class ActionCheckItem(KebabSerializer):
    id = Text(required=False, allow_null=True, help_text="Returned with the result; default: the index, from 0")
    identity = UserOrRole(required=False, allow_null=True, help_text="Default: the caller")
    operation = ActionCheckOperation()


class ActionsBatchCheckRequest(KebabSerializer):
    checks = serializers.ListField(child=ActionCheckItem(), max_length=MAX_CHECKS)
    error_on_not_found = Flag(
        default=False,
        help_text="404 for an object that does not exist or is hidden from the caller; by default it is denied",
    )


class ActionCheckError(ResponseSerializer):
    message = Text(help_text="The error message")
    type = Text(source="wire_type", help_text="`CannotInspectPermissions`, `RoleIdNotFound`, ...")
    code = serializers.IntegerField(source="status", help_text="The status of a request for this check alone")


class ActionCheckResult(ResponseSerializer):
    id = Text()
    allowed = serializers.BooleanField()
    error = ActionCheckError(
        required=False, help_text=f"Why the check was not evaluated; `allowed` is false then. {WITH_EXTENSIONS}"
    )


class ActionsBatchCheckResponse(ResponseSerializer):
    results = serializers.ListField(child=ActionCheckResult(), help_text="In the order of the checks")


STANDING = [ALLOWALL, Standing.BLOCKED.value, Standing.EVERYBODY.value, Standing.INSTANCE_ADMIN.value]


class ExplainOperation(PermissionCheckOperation):
    action_names = ACTION_NAMES
    suffix = "Explain"


class ExplainRequest(PermissionCheckRequest):
    operation = ExplainOperation(help_text="Exactly one of its members")


class ExplainedObject(ResponseSerializer):
    type = serializers.ChoiceField([resource_type(each) for each in ACTION_NAMES])
    id = Text(source="object_id", help_text="The id that clients see")
    warehouse_id = serializers.UUIDField(required=False, help_text="Of objects in a warehouse")
    namespace = serializers.ListField(
        child=Text(), required=False, help_text="The levels of a namespace, or of the namespace of a table or view"
    )
    name = Text(required=False, help_text="Of a project, warehouse, table, view, role or tag")

    def render_type(self, found: NamedObject) -> str:
        return resource_type(found.securable_type)

    def render_namespace(self, found: NamedObject) -> Sequence[str] | None:
        return found.levels or None


class ExplainedMembership(ResponseSerializer):
    role = serializers.UUIDField(source="role_id")
    name = Text(source="role_name")
    entry = serializers.ChoiceField(
        [each.value for each in Entry],
        help_text="How the previous role, or for the first role the principal of the check, became a member",
    )
    expires_at = serializers.DateTimeField(required=False, help_text="Absent for a permanent membership")


class ExplainedGrant(ResponseSerializer):
    privilege = Text()
    principal = GrantPrincipal(help_text="The grantee")
    through = ExplainedMembership(
        many=True,
        required=False,
        help_text="The chain of memberships to the grantee, starting with the principal's own; empty for a grant to "
        "the user, absent when the caller may not read the members of these roles",
    )
    expires_at = serializers.DateTimeField(required=False, help_text="Absent for a permanent grant")

    def render_principal(self, grant: VisibleGrant) -> dict[str, str]:
        return render_grantee(grant.grantee)


class ExplainedStep(ResponseSerializer):
    withheld = serializers.BooleanField(
        help_text="True for steps on objects whose grants the caller may not read; then all other members are absent"
    )
    relation = Text(required=False, help_text="A privilege, or `can_` and an action, as in the authorization model")
    object = ExplainedObject(required=False)
    grant = ExplainedGrant(required=False, help_text="Absent when the step follows from the previous steps")

    def to_representation(self, instance: VisibleStep | None) -> dict[str, Any]:
        return {"withheld": True} if instance is None else super().to_representation(instance)

    def render_withheld(self, _: VisibleStep) -> bool:
        return False


class ExplainedCure(ResponseSerializer):
    privilege = Text()
    object = ExplainedObject()


class ExplainResponse(ResponseSerializer):
    allowed = serializers.BooleanField(source="is_allowed", help_text="The result of `permissions/check`")
    by_grants = serializers.BooleanField(
        source="is_by_grants",
        help_text="Whether grants allow it. Differs from `allowed` where `standing` has the reason, while a change is "
        "not yet delivered to OpenFGA, and with a custom authorization backend",
    )
    standing = serializers.ChoiceField(
        STANDING,
        required=False,
        help_text="What decides independently of grants: authorization is off, the user is blocked, the action is "
        "allowed for every user, or the user is an instance admin",
    )
    chain = ExplainedStep(
        many=True, help_text="If grants allow it: the shortest chain from a grant to the action, in that order"
    )
    cures = ExplainedCure(
        many=True,
        help_text="If grants do not allow it: up to 50 grants on the object or its parents, each of which is "
        "sufficient, nearest and weakest first",
    )
