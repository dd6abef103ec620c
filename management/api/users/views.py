"""Users: listing, registration, provisioning, search, and the roles that they are in."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.paging import listing_key
from management.api.base import ManagementViewSet, no_body
from management.api.roles.serializers import RoleMembershipListResponse
from management.api.users.schema import describe_users
from management.api.users.serializers import (
    CreateUserRequest,
    ListedUser,
    SearchUserRequest,
    SearchUserResponse,
    UpdateUserRequest,
    UserListResponse,
    UserResponse,
    WhoamiResponse,
)
from tenancy.actor import is_instance_admin, require_user_id
from tenancy.authz.actions import Can
from tenancy.selectors.roles import list_all_roles_of_user_for, list_roles_of_user_for
from tenancy.selectors.users import get_own_user, get_user_for, list_users_for, search_users
from tenancy.services.users import delete_user, register_user, update_user


@describe_users
class UserViewSet(ManagementViewSet):
    reading_actions = {"search"}

    @property
    def user_id(self) -> str:
        return require_user_id(self.path_text("user_id"))

    def list(self, request: Request) -> Response:
        name, with_extensions = request.GET.get("name"), self.wants_extensions()
        page = self.page(listing_key("users", name))
        found = list_users_for(actor=self.actor, name=name, page=page)
        return self.respond_page(UserListResponse, "users", found, with_extensions=with_extensions)

    def create(self, request: Request) -> Response:
        body = self.body(CreateUserRequest)
        user, is_new = register_user(
            actor=self.actor,
            user_id=body.get("id"),
            name=body.get("name"),
            email=body.get("email"),
            user_type=body.get("user_type"),
            update_if_exists=body["update_if_exists"],
        )
        return self.respond(UserResponse, user, status=201 if is_new else 200)

    def retrieve(self, request: Request, **path: str) -> Response:
        with_extensions = self.wants_extensions()
        user = get_user_for(actor=self.actor, action=Can.READ, user_id=self.user_id)
        return self.respond(ListedUser, user, with_extensions=with_extensions)

    def update(self, request: Request, **path: str) -> HttpResponse:
        body = self.body(UpdateUserRequest)
        update_user(
            actor=self.actor,
            user_id=self.user_id,
            name=body["name"],
            email=body.get("email"),
            user_type=body["user_type"],
        )
        return no_body()

    def destroy(self, request: Request, **path: str) -> Response:
        delete_user(actor=self.actor, user_id=self.user_id)
        return Response(status=204)

    def search(self, request: Request) -> Response:
        body, with_extensions = self.body(SearchUserRequest), self.wants_extensions()
        user_type = body.get("user_type")
        found = search_users(
            actor=self.actor,
            typed=body["search"],
            user_type=user_type,
            page=self.search_page("user-search", body, user_type),
        )
        return self.respond_hits(SearchUserResponse, "users", found, body, with_extensions=with_extensions)

    def whoami(self, request: Request) -> Response:
        user = get_own_user(actor=self.actor)
        return self.respond(WhoamiResponse, user, is_instance_admin=is_instance_admin(self.actor))

    def roles(self, request: Request, **path: str) -> Response:
        project, user_id = self.project(), self.user_id
        page = self.page(listing_key("user-roles", project.pk, user_id))
        found = list_roles_of_user_for(actor=self.actor, project=project, user_id=user_id, page=page)
        return self.respond_page(RoleMembershipListResponse, "roles", found, with_extensions=self.wants_extensions())

    def transitive_roles(self, request: Request, **path: str) -> Response:
        project, user_id = self.project(), self.user_id
        page = self.page(listing_key("user-transitive-roles", project.pk, user_id))
        found = list_all_roles_of_user_for(actor=self.actor, project=project, user_id=user_id, page=page)
        return self.respond_page(RoleMembershipListResponse, "roles", found, with_extensions=self.wants_extensions())
