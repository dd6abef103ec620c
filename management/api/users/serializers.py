"""Requests and responses about users."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from management.api.schema import WITH_EXTENSIONS
from management.api.serializers import (
    LAST_PAGE,
    ONLY_WITH_PAGES,
    Flag,
    KebabSerializer,
    ResponseSerializer,
    SearchRequest,
    Text,
)
from tenancy.models import User

SEEN = (
    "False for a user who has never called and is only named in grants and roles; the first call registers the user. "
    f"{WITH_EXTENSIONS}"
)
ORIGIN = (
    "The source of name and email: the token, an administrator, or the user, which is also used when the source is "
    f"unknown. {WITH_EXTENSIONS}"
)
_ID = "`<provider>~<subject>`"


class UserType(serializers.ChoiceField):
    """Human or application."""

    def __init__(self, **options: Any) -> None:
        super().__init__(User.Type.values, **options)


class _UserIdentity(ResponseSerializer):
    id = Text(source="pk", help_text=_ID)
    name = Text()
    email = Text(required=False, help_text="Absent when unknown")
    user_type = UserType(help_text="Human or application")

    def render_name(self, user: User) -> str:
        return user.name or f"Nameless User with id {user.pk}"

    def render_email(self, user: User) -> str | None:
        return user.email or None


class _UserExtensions(ResponseSerializer):
    # Rendered with `with_extensions` in the context.
    seen = serializers.BooleanField(required=False, help_text=SEEN)
    origin = serializers.ChoiceField(User.Origin.values, required=False, help_text=ORIGIN)

    def render_seen(self, user: User) -> bool | None:
        return user.has_called if self.context.get("with_extensions") else None

    def render_origin(self, user: User) -> str | None:
        return user.origin if self.context.get("with_extensions") else None


class SearchedUser(_UserIdentity, _UserExtensions):
    pass


class UserResponse(_UserIdentity):
    last_updated_with = serializers.ChoiceField(
        User.Provenance.values, help_text="The operation that last wrote name, email and type"
    )
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(required=False)


class ListedUser(UserResponse, _UserExtensions):
    pass


class WhoamiResponse(UserResponse):
    is_instance_admin = serializers.BooleanField(
        help_text="Whether the deployment allows the caller everything except reading and writing data"
    )

    def render_is_instance_admin(self, user: User) -> bool:
        is_admin: bool = self.context["is_instance_admin"]
        return is_admin


class UserListResponse(ResponseSerializer):
    users = ListedUser(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class SearchUserResponse(ResponseSerializer):
    users = SearchedUser(many=True)
    next_page_token = Text(required=False, help_text=ONLY_WITH_PAGES)


class CreateUserRequest(KebabSerializer):
    id = Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text=f"{_ID}; default: the caller. Other users need the permission to provision users",
    )
    name = Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="Required for other users; the caller's name is taken from the token",
    )
    email = Text(required=False, allow_null=True, allow_blank=True, help_text="The caller's is taken from the token")
    user_type = UserType(required=False, allow_null=True, help_text="Required for other users; default: from the token")
    update_if_exists = Flag(default=False, help_text="Replace name, email and type of an existing user")


class UpdateUserRequest(KebabSerializer):
    name = Text(allow_blank=True)
    email = Text(required=False, allow_null=True, allow_blank=True, help_text="Removed when absent")
    user_type = UserType(help_text="Human or application")


class SearchUserRequest(SearchRequest):
    user_type = UserType(required=False, allow_null=True, help_text="Only users of this type")
