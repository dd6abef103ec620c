"""Requests for explanations of permission checks, and their responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from icekeeper.kernel.http.serializers import Text
from management.api.permissions.serializers import PermissionCheckOperation, PermissionCheckRequest
from management.api.serializers import GrantPrincipal, ResponseSerializer, render_grantee, resource_type
from tenancy.authz.action_names import ACTION_NAMES
from tenancy.authz.builtin.role_paths import Entry
from tenancy.authz.explanation import ALLOWALL
from tenancy.authz.permissions import Standing
from tenancy.selectors.explanations import VisibleGrant, VisibleStep
from tenancy.selectors.objects import NamedObject

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
