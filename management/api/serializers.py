"""Serializers and fields that several resources share: strict requests, responses, searches, ids, users or roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from django.http import QueryDict
from drf_spectacular.drainage import set_override
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import MAX_PAGE_SIZE
from icekeeper.kernel.ids import parse_id
from tenancy.actor import Grantee, require_user_id
from tenancy.selectors.similarity import DEFAULT_HITS, MAX_SEARCH_LENGTH
from tenancy.selectors.users import find_unregistered_users

ONLY_WITH_PAGES = "Only with `page-size` or `page-token`; absent on the last page"
LAST_PAGE = "Absent on the last page"


class Text(serializers.CharField):
    """A JSON string, kept as it is; DRF's own field also takes numbers and trims."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    """`true` or `false`; DRF's own field also takes texts and numbers."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Number(serializers.IntegerField):
    """A whole number; DRF's own field also takes texts and fractions of zero."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return data


class Choice(serializers.ChoiceField):
    """One of several texts; unlike that of DRF's own field, the error lists them."""

    def __init__(self, choices: Sequence[str], **options: Any) -> None:
        super().__init__(choices, **options)
        self.error_messages["invalid_choice"] = f"must be one of {', '.join(choices)}"


class KebabSerializer(serializers.Serializer[Any]):
    # JSON keys are written `like-this`; in Python the fields are named `like_this`. (A docstring here would become the
    # description of every shape that has none.)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = {}
        for name, field in super().get_fields().items():
            key = name.replace("_", "-")
            if key != name:
                field.source = name
            fields[key] = field
        return fields


class _Member(NamedTuple):
    key: str
    source: str
    render: Callable[[Any, Any], Any] | None
    child: type[ResponseSerializer] | None
    is_list: bool
    is_optional: bool


class ResponseSerializer(serializers.Serializer[Any]):
    # Renders an object or a dict: each member is what `render_<member>` returns, else the attribute or entry `source`.
    # A member that is not required is left out when it is None. Leaf values are left to the JSON writer, which renders
    # UUIDs, times and enums; fields are not copied per instance, so that long listings stay fast.
    has_kebab_keys: ClassVar = True

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {self.key_of(name): field for name, field in super().get_fields().items()}

    @classmethod
    def key_of(cls, name: str) -> str:
        """Return the JSON key of the field `name`."""
        return name.replace("_", "-") if cls.has_kebab_keys else name

    def to_representation(self, instance: Any) -> dict[str, Any]:
        rendered: dict[str, Any] = {}
        for member in _members(type(self)):
            if member.render is not None:
                value = member.render(self, instance)
            elif isinstance(instance, dict):
                value = instance.get(member.source)
            else:
                value = getattr(instance, member.source)
            if value is None:
                if not member.is_optional:
                    rendered[member.key] = None
            elif member.child is None:
                rendered[member.key] = value
            else:
                child = member.child(context=self.context)
                rendered[member.key] = (
                    [child.to_representation(each) for each in value]
                    if member.is_list
                    else child.to_representation(value)
                )
        return rendered


@cache
def _members(shape: type[ResponseSerializer]) -> tuple[_Member, ...]:
    found = []
    for name, field in shape._declared_fields.items():  # noqa: SLF001 - the only list of a serializer's fields
        inner = getattr(field, "child", None) or field
        child = type(inner) if isinstance(inner, ResponseSerializer) else None
        found.append(
            _Member(
                key=shape.key_of(name),
                source=field.source or name,
                render=getattr(shape, f"render_{name}", None),
                child=child,
                is_list=inner is not field,
                is_optional=not field.required,
            )
        )
    return tuple(found)


class VariantSerializer(serializers.Serializer[Any]):
    # A shape with variants, such as one for each type of objects. Each variant is a component: its name is `component`
    # with the name of the variant in it. Choice fields that are declared without choices have those of the variant, and
    # nested shapes are of the same variant.
    component: ClassVar = "{}"

    def __init__(self, *args: Any, variant: str = "", choices: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.set_variant(variant, choices)

    def set_variant(self, variant: str, choices: Sequence[str]) -> None:
        self.variant, self.choices = variant, choices
        set_override(self, "component_name", self.component.format(variant))

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        for field in fields.values():
            inner = getattr(field, "child", None) or field
            if isinstance(inner, VariantSerializer):
                inner.set_variant(self.variant, self.choices)
            elif isinstance(inner, serializers.ChoiceField) and not inner.choices:
                inner.choices = self.choices
        return fields


class StrictSerializer(KebabSerializer):
    # Rejects unknown members: a misspelled one must not be ignored.

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(data.keys() - self.fields.keys()) if isinstance(data, dict) else []
        if unknown:
            raise serializers.ValidationError({unknown[0][:100]: ["There is no such member"]})
        return super().to_internal_value(data)


@extend_schema_field(OpenApiTypes.UUID)
class IdText(Text):
    """A UUID in its canonical form."""


def read_uuid(value: object, where: str) -> UUID:
    """Raises `BadRequest` for anything but the text of a UUID."""
    parsed = parse_id(value) if isinstance(value, str) else None
    if parsed is None:
        raise BadRequest(f"{where}: {str(value)[:100]!r} is not a UUID")
    return parsed


class SearchRequest(KebabSerializer):
    search = Text(
        allow_blank=True, help_text=f"The text to search for; only its first {MAX_SEARCH_LENGTH} characters count"
    )
    page_size = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        help_text=f"Maximum number of hits; default: {DEFAULT_HITS}",
    )
    page_token = Text(
        required=False, allow_null=True, allow_blank=True, help_text="`next-page-token` of the previous page"
    )


class InvalidGetAccessQuery(BadRequest):
    wire_type = "InvalidGetAccessQuery"


class MissingGrantPrincipal(BadRequest):
    wire_type = "MissingGrantPrincipal"


class AmbiguousGrantPrincipal(BadRequest):
    wire_type = "AmbiguousGrantPrincipal"


class UserOrRole(serializers.Serializer[Any]):
    """Exactly one of the two."""

    user = Text(required=False, help_text="`<provider>~<subject>`")
    role = IdText(required=False, help_text="The role's id: the role with all its members")


class GrantPrincipal(UserOrRole, StrictSerializer):
    """Exactly one of the two."""


def render_grantee(grantee: Grantee) -> dict[str, str]:
    return {"user": grantee.user_id} if grantee.user_id is not None else {"role": str(grantee.role_id)}


def unseen_users(grantees: Iterable[Grantee], *, with_extensions: bool) -> dict[str, Any]:
    """Return the context of responses with the member `seen`: the users who have never called, None to omit it."""
    users = {each.user_id for each in grantees if each.user_id is not None}
    return {"unseen": find_unregistered_users(users) if with_extensions else None}


def is_seen(grantee: Grantee, context: Mapping[str, Any]) -> bool | None:
    """Return the member `seen`: whether a user has ever called, None to omit it."""
    unseen = context["unseen"]
    return None if unseen is None or grantee.user_id is None else grantee.user_id not in unseen


def read_grantee(given: dict[str, Any], where: str) -> Grantee:
    """Read the checked members `user` and `role`. Raises `BadRequest`, or what `require_user_id` raises."""
    user, role = given.get("user"), given.get("role")
    if (user is None) == (role is None):
        raise BadRequest(f"{where}: exactly one of user and role is required")
    return (
        Grantee(user_id=require_user_id(user))
        if user is not None
        else Grantee(role_id=read_uuid(role, f"{where}.role"))
    )


def principal_of_query(query: QueryDict) -> Grantee | None:
    """Read `principalUser` or `principalRole`, None without either.

    Raises `InvalidGetAccessQuery` (400) for more than one, else as `read_grantee`.
    """
    users, roles = query.getlist("principalUser"), query.getlist("principalRole")
    if len(users) + len(roles) > 1:
        raise InvalidGetAccessQuery("Only one of principalUser and principalRole is allowed, once")
    if users:
        return Grantee(user_id=require_user_id(users[0]))
    return Grantee(role_id=read_uuid(roles[0], "principalRole")) if roles else None


def grant_principal(query: QueryDict) -> Grantee | None:
    """Like `principal_of_query`, but raises `AmbiguousGrantPrincipal` (400) for more than one."""
    try:
        return principal_of_query(query)
    except InvalidGetAccessQuery as error:
        raise AmbiguousGrantPrincipal(error.message) from error


def required_grant_principal(query: QueryDict) -> Grantee:
    """Like `grant_principal`, but raises `MissingGrantPrincipal` (400) without one."""
    grantee = grant_principal(query)
    if grantee is None:
        raise MissingGrantPrincipal("One of principalUser and principalRole is required")
    return grantee
