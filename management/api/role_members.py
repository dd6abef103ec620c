"""Who is in a role, and what roles a role or a user is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import KebabSerializer, Text, empty_response, operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.base import (
    BAD_PAGE,
    EXTENSIONS_HEADER,
    LAST_ADMINISTRATOR,
    PAGE,
    PROJECT_HEADER,
    PROJECT_REFUSALS,
    WITH_EXTENSIONS,
    ManagementView,
)
from management.api.roles import APPOINTING, NO_ROLE, ROLE_ID, TAGS, RoleResourceView
from management.api.users import BAD_USER_ID, NO_USER, ORIGIN, USER_ID, UserResourceView, UserType, paged
from management.api.users import TAGS as USER_TAGS
from tenancy.authz.builtin.role_paths import Entry
from tenancy.models import User
from tenancy.selectors.role_members import (
    HeldRole,
    Member,
    MemberKind,
    list_all_roles_above_role_for,
    list_all_roles_of_user_for,
    list_members_for,
    list_roles_above_role_for,
    list_roles_of_user_for,
    list_transitive_members_for,
)
from tenancy.services.role_members import Members, add_role_members, remove_role_members
from tenancy.user_ids import require_user_id

KINDS = ["user", "role"]
ENTRIES = [Entry.MEMBER.value, Entry.OWNER.value]
TYPE = OpenApiParameter("type", OpenApiTypes.STR, enum=KINDS, description="Only users, or only roles; default: both")
BAD_LISTING = f"{PROJECT_REFUSALS[400]}, {BAD_PAGE}"


class RoleMemberRef(serializers.Serializer[Any]):
    type = serializers.ChoiceField(KINDS)
    id = Text(help_text="Of the user or of the role, which has a UUID")


class AddRoleMembersRequest(serializers.Serializer[Any]):
    members = RoleMemberRef(many=True, help_text="All are put into the role, or none")


class AddRoleMembersResponse(serializers.Serializer[Any]):
    members = RoleMemberRef(many=True, help_text="As given, each once: all are in the role now")


class RoleMember(KebabSerializer):
    type = serializers.ChoiceField(KINDS)
    id = Text(help_text="Of the user or of the role, which has a UUID")
    name = Text(allow_null=True, help_text="null for a user whose name is not known")
    email = Text(required=False, help_text="Of a user; absent when there is none")
    user_type = UserType(required=False, help_text="Of a user")
    origin = serializers.ChoiceField(User.Origin.values, required=False, help_text=f"Of a user. {ORIGIN}")
    ident = Text(required=False, help_text="Of a role: `<provider-id>~<source-id>`")
    expires_at = serializers.DateTimeField(
        required=False, help_text="The end of a direct membership; absent when it has none"
    )
    entry = serializers.ChoiceField(
        ENTRIES, required=False, help_text=f"`owner` where ownership alone brings them in. {WITH_EXTENSIONS}"
    )


class RoleMemberListResponse(KebabSerializer):
    members = RoleMember(many=True)
    next_page_token = Text(required=False, help_text="Absent on the last page")


class RoleMembership(KebabSerializer):
    id = serializers.UUIDField()
    ident = Text(help_text="`<provider-id>~<source-id>`, unique in the project")
    name = Text()
    entry = serializers.ChoiceField(
        ENTRIES, required=False, help_text=f"`owner` where ownership alone brings them in. {WITH_EXTENSIONS}"
    )


class RoleMembershipListResponse(KebabSerializer):
    roles = RoleMembership(many=True)
    next_page_token = Text(required=False, help_text="Absent on the last page")


def member_json(member: Member) -> dict[str, Any]:
    known: dict[str, Any] = {"type": member.kind, "id": member.id, "name": member.name or None}
    if member.expires_at is not None:
        known["expires-at"] = member.expires_at
    if member.kind == "role":
        return known | {"ident": member.ident}
    return known | ({"email": member.email} if member.email else {}) | {"user-type": member.user_type}


def _roles_answer(view: ManagementView, found: tuple[list[HeldRole], str | None]) -> Response:
    (roles, token), more = found, view.wants_extensions()
    listed = [
        {"id": str(role.id), "ident": role.ident, "name": role.name} | ({"entry": role.entry} if more else {})
        for role in roles
    ]
    return Response(paged("roles", listed, token))


def _members_answer(view: ManagementView, found: tuple[list[Member], str | None]) -> Response:
    (members, token), more = found, view.wants_extensions()
    listed = [member_json(member) | (_extensions(member) if more else {}) for member in members]
    return Response(paged("members", listed, token))


def _extensions(member: Member) -> dict[str, Any]:
    return {"entry": member.entry} | ({"origin": member.origin} if member.origin is not None else {})


def _kind(text: str, where: str) -> MemberKind:
    if text not in KINDS:
        raise BadRequest(f"{where}: {text[:100]!r} is none of user, role")
    return cast("MemberKind", text)


def _members(refs: list[tuple[MemberKind, str]]) -> Members:
    """Each once. Raises `BadRequest` or what `require_user_id` raises for an id that is none."""
    users: dict[str, None] = {}
    roles: dict[UUID, None] = {}
    for kind, text in refs:
        if kind == "user":
            users[require_user_id(text)] = None
            continue
        role_id = parse_id(text)
        if role_id is None:
            raise BadRequest(f"The id of a role is a UUID: {text[:100]!r}")
        roles[role_id] = None
    return Members(tuple(users), tuple(roles))


class MemberListView(RoleResourceView):
    listing: ClassVar = "role-members"

    def asked(self) -> dict[str, Any]:
        """What a listing of members is about."""
        given = self.request.GET.get("type")
        kind = None if given is None else _kind(given, "type")
        project, role_id = self.project(), self.role_id
        page = self.page(listing_key(self.listing, project.pk, role_id, kind))
        return {"actor": self.actor, "project": project, "role_id": role_id, "kind": kind, "page": page}


class RoleMembersView(MemberListView):
    @extend_schema(
        operation_id="list_role_members",
        tags=TAGS,
        summary="Users and roles that are directly in a role",
        parameters=[ROLE_ID, PROJECT_HEADER, EXTENSIONS_HEADER, TYPE, *PAGE],
        responses=operation_responses({200: RoleMemberListResponse}, {400: BAD_LISTING, 404: NO_ROLE}),
    )
    def get(self, request: Request, role_id: str) -> Response:
        return _members_answer(self, list_members_for(**self.asked()))

    @extend_schema(
        operation_id="add_role_members",
        tags=TAGS,
        summary="Put users and roles into a role, all or none; those who are in it already stay",
        parameters=[ROLE_ID, PROJECT_HEADER],
        request=AddRoleMembersRequest,
        responses=operation_responses(
            {200: AddRoleMembersResponse},
            {
                400: f"{PROJECT_REFUSALS[400]}, {BAD_USER_ID}",
                403: APPOINTING,
                404: f"{NO_ROLE}, `RoleAssignmentUserNotFound`",
                409: "`RoleMembershipCycle`, `RoleMembershipDepthExceeded`, `RoleMembershipLockTimeout`",
            },
        ),
    )
    def post(self, request: Request, role_id: str) -> Response:
        given = self.body(AddRoleMembersRequest)["members"]
        members = _members([(each["type"], each["id"]) for each in given])
        add_role_members(actor=self.actor, project=self.project(), role_id=self.role_id, members=members)
        return Response({"members": _echo(given)})


def _echo(given: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What was given, each once, in the spelling in which it is kept."""
    seen = {(each["type"], each["id"] if each["type"] == "user" else each["id"].lower()): None for each in given}
    return [{"type": kind, "id": member_id} for kind, member_id in seen]


class RoleMemberView(RoleResourceView):
    @extend_schema(
        operation_id="remove_role_member",
        tags=TAGS,
        summary="Take a user or a role out of a role; done, too, when it is not in it",
        parameters=[
            ROLE_ID,
            OpenApiParameter("member_type", OpenApiTypes.STR, OpenApiParameter.PATH, enum=KINDS, description="Of what"),
            OpenApiParameter(
                "member_id",
                OpenApiTypes.STR,
                OpenApiParameter.PATH,
                description="Of the user, percent-encoded, or of the role, which has a UUID",
            ),
            PROJECT_HEADER,
        ],
        responses=operation_responses(
            empty_response("Removed, or it was not there"),
            {
                400: f"{PROJECT_REFUSALS[400]}, {BAD_USER_ID}",
                403: APPOINTING,
                404: NO_ROLE,
                409: LAST_ADMINISTRATOR,
            },
        ),
    )
    def delete(self, request: Request, role_id: str, member_type: str, member_id: str) -> Response:
        kind = _kind(decode_segment(member_type), "member_type")
        remove_role_members(
            actor=self.actor,
            project=self.project(),
            role_id=self.role_id,
            members=_members([(kind, decode_segment(member_id))]),
        )
        return Response(status=204)


class RoleTransitiveMembersView(MemberListView):
    listing = "role-transitive-members"

    @extend_schema(
        operation_id="list_role_transitive_members",
        tags=TAGS,
        summary="Everybody who is in a role, directly or through other roles, and those roles",
        parameters=[ROLE_ID, PROJECT_HEADER, EXTENSIONS_HEADER, TYPE, *PAGE],
        responses=operation_responses({200: RoleMemberListResponse}, {400: BAD_LISTING, 404: NO_ROLE}),
    )
    def get(self, request: Request, role_id: str) -> Response:
        return _members_answer(self, list_transitive_members_for(**self.asked()))


class RoleMemberOfView(RoleResourceView):
    listing: ClassVar = "role-member-of"
    selector: ClassVar[Callable[..., Any]] = staticmethod(list_roles_above_role_for)

    @extend_schema(
        operation_id="list_role_member_of",
        tags=TAGS,
        summary="Roles that a role is directly in",
        parameters=[ROLE_ID, PROJECT_HEADER, EXTENSIONS_HEADER, *PAGE],
        responses=operation_responses({200: RoleMembershipListResponse}, {400: BAD_LISTING, 404: NO_ROLE}),
    )
    def get(self, request: Request, role_id: str) -> Response:
        project, above = self.project(), self.role_id
        page = self.page(listing_key(self.listing, project.pk, above))
        return _roles_answer(self, self.selector(actor=self.actor, project=project, role_id=above, page=page))


@extend_schema_view(
    get=extend_schema(
        operation_id="list_role_transitive_member_of", summary="Roles that a role is in, directly or through others"
    )
)
class RoleTransitiveMemberOfView(RoleMemberOfView):
    listing = "role-transitive-member-of"
    selector = staticmethod(list_all_roles_above_role_for)


class UserRolesView(UserResourceView):
    listing: ClassVar = "user-roles"
    selector: ClassVar[Callable[..., Any]] = staticmethod(list_roles_of_user_for)

    @extend_schema(
        operation_id="list_user_roles",
        tags=USER_TAGS,
        summary="Roles of a project that a user is directly in",
        parameters=[USER_ID, PROJECT_HEADER, EXTENSIONS_HEADER, *PAGE],
        responses=operation_responses(
            {200: RoleMembershipListResponse},
            {400: f"{BAD_LISTING}, {BAD_USER_ID}", 404: f"{NO_USER}, {PROJECT_REFUSALS[404]}"},
        ),
    )
    def get(self, request: Request, user_id: str) -> Response:
        project, member = self.project(), self.user_id
        page = self.page(listing_key(self.listing, project.pk, member))
        return _roles_answer(self, self.selector(actor=self.actor, project=project, user_id=member, page=page))


@extend_schema_view(
    get=extend_schema(
        operation_id="list_user_transitive_roles",
        summary="Roles of a project that a user is in, directly or through others",
    )
)
class UserTransitiveRolesView(UserRolesView):
    listing = "user-transitive-roles"
    selector = staticmethod(list_all_roles_of_user_for)
