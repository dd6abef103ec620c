"""What somebody may do on an object, in the older words; each type of object has routes of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.api_shapes import KebabSerializer, answers
from management.api.base import PROJECT_REFUSALS
from management.api.permission_places import DESCRIBED, PROJECT_BY_ID, TAGS, PermissionView
from management.api.principals import PRINCIPAL, asked_principal
from management.api.rights_places import Described
from management.api.users import BAD_USER_ID
from tenancy.authz.actions import Can
from tenancy.authz.vocabulary import ABOUT_GRANTS, OLD_WORDS
from tenancy.models import Securable
from tenancy.selectors.allowed_actions import list_allowed_actions_for

T = Securable.Type
Words = Mapping[Securable.Type, Mapping[str, Can]]


class AllowedActionsView(PermissionView):
    words: ClassVar[Words]

    def get(self, request: Request, **names: str) -> Response:
        grantee = asked_principal(request.GET)
        target, words = self.target(), self.words[self.kind]
        allowed = list_allowed_actions_for(
            actor=self.actor, grantee=grantee, ref=target.ref, actions=list(words.values()), missing=target.missing
        )
        return Response({"allowed-actions": [word for word, action in words.items() if action in allowed]})


class AccessView(AllowedActionsView):
    words = OLD_WORDS


class AuthorizerActionsView(AllowedActionsView):
    words = ABOUT_GRANTS


def _shape(kind: Securable.Type, words: Words, ending: str) -> type[KebabSerializer]:
    actions = serializers.ListField(child=serializers.ChoiceField(list(words[kind])))
    return type(f"{DESCRIBED[kind].shape}{ending}", (KebabSerializer,), {"allowed_actions": actions})


_ACCESS: Final = {kind: _shape(kind, OLD_WORDS, "AccessResponse") for kind in OLD_WORDS}
_ABOUT_GRANTS: Final = {kind: _shape(kind, ABOUT_GRANTS, "AuthorizerActionsResponse") for kind in ABOUT_GRANTS}

V = TypeVar("V", bound=AllowedActionsView)


def _described(
    kind: Securable.Type, *, told: Described | None = None, suffix: str = ""
) -> Callable[[type[V]], type[V]]:
    """What the OpenAPI document says of the routes for objects of a type."""
    told, thing = told or DESCRIBED[kind], kind.value.replace("-", "_")
    bad = [PROJECT_REFUSALS[400]] if kind is T.PROJECT else []
    common: dict[str, Any] = {
        "tags": TAGS,
        "description": "To ask about somebody else takes the right to read the grants there. What a token of theirs "
        "would add is not known, and nobody is an instance admin in the answer.",
        "parameters": [*told.parameters, *PRINCIPAL],
    }
    refusals = told.refusals(*bad, "`InvalidGetAccessQuery`", BAD_USER_ID, missing="`UserNotFound`, `RoleIdNotFound`")

    def describe(view: type[V]) -> type[V]:
        if issubclass(view, AccessView):
            operation = extend_schema(
                operation_id=f"get_{thing}_access{suffix}",
                summary=f"What one may do on {told.noun}",
                deprecated=True,
                responses=answers({200: _ACCESS[kind]}, refusals),
                **common,
            )
        else:
            operation = extend_schema(
                operation_id=f"get_{thing}_authorizer_actions{suffix}",
                summary=f"What one may do about the grants on {told.noun}",
                responses=answers({200: _ABOUT_GRANTS[kind]}, refusals),
                **common,
            )
        return extend_schema_view(get=operation)(view)

    return describe


@_described(T.SERVER)
class ServerAccessView(AccessView):
    kind: ClassVar = T.SERVER


@_described(T.PROJECT)
class ProjectAccessView(AccessView):
    kind: ClassVar = T.PROJECT


@_described(T.PROJECT, told=PROJECT_BY_ID, suffix="_by_id_deprecated")
class ProjectByIdAccessView(AccessView):
    kind: ClassVar = T.PROJECT


@_described(T.WAREHOUSE)
class WarehouseAccessView(AccessView):
    kind: ClassVar = T.WAREHOUSE


@_described(T.NAMESPACE)
class NamespaceAccessView(AccessView):
    kind: ClassVar = T.NAMESPACE


@_described(T.TABLE)
class TableAccessView(AccessView):
    kind: ClassVar = T.TABLE


@_described(T.VIEW)
class ViewAccessView(AccessView):
    kind: ClassVar = T.VIEW


@_described(T.ROLE)
class RoleAccessView(AccessView):
    kind: ClassVar = T.ROLE


@_described(T.SERVER)
class ServerAuthorizerActionsView(AuthorizerActionsView):
    kind: ClassVar = T.SERVER


@_described(T.PROJECT)
class ProjectAuthorizerActionsView(AuthorizerActionsView):
    kind: ClassVar = T.PROJECT


@_described(T.WAREHOUSE)
class WarehouseAuthorizerActionsView(AuthorizerActionsView):
    kind: ClassVar = T.WAREHOUSE


@_described(T.NAMESPACE)
class NamespaceAuthorizerActionsView(AuthorizerActionsView):
    kind: ClassVar = T.NAMESPACE


@_described(T.TABLE)
class TableAuthorizerActionsView(AuthorizerActionsView):
    kind: ClassVar = T.TABLE


@_described(T.VIEW)
class ViewAuthorizerActionsView(AuthorizerActionsView):
    kind: ClassVar = T.VIEW


@_described(T.GENERIC_TABLE)
class GenericTableAuthorizerActionsView(AuthorizerActionsView):
    kind: ClassVar = T.GENERIC_TABLE


@_described(T.ROLE)
class RoleAuthorizerActionsView(AuthorizerActionsView):
    kind: ClassVar = T.ROLE
