"""Requests and responses about grants and assignments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from rest_framework import serializers

from icekeeper.kernel.errors.types import BadRequest
from management.api.serializers import (
    LAST_PAGE,
    GrantPrincipal,
    IdText,
    KebabSerializer,
    ResponseSerializer,
    StrictSerializer,
    Text,
    VariantSerializer,
    is_seen,
    read_grantee,
    render_grantee,
)
from management.api.users.serializers import SEEN
from management.resource_types import resource_type
from tenancy.authz.actions import Privilege, is_privilege
from tenancy.models import Securable
from tenancy.selectors.grants import ListedGrant
from tenancy.selectors.objects import NamedObject
from tenancy.services.grants import (
    MAX_CHANGES,
    MAX_PRIVILEGE_LENGTH,
    Difference,
    GrantDiffTooLarge,
    GrantSpec,
    build_difference,
)

T = Securable.Type
GRANTED_ON: Final = (
    T.SERVER, T.PROJECT, T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE, T.TAG,
)  # fmt: skip
"""Types of objects with routes for grants; the members of roles have their own."""
RESOURCE_TYPES: Final = [resource_type(each) for each in GRANTED_ON]

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_NO_EXPIRY: Final = "Absent when there is no expiry"


class EmptyGrantDiff(BadRequest):
    wire_type = "EmptyGrantDiff"


class ExpiryField(serializers.DateTimeField):
    """A time in RFC 3339 with a zone; DRF's own field also takes dates, and times without a zone."""

    def to_internal_value(self, value: Any) -> datetime:
        if not isinstance(value, str) or not _TIME.fullmatch(value):
            self.fail("invalid", format="2027-01-31T18:00:00Z")
        return super().to_internal_value(value)


class RevokeEntry(StrictSerializer):
    privilege = Text(
        allow_blank=True,
        help_text=f"1 to {MAX_PRIVILEGE_LENGTH} characters; grants of a privilege that no longer exists can be revoked",
    )
    principal = GrantPrincipal()


class GrantEntry(StrictSerializer):
    privilege = Text(allow_blank=True, help_text="A privilege that can be granted on the resource")
    principal = GrantPrincipal()
    expires_at = ExpiryField(
        required=False, allow_null=True, help_text="The expiry, none by default; replaces that of an existing grant"
    )


class ApplyGrantsRequest(StrictSerializer):
    """At least one entry, and at most 100 in both together."""

    writes = serializers.ListField(child=GrantEntry(), required=False, max_length=MAX_CHANGES, help_text="To grant")
    deletes = serializers.ListField(child=RevokeEntry(), required=False, max_length=MAX_CHANGES, help_text="To revoke")

    @staticmethod
    def require_size(body: Any) -> None:
        """Check the number of entries before they are parsed. Raises `GrantDiffTooLarge` (400)."""
        lists = [body.get(name) for name in ("writes", "deletes")] if isinstance(body, dict) else []
        number = sum(len(each) for each in lists if isinstance(each, list))
        if number > MAX_CHANGES:
            raise GrantDiffTooLarge(f"{number} changes of grants in one request; the maximum is {MAX_CHANGES}")


class GrantResource(ResponseSerializer):
    type = serializers.ChoiceField(RESOURCE_TYPES)
    project_id = Text(required=False, help_text="The id of a project")
    warehouse_id = serializers.UUIDField(required=False, help_text="The warehouse, or that of the object")
    namespace_id = serializers.UUIDField(required=False, help_text="The id of a namespace")
    table_id = serializers.UUIDField(required=False, help_text="The UUID of a table")
    view_id = serializers.UUIDField(required=False, help_text="The UUID of a view")
    generic_table_id = serializers.UUIDField(required=False, help_text="The UUID of a generic table")
    tag_definition_id = serializers.UUIDField(required=False, help_text="The id of a tag definition")

    def to_representation(self, instance: NamedObject) -> dict[str, Any]:
        rendered = {"type": resource_type(instance.securable_type)}
        if instance.warehouse_id is not None:
            rendered["warehouse-id"] = instance.warehouse_id
        if instance.securable_type not in {T.SERVER, T.WAREHOUSE}:
            rendered[f"{rendered['type']}-id"] = instance.object_id
        return rendered


class GrantResponse(ResponseSerializer):
    # Renders a grant and its object; the context is that of `unseen_users`.
    principal = GrantPrincipal()
    resource = GrantResource()
    privilege = Text()
    recognized = serializers.BooleanField(
        help_text="Whether the privilege exists; a grant of one that no longer exists has no effect and can be revoked"
    )
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(required=False, help_text=_NO_EXPIRY)
    seen = serializers.BooleanField(required=False, help_text=f"For users. {SEEN}")

    def to_representation(self, instance: tuple[ListedGrant, NamedObject]) -> dict[str, Any]:
        grant, granted_on = instance
        return super().to_representation(
            {
                "principal": render_grantee(grant.grantee),
                "resource": granted_on,
                "privilege": grant.privilege,
                "recognized": is_privilege(granted_on.securable_type, grant.privilege),
                "created_at": grant.created_at,
                "expires_at": grant.expires_at,
                "seen": is_seen(grant.grantee, self.context),
            }
        )


class ListGrantsResponse(ResponseSerializer):
    grants = GrantResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class PrivilegeDescriptor(ResponseSerializer):
    name = Text()
    display_name = Text(help_text="The name for display")
    description = Text()
    category = serializers.ChoiceField(["administration", "security", "metadata", "read", "write", "create"])
    resource_type = serializers.ChoiceField(RESOURCE_TYPES)

    def render_display_name(self, privilege: Privilege) -> str:
        return privilege.name.replace("_", " ")

    def render_resource_type(self, privilege: Privilege) -> str:
        return resource_type(privilege.securable_type)


class GrantablePrivilegesResponse(ResponseSerializer):
    privileges = serializers.DictField(
        child=serializers.ListField(child=PrivilegeDescriptor()), help_text="By type of resource"
    )

    def render_privileges(self, by_type: Mapping[Securable.Type, Sequence[Privilege]]) -> dict[str, Any]:
        return {resource_type(kind): PrivilegeDescriptor(found, many=True).data for kind, found in by_type.items()}


class GrantablePrivilege(ResponseSerializer):
    privilege = PrivilegeDescriptor()
    allowed = serializers.BooleanField(help_text="Whether the principal may grant and revoke it on the resource")


class ResourceGrantablePrivilegesResponse(ResponseSerializer):
    privileges = GrantablePrivilege(many=True)


class AssignmentEntry(VariantSerializer, KebabSerializer):
    component = "{}Assignment"
    user = Text(required=False, help_text="`<provider>~<subject>`; either a user or a role")
    role = IdText(required=False, help_text="The role's id: the privilege is granted to all its members")
    expires_at = serializers.DateTimeField(required=False, help_text=f"{_NO_EXPIRY}; not needed in `deletes`")
    type = serializers.ChoiceField([])


class UpdateAssignmentsRequest(VariantSerializer, KebabSerializer):
    component = "Update{}AssignmentsRequest"
    writes = AssignmentEntry(many=True, required=False, help_text="To grant; none may exist yet")
    deletes = AssignmentEntry(many=True, required=False, help_text="To revoke; each must exist")


class ListedAssignment(VariantSerializer, ResponseSerializer):
    # The context is that of `unseen_users`.
    component = "Listed{}Assignment"
    type = serializers.ChoiceField([], source="privilege")
    user = Text(required=False, help_text="`<provider>~<subject>`; either a user or a role")
    role = IdText(required=False, help_text="The role's id: the privilege is granted to all its members")
    expires_at = serializers.DateTimeField(required=False, help_text=_NO_EXPIRY)
    seen = serializers.BooleanField(required=False, help_text=f"For users. {SEEN}")

    def render_user(self, grant: ListedGrant) -> str | None:
        return grant.grantee.user_id

    def render_role(self, grant: ListedGrant) -> UUID | None:
        return grant.grantee.role_id

    def render_seen(self, grant: ListedGrant) -> bool | None:
        return is_seen(grant.grantee, self.context)


class AssignmentListResponse(VariantSerializer, ResponseSerializer):
    component = "{}AssignmentsResponse"
    assignments = ListedAssignment(many=True, help_text="In order of creation")
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class ProjectAssignmentListResponse(AssignmentListResponse):
    project_id = Text()


def read_grants(body: dict[str, Any]) -> Difference:
    """Read a checked `ApplyGrantsRequest`. Raises `EmptyGrantDiff`, or what `build_difference` raises (400)."""
    writes, deletes = (
        [
            GrantSpec(
                entry["privilege"],
                read_grantee(entry["principal"], f"{name}[{index}].principal"),
                entry.get("expires_at"),
            )
            for index, entry in enumerate(body.get(name, []))
        ]
        for name in ("writes", "deletes")
    )
    if not writes and not deletes:
        raise EmptyGrantDiff("At least one entry in writes or deletes is required")
    return build_difference(writes=writes, deletes=deletes)


def read_assignments(body: dict[str, Any]) -> Difference:
    """Read a checked `UpdateAssignmentsRequest`. Raises what `build_difference` raises (400)."""
    writes, deletes = (
        [
            GrantSpec(entry["type"], read_grantee(entry, f"{name}[{index}]"), entry.get("expires_at"))
            for index, entry in enumerate(body.get(name, []))
        ]
        for name in ("writes", "deletes")
    )
    return build_difference(writes=writes, deletes=deletes)
