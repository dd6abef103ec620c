"""Allowed actions on an object with the names of Lakekeeper's older API; each type of object has its own routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.serializers import KebabSerializer, operation_responses
from management.api.permission_places import DESCRIBED, PROJECT_BY_ID, TAGS, PermissionView
from management.api.principals import principal_of_query
from management.api.schema import BAD_USER_ID, PRINCIPAL, PROJECT_ERRORS, ObjectType
from tenancy.authz.action_names import GRANT_ACTION_NAMES, LEGACY_ACTION_NAMES
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.selectors.allowed_actions import list_allowed_actions_for

T = Securable.Type
Words = Mapping[Securable.Type, Mapping[str, Can]]


class AllowedActionsView(PermissionView):
    words: ClassVar[Mapping[str, Can]]

    def get(self, request: Request, **names: str) -> Response:
        grantee = principal_of_query(request.GET)
        target, words = self.target(), self.words
        allowed = list_allowed_actions_for(
            actor=self.actor, grantee=grantee, ref=target.ref, actions=list(words.values()), missing=target.missing
        )
        return Response({"allowed-actions": [word for word, action in words.items() if action in allowed]})


def _shape(kind: Securable.Type, words: Words, ending: str) -> type[KebabSerializer]:
    actions = serializers.ListField(child=serializers.ChoiceField(list(words[kind])))
    return type(f"{DESCRIBED[kind].shape}{ending}", (KebabSerializer,), {"allowed_actions": actions})


_ACCESS: Final = {kind: _shape(kind, LEGACY_ACTION_NAMES, "AccessResponse") for kind in LEGACY_ACTION_NAMES}
_ABOUT_GRANTS: Final = {
    kind: _shape(kind, GRANT_ACTION_NAMES, "AuthorizerActionsResponse") for kind in GRANT_ACTION_NAMES
}


def _access_view(kind: Securable.Type, told: ObjectType, *, suffix: str = "") -> type[AllowedActionsView]:
    view: type[AllowedActionsView] = type(
        f"{told.shape}AccessView", (AllowedActionsView,), {"kind": kind, "words": LEGACY_ACTION_NAMES[kind]}
    )
    return _described(
        view,
        told,
        _ACCESS[kind],
        operation_id=f"get_{told.word}_access{suffix}",
        summary=f"List allowed actions on {told.noun}",
        deprecated=True,
    )


def _authorizer_actions_view(kind: Securable.Type) -> type[AllowedActionsView]:
    told = DESCRIBED[kind]
    view: type[AllowedActionsView] = type(
        f"{told.shape}AuthorizerActionsView", (AllowedActionsView,), {"kind": kind, "words": GRANT_ACTION_NAMES[kind]}
    )
    return _described(
        view,
        told,
        _ABOUT_GRANTS[kind],
        operation_id=f"get_{told.word}_authorizer_actions",
        summary=f"List allowed actions on the grants of {told.noun}",
    )


def _described(
    view: type[AllowedActionsView], told: ObjectType, answer: type[KebabSerializer], **operation: Any
) -> type[AllowedActionsView]:
    """Describe both operations; `operation` has what differs."""
    bad = [PROJECT_ERRORS[400]] if view.kind is T.PROJECT else []
    refusals = told.errors(*bad, "`InvalidGetAccessQuery`", BAD_USER_ID, missing="`UserNotFound`, `RoleIdNotFound`")
    described = extend_schema(
        tags=TAGS,
        description="Other principals than the caller need the permission to read the grants on the object. Roles "
        "from their tokens and the permissions of instance admins are not considered for them.",
        parameters=[*told.parameters, *PRINCIPAL],
        responses=operation_responses({200: answer}, refusals),
        **operation,
    )
    return extend_schema_view(get=described)(view)


ACCESS_VIEWS: Final[Mapping[Securable.Type, type[AllowedActionsView]]] = {
    kind: _access_view(kind, DESCRIBED[kind]) for kind in LEGACY_ACTION_NAMES if kind is not T.GENERIC_TABLE
}
PROJECT_BY_ID_ACCESS_VIEW: Final = _access_view(T.PROJECT, PROJECT_BY_ID, suffix="_by_id_deprecated")
AUTHORIZER_ACTIONS_VIEWS: Final = {kind: _authorizer_actions_view(kind) for kind in GRANT_ACTION_NAMES}
