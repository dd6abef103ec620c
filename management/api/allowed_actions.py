"""Allowed actions on an object; each type of object has its own route."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.objects.object_keys import find_target
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import KebabSerializer, operation_responses
from management.api.action_checks import TAGS
from management.api.principals import principal_of_query
from management.api.rights_places import RightsView
from management.api.schema import BAD_USER_ID, OBJECT_TYPES, PRINCIPAL, PROJECT_ERRORS, PROJECT_HEADER
from tenancy.authz.action_names import ACTIONS_ON
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.selectors.allowed_actions import list_allowed_actions_for, list_user_actions_for
from tenancy.selectors.objects import RightsTarget, find_role_target, find_tag_target, target_project, the_server
from tenancy.selectors.roles import role_not_found
from tenancy.selectors.tags import tag_id_not_found
from tenancy.user_ids import require_user_id

T = Securable.Type
_IN_PROJECTS: Final = frozenset({T.PROJECT, T.ROLE})
"""Types whose routes take a project beside the path."""


class AllowedActionsView(RightsView):
    def target(self) -> RightsTarget:
        """Of types in warehouses, and of those."""
        return find_target(actor=self.actor, key=self.object_key(), project=None)

    def get(self, request: Request, **names: str) -> Response:
        grantee = principal_of_query(request.GET)
        target = self.target()
        allowed = list_allowed_actions_for(
            actor=self.actor,
            grantee=grantee,
            ref=target.ref,
            actions=ACTIONS_ON[self.kind],
            missing=target.missing,
        )
        return _answer(allowed)


def _answer(allowed: list[Can]) -> Response:
    return Response({"allowed-actions": [{"action": action.value} for action in allowed]})


V = TypeVar("V", bound=AllowedActionsView)


def _shape(kind: Securable.Type) -> type[KebabSerializer]:
    name = OBJECT_TYPES[kind].shape
    words = serializers.ChoiceField([action.value for action in ACTIONS_ON[kind]])
    action = type(f"{name}ActionResponse", (KebabSerializer,), {"action": words})
    return type(f"{name}ActionsResponse", (KebabSerializer,), {"allowed_actions": action(many=True)})


def _described(kind: Securable.Type) -> Callable[[type[V]], type[V]]:
    """What the OpenAPI document says of the route for objects of a type, which is `kind` of the view from now on."""
    told = OBJECT_TYPES[kind]
    bad = ["`InvalidGetAccessQuery`", BAD_USER_ID, *([PROJECT_ERRORS[400]] if kind in _IN_PROJECTS else [])]
    gone = [*([told.missing] if told.missing else []), "`UserNotFound`, `RoleIdNotFound`"]
    operation = extend_schema(
        operation_id=f"get_{told.word}_actions",
        tags=TAGS,
        summary=f"List allowed actions on {told.noun}",
        description="Other principals than the caller need the permission to read the grants on the object. Roles "
        "from their tokens and the permissions of instance admins are not considered for them.",
        parameters=[*told.parameters, *([PROJECT_HEADER] if kind in _IN_PROJECTS else []), *PRINCIPAL],
        responses=operation_responses({200: _shape(kind)}, {400: ", ".join(bad), 404: ", ".join(gone)}),
    )

    def describe(view: type[V]) -> type[V]:
        view.kind = kind
        return extend_schema_view(get=operation)(view)

    return describe


@_described(T.SERVER)
class ServerActionsView(AllowedActionsView):
    def target(self) -> RightsTarget:
        return the_server()


@_described(T.PROJECT)
class ProjectActionsView(AllowedActionsView):
    def target(self) -> RightsTarget:
        return target_project(self.project())


@_described(T.WAREHOUSE)
class WarehouseActionsView(AllowedActionsView):
    pass


@_described(T.NAMESPACE)
class NamespaceActionsView(AllowedActionsView):
    pass


@_described(T.TABLE)
class TableActionsView(AllowedActionsView):
    pass


@_described(T.VIEW)
class ViewActionsView(AllowedActionsView):
    pass


@_described(T.GENERIC_TABLE)
class GenericTableActionsView(AllowedActionsView):
    pass


@_described(T.ROLE)
class RoleActionsView(AllowedActionsView):
    def target(self) -> RightsTarget:
        project = self.project()
        role_id = self.path_id("role_id", lambda text: role_not_found(text, project))
        return find_role_target(actor=self.actor, project=project, role_id=role_id)


@_described(T.TAG)
class TagActionsView(AllowedActionsView):
    """Of whatever project: clients send none here."""

    def target(self) -> RightsTarget:
        definition_id = self.path_id("tag_definition_id", lambda text: tag_id_not_found(text, None))
        return find_tag_target(actor=self.actor, project=None, definition_id=definition_id)


@_described(T.USER)
class UserActionsView(AllowedActionsView):
    """Users are no objects that something is granted on: what the server lets one do with them counts."""

    def get(self, request: Request, **names: Any) -> Response:
        grantee = principal_of_query(request.GET)
        user_id = require_user_id(decode_segment(self.kwargs["user_id"]))
        return _answer(list_user_actions_for(actor=self.actor, grantee=grantee, user_id=user_id))
