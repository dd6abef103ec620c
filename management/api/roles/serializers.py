"""Requests and responses about roles and their members."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from management.api.schema import WITH_EXTENSIONS
from management.api.serializers import (
    LAST_PAGE,
    ONLY_WITH_PAGES,
    KebabSerializer,
    ResponseSerializer,
    SearchRequest,
    Text,
)
from management.api.users.serializers import ORIGIN, UserType
from tenancy.authz.role_paths import Entry
from tenancy.models import User
from tenancy.selectors.roles import ListedRole, Member

MEMBER_TYPES = ["user", "role"]
_ENTRIES = [Entry.MEMBER.value, Entry.OWNER.value]
_ENTRY = f"`owner` for a role that is entered through ownership alone. {WITH_EXTENSIONS}"
_IDENT = "`<provider-id>~<source-id>`, unique in the project"
_PROVIDER = "The system that the role comes from"
_SOURCE = "The role's id in that system"
_UNIQUE_NAME = "Unique in the project, case-insensitive"
_PROJECT = "Deprecated: send x-project-id"
_MEMBER_ID = "The user's id, or the role's UUID"


class RoleMetadataResponse(ResponseSerializer):
    id = serializers.UUIDField(source="pk")
    ident = Text(help_text=_IDENT)
    provider_id = Text(help_text=f"{_PROVIDER}, such as `lakekeeper` or `oidc`")
    source_id = Text(help_text=_SOURCE)
    name = Text()
    project_id = Text()


class RoleResponse(RoleMetadataResponse):
    created_at = serializers.DateTimeField()
    description = Text(required=False, help_text="Absent when there is none")
    updated_at = serializers.DateTimeField(required=False, help_text="Absent when the role was never updated")


class RoleListResponse(ResponseSerializer):
    roles = RoleResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class SearchRoleResponse(ResponseSerializer):
    roles = RoleResponse(many=True)
    next_page_token = Text(required=False, help_text=ONLY_WITH_PAGES)


class CreateRoleRequest(KebabSerializer):
    name = Text(allow_blank=True, help_text=_UNIQUE_NAME)
    description = Text(required=False, allow_null=True, allow_blank=True)
    provider_id = Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text=f"{_PROVIDER}: lower-case letters, digits and `-`. Requires `source-id`; a role without both belongs "
        "to this server",
    )
    source_id = Text(required=False, allow_null=True, allow_blank=True, help_text=_SOURCE)
    project_id = Text(required=False, allow_null=True, help_text=_PROJECT)


class UpdateRoleRequest(KebabSerializer):
    name = Text(allow_blank=True, help_text=_UNIQUE_NAME)
    description = Text(required=False, allow_null=True, allow_blank=True, help_text="Removed when absent")


class UpdateRoleSourceSystemRequest(KebabSerializer):
    provider_id = Text(allow_blank=True, help_text=_PROVIDER)
    source_id = Text(allow_blank=True, help_text=_SOURCE)


class SearchRoleRequest(SearchRequest):
    project_id = Text(required=False, allow_null=True, help_text=_PROJECT)
    provider_ids = serializers.ListField(
        child=Text(), required=False, allow_null=True, max_length=100, help_text="Only roles of these providers"
    )


class RoleMemberRef(serializers.Serializer[Any]):
    type = serializers.ChoiceField(MEMBER_TYPES)
    id = Text(help_text=_MEMBER_ID)


class AddRoleMembersRequest(serializers.Serializer[Any]):
    members = RoleMemberRef(many=True, help_text="All of them are added, or none")


class AddRoleMembersResponse(serializers.Serializer[Any]):
    members = RoleMemberRef(many=True, help_text="The members of the request without repetitions")


@extend_schema_serializer(component_name="RoleMember")
class RoleMemberResponse(ResponseSerializer):
    # `entry` and `origin` need `with_extensions` in the context.
    type = serializers.ChoiceField(MEMBER_TYPES, source="kind")
    id = Text(help_text=_MEMBER_ID)
    name = Text(allow_null=True, help_text="null for a user whose name is unknown")
    expires_at = serializers.DateTimeField(
        required=False, help_text="The end of a direct membership; absent when it has none"
    )
    ident = Text(required=False, help_text="Of a role: `<provider-id>~<source-id>`")
    email = Text(required=False, help_text="Of a user; absent when unknown")
    user_type = UserType(required=False, help_text="Of a user")
    entry = serializers.ChoiceField(_ENTRIES, required=False, help_text=_ENTRY)
    origin = serializers.ChoiceField(User.Origin.values, required=False, help_text=f"Of a user. {ORIGIN}")

    def render_name(self, member: Member) -> str | None:
        return member.name or None

    def render_ident(self, member: Member) -> str | None:
        return member.ident if member.kind == "role" else None

    def render_email(self, member: Member) -> str | None:
        return member.email or None if member.kind == "user" else None

    def render_user_type(self, member: Member) -> str | None:
        return member.user_type if member.kind == "user" else None

    def render_entry(self, member: Member) -> str | None:
        return member.entry if self.context.get("with_extensions") else None

    def render_origin(self, member: Member) -> str | None:
        return member.origin if self.context.get("with_extensions") else None


class RoleMemberListResponse(ResponseSerializer):
    members = RoleMemberResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class RoleMembership(ResponseSerializer):
    # `entry` needs `with_extensions` in the context.
    id = serializers.UUIDField()
    ident = Text(help_text=_IDENT)
    name = Text()
    entry = serializers.ChoiceField(_ENTRIES, required=False, help_text=_ENTRY)

    def render_entry(self, role: ListedRole) -> str | None:
        return role.entry if self.context.get("with_extensions") else None


class RoleMembershipListResponse(ResponseSerializer):
    roles = RoleMembership(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)
