"""Responses of access reviews. The names of objects and roles are in the context, as `names`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from rest_framework import serializers

from management.access_review_csv import reviewed_object
from management.api.serializers import LAST_PAGE, Flag, IdText, ResponseSerializer, Text
from management.resource_types import resource_type
from tenancy.authz.access_review import Rights, Source, instance_admins, standing_actions
from tenancy.authz.actions import Can
from tenancy.authz.port import authorizer
from tenancy.models import Securable
from tenancy.selectors.object_reviews import Principal
from tenancy.selectors.objects import NamedObject
from tenancy.selectors.principal_reviews import AccessSource

T = Securable.Type
OBJECT_TYPES: Final = [resource_type(each) for each in T if each is not T.USER]


class ReviewedObject(ResponseSerializer):
    type = serializers.ChoiceField(OBJECT_TYPES)
    id = Text(required=False, help_text="The id that clients see. Absent for objects that are hidden from the caller")
    warehouse_id = IdText(required=False, help_text="Of a warehouse and of objects in it")
    name = serializers.ListField(
        child=Text(), required=False, help_text="From the warehouse down; empty when it is hidden from the caller"
    )
    dropped = Flag(required=False, help_text="True for dropped objects that can be restored, else absent")

    def render_type(self, found: NamedObject) -> str:
        return resource_type(found.securable_type)

    def render_id(self, found: NamedObject) -> str | None:
        return found.object_id or None

    def render_name(self, found: NamedObject) -> Sequence[str] | None:
        return found.path if found.object_id else None

    def render_dropped(self, found: NamedObject) -> bool | None:
        return found.is_dropped or None


class ReviewedRole(ResponseSerializer):
    id = IdText()
    name = Text()

    def render_id(self, role_id: UUID) -> UUID:
        return role_id

    def render_name(self, role_id: UUID) -> str:
        name: str = self.context["names"].roles.get(role_id, "")
        return name


class ReviewedGrant(ResponseSerializer):
    privilege = Text(help_text="`assignee`: a membership of the role")
    on = ReviewedObject()
    via = ReviewedRole(
        many=True, source="through", help_text="A chain of roles, each a member of the next; empty for a direct grant"
    )
    expires_at = serializers.DateTimeField(
        required=False, help_text="When the grant or one of the memberships before it expires, whichever is first"
    )

    def render_on(self, source: Source) -> NamedObject:
        return reviewed_object(source.securable_id, self.context["names"])


class ReviewedPrincipal(ResponseSerializer):
    type = serializers.ChoiceField(["user", "role"])
    id = Text()
    name = Text(allow_blank=True)
    blocked = Flag(required=False, help_text="True for blocked users, else absent")
    has_members_of_tokens = Flag(
        required=False,
        help_text="True for roles that tokens of an identity provider may assign to any of its users, else absent",
    )

    def render_type(self, principal: Principal) -> str:
        return "user" if principal.role_id is None else "role"

    def render_id(self, principal: Principal) -> str | UUID | None:
        return principal.user_id if principal.role_id is None else principal.role_id

    def render_blocked(self, principal: Principal) -> bool | None:
        return principal.is_blocked or None

    def render_has_members_of_tokens(self, principal: Principal) -> bool | None:
        return principal.has_members_of_tokens or None


class _RightsRenderer:
    """Renders the members that reviews of objects and of principals share, from entries with `Rights`."""

    def render_privileges(self, entry: tuple[Any, Rights]) -> Sequence[str]:
        return entry[1].effective.privileges

    def render_actions(self, entry: tuple[Any, Rights]) -> Sequence[Can]:
        return entry[1].effective.actions

    def render_grants(self, entry: tuple[Any, Rights]) -> Sequence[Source]:
        return entry[1].sources

    def render_shown_from_below(self, entry: tuple[Any, Rights]) -> bool:
        return entry[1].is_shown_from_below


class PrincipalRights(_RightsRenderer, ResponseSerializer):
    """A principal, and what it may do with the object."""

    principal = ReviewedPrincipal()
    privileges = serializers.ListField(child=Text(), help_text="All effective privileges, granted or implied")
    actions = serializers.ListField(child=Text(), help_text="Names as in `.../actions`")
    grants = ReviewedGrant(many=True, help_text="All grants that give a permission on the object")
    shown_from_below = Flag(help_text="Whether the object is visible because of an object in it")

    def render_principal(self, entry: tuple[Principal, Rights]) -> Principal:
        return entry[0]


class InstanceAdminRights(ResponseSerializer):
    users = serializers.ListField(child=Text())
    actions = serializers.ListField(child=Text())


class ReviewResponse(ResponseSerializer):
    decided_by = Text(
        help_text="The authorization backend. With `allowall` every request is allowed, whatever the response lists"
    )

    def render_decided_by(self, _: Any) -> str:
        return authorizer().name


class ObjectReviewResponse(ReviewResponse):
    object = ReviewedObject()
    principals = PrincipalRights(many=True)
    instance_admins = InstanceAdminRights(
        help_text="Users with permissions that do not come from grants; they are not among the principals"
    )
    next_page_token = Text(required=False, help_text=LAST_PAGE)

    def render_instance_admins(self, content: Mapping[str, Any]) -> dict[str, Any]:
        return {"users": instance_admins(), "actions": standing_actions(content["object"].securable_type)}


class PrivilegesBelow(ResponseSerializer):
    type = serializers.ChoiceField(OBJECT_TYPES)
    privileges = serializers.ListField(child=Text())

    def render_type(self, below: tuple[str, Sequence[str]]) -> str:
        return resource_type(T(below[0]))

    def render_privileges(self, below: tuple[str, Sequence[str]]) -> Sequence[str]:
        return below[1]


class GrantEffect(ResponseSerializer):
    grant = ReviewedGrant(source="source")
    privileges = serializers.ListField(child=Text(), help_text="On the object, by this grant alone")
    actions = serializers.ListField(child=Text(), help_text="On the object, by this grant alone")
    below = PrivilegesBelow(many=True, help_text="Privileges on all objects in the object, by type; may be empty")

    def render_privileges(self, source: AccessSource) -> Sequence[str]:
        return source.effective.privileges

    def render_actions(self, source: AccessSource) -> Sequence[Can]:
        return source.effective.actions


class PrincipalReviewResponse(ReviewResponse):
    is_instance_admin = Flag()
    places = GrantEffect(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class ObjectRights(_RightsRenderer, ResponseSerializer):
    """An object, and what the principal may do with it."""

    object = ReviewedObject()
    privileges = serializers.ListField(child=Text())
    actions = serializers.ListField(child=Text())
    grants = ReviewedGrant(many=True)
    shown_from_below = Flag()

    def render_object(self, entry: tuple[str, Rights]) -> NamedObject:
        return reviewed_object(entry[0], self.context["names"])


class ReachedObjectsResponse(ReviewResponse):
    is_instance_admin = Flag()
    objects = ObjectRights(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)
