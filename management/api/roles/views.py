"""Roles of a project, their members, and the roles that they are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import listing_key
from management.api.base import ManagementViewSet
from management.api.roles.schema import describe_role_members, describe_roles
from management.api.roles.serializers import (
    MEMBER_TYPES,
    AddRoleMembersRequest,
    AddRoleMembersResponse,
    CreateRoleRequest,
    RoleListResponse,
    RoleMemberListResponse,
    RoleMembershipListResponse,
    RoleMetadataResponse,
    RoleResponse,
    SearchRoleRequest,
    SearchRoleResponse,
    UpdateRoleRequest,
    UpdateRoleSourceSystemRequest,
)
from management.api.serializers import read_uuid
from tenancy.actor import require_user_id
from tenancy.authz.actions import Can
from tenancy.selectors.roles import (
    MemberKind,
    RoleFilter,
    get_role_for,
    get_role_of_any_project_for,
    list_all_roles_above_role_for,
    list_members_for,
    list_roles_above_role_for,
    list_roles_for,
    list_transitive_members_for,
    role_id_not_found,
    role_not_found,
    search_roles_for,
)
from tenancy.services.role_members import Members, add_role_members, remove_role_members
from tenancy.services.roles import create_role, delete_role, set_source_system, update_role


class _RolePathViewSet(ManagementViewSet):
    """Routes below the path of a role, which is one of the request's project."""

    @property
    def role_id(self) -> UUID:
        return self.path_id("role_id", lambda text: role_not_found(text, self.project()))


@describe_roles
class RoleViewSet(_RolePathViewSet):
    reading_actions = {"search"}

    def list(self, request: Request) -> Response:
        project = self.project_of_query
        wanted = RoleFilter(self._ids(), self._texts("providerIds"), self._texts("sourceIds"))
        page = self.page(listing_key("roles", project.pk, wanted))
        found = list_roles_for(actor=self.actor, project=project, wanted=wanted, page=page)
        return self.respond_page(RoleListResponse, "roles", found)

    def create(self, request: Request) -> Response:
        body = self.body(CreateRoleRequest)
        role = create_role(
            actor=self.actor,
            project=self.project(body.get("project_id")),
            name=body["name"],
            description=body.get("description"),
            provider_id=body.get("provider_id"),
            source_id=body.get("source_id"),
        )
        return self.respond(RoleResponse, role, status=201)

    def retrieve(self, request: Request, **path: str) -> Response:
        role = get_role_for(actor=self.actor, action=Can.READ, project=self.project(), role_id=self.role_id)
        return self.respond(RoleResponse, role)

    def update(self, request: Request, **path: str) -> Response:
        body = self.body(UpdateRoleRequest)
        role = update_role(
            actor=self.actor,
            project=self.project(),
            role_id=self.role_id,
            name=body["name"],
            description=body.get("description"),
        )
        return self.respond(RoleResponse, role)

    def destroy(self, request: Request, **path: str) -> Response:
        delete_role(actor=self.actor, project=self.project(), role_id=self.role_id)
        return Response(status=204)

    def update_source_system(self, request: Request, **path: str) -> Response:
        body = self.body(UpdateRoleSourceSystemRequest)
        role = set_source_system(actor=self.actor, project=self.project(), role_id=self.role_id, **body)
        return self.respond(RoleResponse, role)

    def metadata(self, request: Request, **path: str) -> Response:
        role_id = self.path_id("role_id", role_id_not_found)
        return self.respond(RoleMetadataResponse, get_role_of_any_project_for(actor=self.actor, role_id=role_id))

    def search(self, request: Request) -> Response:
        body = self.body(SearchRoleRequest)
        project, provider_ids = self.project(body.get("project_id")), body.get("provider_ids")
        found = search_roles_for(
            actor=self.actor,
            project=project,
            typed=body["search"],
            provider_ids=provider_ids,
            page=self.search_page("role-search", body, project.pk, provider_ids),
        )
        return self.respond_hits(SearchRoleResponse, "roles", found, body)

    def _texts(self, name: str) -> tuple[str, ...] | None:
        """Return the values of a query parameter that is repeated, under its name or with `[]`; None without any."""
        given = {*self.request.GET.getlist(name), *self.request.GET.getlist(f"{name}[]")}
        return tuple(sorted(given)) or None

    def _ids(self) -> tuple[UUID, ...] | None:
        texts = self._texts("roleIds")
        return None if texts is None else tuple(read_uuid(text, "roleIds") for text in texts)


@describe_role_members
class RoleMemberViewSet(_RolePathViewSet):
    def list(self, request: Request, **path: str) -> Response:
        found = list_members_for(**self._listing("role-members"))
        return self.respond_page(RoleMemberListResponse, "members", found, with_extensions=self.wants_extensions())

    def list_transitive(self, request: Request, **path: str) -> Response:
        found = list_transitive_members_for(**self._listing("role-transitive-members"))
        return self.respond_page(RoleMemberListResponse, "members", found, with_extensions=self.wants_extensions())

    def create(self, request: Request, **path: str) -> Response:
        given = self.body(AddRoleMembersRequest)["members"]
        members = _read_members([(each["type"], each["id"]) for each in given])
        add_role_members(actor=self.actor, project=self.project(), role_id=self.role_id, members=members)
        return Response(AddRoleMembersResponse({"members": _without_repetitions(given)}).data)

    def destroy(self, request: Request, **path: str) -> Response:
        kind = _member_kind(self.path_text("member_type"), "member_type")
        members = _read_members([(kind, self.path_text("member_id"))])
        remove_role_members(actor=self.actor, project=self.project(), role_id=self.role_id, members=members)
        return Response(status=204)

    def member_of(self, request: Request, **path: str) -> Response:
        project, role_id = self.project(), self.role_id
        page = self.page(listing_key("role-member-of", project.pk, role_id))
        found = list_roles_above_role_for(actor=self.actor, project=project, role_id=role_id, page=page)
        return self.respond_page(RoleMembershipListResponse, "roles", found, with_extensions=self.wants_extensions())

    def transitive_member_of(self, request: Request, **path: str) -> Response:
        project, role_id = self.project(), self.role_id
        page = self.page(listing_key("role-transitive-member-of", project.pk, role_id))
        found = list_all_roles_above_role_for(actor=self.actor, project=project, role_id=role_id, page=page)
        return self.respond_page(RoleMembershipListResponse, "roles", found, with_extensions=self.wants_extensions())

    def _listing(self, name: str) -> dict[str, Any]:
        """Return the arguments of a selector of members."""
        given = self.request.GET.get("type")
        kind = None if given is None else _member_kind(given, "type")
        project, role_id = self.project(), self.role_id
        page = self.page(listing_key(name, project.pk, role_id, kind))
        return {"actor": self.actor, "project": project, "role_id": role_id, "kind": kind, "page": page}


def _member_kind(text: str, where: str) -> MemberKind:
    if text not in MEMBER_TYPES:
        raise BadRequest(f"{where}: {text[:100]!r} is not user or role")
    return cast("MemberKind", text)


def _read_members(refs: Sequence[tuple[MemberKind, str]]) -> Members:
    """Remove repetitions. Raises `BadRequest` for a role id that is no UUID, and what `require_user_id` raises."""
    users: dict[str, None] = {}
    roles: dict[UUID, None] = {}
    for kind, text in refs:
        if kind == "user":
            users[require_user_id(text)] = None
        else:
            roles[read_uuid(text, "id")] = None
    return Members(tuple(users), tuple(roles))


def _without_repetitions(given: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the given members once each, in the spelling in which they are stored."""
    seen = {(each["type"], each["id"] if each["type"] == "user" else each["id"].lower()): None for each in given}
    return [{"type": kind, "id": member_id} for kind, member_id in seen]
