from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import Flag, KebabSerializer, Text, empty_response, operation_responses
from management.api.base import (
    BAD_PAGE,
    EXTENSIONS_HEADER,
    LAST_ADMINISTRATOR,
    PAGE,
    WITH_EXTENSIONS,
    ManagementView,
    no_body,
)
from management.api.search import ONLY_FOR_PAGES, SearchRequest, next_page_of_search, page_of_search
from tenancy.authz.actions import Can
from tenancy.models import User
from tenancy.selectors.similarity import HITS
from tenancy.selectors.users import get_user_for, list_users_for, search_users
from tenancy.services.users import delete_user, register_user, update_user
from tenancy.user_ids import require_user_id

TAGS = ["user"]
USER_ID = OpenApiParameter(
    "user_id",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="`<provider>~<subject>`, percent-encoded: it may hold slashes",
)
BAD_USER_ID = "`InvalidUserIdError`, `EmptyUserIdError`, `UserIdTooLongError`"
NO_USER = "`UserNotFound`"
NAMED = "`ServiceAccountIsNamed`: its name and type do not change"
SEEN = (
    "False for a user who never called, and is only named in grants and roles; the first call registers them. "
    f"{WITH_EXTENSIONS}"
)


ORIGIN = (
    "Who says name and mail: the token, an administrator, or the user, also where it is not known who did. "
    f"{WITH_EXTENSIONS}"
)


class UserType(serializers.ChoiceField):
    """Whether a person or a program."""

    def __init__(self, **options: Any) -> None:
        super().__init__(User.Type.values, **options)


class UserResponse(KebabSerializer):
    id = Text(help_text="`<provider>~<subject>`")
    name = Text()
    email = Text(required=False, help_text="Absent when there is none")
    user_type = UserType(help_text="Whether a person or a program")
    last_updated_with = serializers.ChoiceField(User.Provenance.values, help_text="What wrote name, mail and type last")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(required=False)


class ListedUser(UserResponse):
    seen = serializers.BooleanField(required=False, help_text=SEEN)
    origin = serializers.ChoiceField(User.Origin.values, required=False, help_text=ORIGIN)


class UserListResponse(KebabSerializer):
    users = ListedUser(many=True)
    next_page_token = Text(required=False, help_text="Absent on the last page")


class CreateUserRequest(KebabSerializer):
    id = Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="`<provider>~<subject>`; default: the caller. Others need the right to provision users",
    )
    name = Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="Required for others; of the caller the token tells it",
    )
    email = Text(required=False, allow_null=True, allow_blank=True, help_text="Of the caller the token tells it")
    user_type = UserType(required=False, allow_null=True, help_text="Required for others; default: as the token says")
    update_if_exists = Flag(default=False, help_text="Replace what is known of a user who is there already")


class UpdateUserRequest(KebabSerializer):
    name = Text(allow_blank=True)
    email = Text(required=False, allow_null=True, allow_blank=True, help_text="Without it the user has none any more")
    user_type = UserType(help_text="Whether a person or a program")


class SearchUserRequest(SearchRequest):
    user_type = UserType(required=False, allow_null=True, help_text="Only people, or only programs")


class SearchedUser(KebabSerializer):
    id = Text(help_text="`<provider>~<subject>`")
    name = Text()
    email = Text(required=False, help_text="Absent when there is none")
    user_type = UserType(help_text="Whether a person or a program")
    seen = serializers.BooleanField(required=False, help_text=SEEN)
    origin = serializers.ChoiceField(User.Origin.values, required=False, help_text=ORIGIN)


class SearchUserResponse(KebabSerializer):
    users = SearchedUser(many=True)
    next_page_token = Text(required=False, help_text=ONLY_FOR_PAGES)


def user_json(user: User, *, with_extensions: bool = False) -> dict[str, Any]:
    return searched_user_json(user, with_extensions=with_extensions) | {
        "last-updated-with": user.last_updated_with,
        "created-at": user.created_at,
        "updated-at": user.updated_at,
    }


def searched_user_json(user: User, *, with_extensions: bool) -> dict[str, Any]:
    name = user.name or f"Nameless User with id {user.pk}"
    email = {"email": user.email} if user.email else {}
    more = {"seen": user.has_called, "origin": user.origin} if with_extensions else {}
    return {"id": user.pk, "name": name, **email, "user-type": user.user_type, **more}


def paged(name: str, items: list[Any], token: str | None) -> dict[str, Any]:
    """A page of a listing; the last one has no token."""
    return {name: items} if token is None else {name: items, "next-page-token": token}


class UsersView(ManagementView):
    @extend_schema(
        operation_id="list_user",
        tags=TAGS,
        summary="All users",
        parameters=[
            OpenApiParameter("name", OpenApiTypes.STR, description="Only those whose name holds this, in any case"),
            *PAGE,
            EXTENSIONS_HEADER,
        ],
        responses=operation_responses({200: UserListResponse}, {400: BAD_PAGE, 403: "Not allowed"}),
    )
    def get(self, request: Request) -> Response:
        name, with_extensions = request.GET.get("name"), self.wants_extensions()
        page = self.page(listing_key("users", name))
        users, token = list_users_for(actor=self.actor, name=name, page=page)
        return Response(paged("users", [user_json(user, with_extensions=with_extensions) for user in users], token))

    @extend_schema(
        operation_id="create_user",
        tags=TAGS,
        summary="Register oneself, or provision somebody else",
        request=CreateUserRequest,
        responses=operation_responses(
            {200: UserResponse, 201: UserResponse},
            {
                400: f"{BAD_USER_ID}, `MissingUserId`, `MissingUserName`, `MissingUserType`, `EmptyName`, {NAMED}",
                403: "Not allowed",
                409: "`UserAlreadyExists`",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(CreateUserRequest)
        user, is_new = register_user(
            actor=self.actor,
            user_id=body.get("id"),
            name=body.get("name"),
            email=body.get("email"),
            user_type=body.get("user_type"),
            update_if_exists=body["update_if_exists"],
        )
        return Response(user_json(user), status=201 if is_new else 200)


class UserResourceView(ManagementView):
    """What is below one user's address."""

    @property
    def user_id(self) -> str:
        return require_user_id(decode_segment(self.kwargs["user_id"]))


class UserView(UserResourceView):
    @extend_schema(
        operation_id="get_user",
        tags=TAGS,
        summary="One user",
        parameters=[USER_ID, EXTENSIONS_HEADER],
        responses=operation_responses({200: ListedUser}, {400: BAD_USER_ID, 403: "Not allowed", 404: NO_USER}),
    )
    def get(self, request: Request, user_id: str) -> Response:
        with_extensions = self.wants_extensions()
        user = get_user_for(actor=self.actor, action=Can.READ, user_id=self.user_id)
        return Response(user_json(user, with_extensions=with_extensions))

    @extend_schema(
        operation_id="update_user",
        tags=TAGS,
        summary="Replace what is known of a user",
        parameters=[USER_ID],
        request=UpdateUserRequest,
        responses=operation_responses(
            empty_response("Replaced", status=200),
            {400: f"{BAD_USER_ID}, `EmptyName`, {NAMED}", 403: "Not allowed", 404: NO_USER},
        ),
    )
    def put(self, request: Request, user_id: str) -> HttpResponse:
        body = self.body(UpdateUserRequest)
        update_user(
            actor=self.actor,
            user_id=self.user_id,
            name=body["name"],
            email=body.get("email"),
            user_type=body["user_type"],
        )
        return no_body()

    @extend_schema(
        operation_id="delete_user",
        tags=TAGS,
        summary="End a user and all that they may do",
        parameters=[USER_ID],
        responses=operation_responses(
            empty_response("Deleted"), {400: BAD_USER_ID, 403: "Not allowed", 404: NO_USER, 409: LAST_ADMINISTRATOR}
        ),
    )
    def delete(self, request: Request, user_id: str) -> Response:
        delete_user(actor=self.actor, user_id=self.user_id)
        return Response(status=204)


class UserSearchView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="search_user",
        tags=TAGS,
        summary="Users whose name or mail is like a text, best first",
        description=f"Without the right to list users there are {HITS} hits at most and none for an empty text, and no "
        "further pages.",
        parameters=[EXTENSIONS_HEADER],
        request=SearchUserRequest,
        responses=operation_responses({200: SearchUserResponse}, {400: BAD_PAGE, 403: "A further page is not allowed"}),
    )
    def post(self, request: Request) -> Response:
        body, with_extensions = self.body(SearchUserRequest), self.wants_extensions()
        user_type = body.get("user_type")
        users, token = search_users(
            actor=self.actor,
            typed=body["search"],
            user_type=user_type,
            page=page_of_search("user-search", body, user_type),
        )
        found = [searched_user_json(user, with_extensions=with_extensions) for user in users]
        return Response({"users": found} | next_page_of_search(body, token))
