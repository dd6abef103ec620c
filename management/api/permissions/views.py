"""Permission checks and their explanations, allowed actions on objects, and managed access."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.objects import name_objects, resolve_objects
from management.api.base import ManagementViewSet, ObjectViewSet, no_body
from management.api.permissions.checks import (
    ActionNames,
    read_batch_check,
    read_check,
    read_ids,
    read_items,
    read_must_exist,
)
from management.api.permissions.schema import (
    describe_access,
    describe_actions,
    describe_authorizer_actions,
    describe_checks,
    describe_managed_access,
)
from management.api.permissions.serializers import (
    ActionsBatchCheckResponse,
    AllowedActionsResponse,
    ExplainRequest,
    ExplainResponse,
    NamespaceAuthPropertiesResponse,
    ObjectActionsResponse,
    PermissionCheckOperation,
    PermissionCheckRequest,
    PermissionCheckResponse,
    SetManagedAccessRequest,
    WarehouseAuthPropertiesResponse,
)
from management.api.schema import OperationsByType
from management.api.serializers import principal_of_query
from tenancy.actor import require_user_id
from tenancy.authz.actions import ACTION_NAMES, ACTIONS_ON, GRANT_ACTION_NAMES, LEGACY_ACTION_NAMES
from tenancy.models import Securable
from tenancy.selectors.explanations import explain_for
from tenancy.selectors.grants import get_managed_access_for
from tenancy.selectors.permission_checks import (
    ActionCheck,
    Verdict,
    check_actions_for,
    is_allowed_for,
    list_allowed_actions_for,
    list_user_actions_for,
)
from tenancy.selectors.projects import named_project_id, requested_project_id
from tenancy.services.grants import set_managed_access

T = Securable.Type
IN_PROJECTS: Final = frozenset({T.PROJECT, T.ROLE})
"""Types whose routes of actions find only objects of the request's project."""


@describe_checks
class PermissionCheckViewSet(ManagementViewSet):
    reading_actions = {"check", "explain", "batch_check"}

    def check(self, request: Request) -> Response:
        check = read_check(self, PermissionCheckRequest, PermissionCheckOperation.action_names)
        target = check.target
        allowed = is_allowed_for(
            actor=self.actor, grantee=check.grantee, ref=target.ref, action=check.action, missing=target.missing
        )
        return self.respond(PermissionCheckResponse, {"allowed": allowed})

    def explain(self, request: Request) -> Response:
        check = read_check(self, ExplainRequest, ACTION_NAMES)
        explained = explain_for(
            actor=self.actor,
            grantee=check.grantee,
            ref=check.target.ref,
            action=check.action,
            missing=check.target.missing,
            name_objects=name_objects,
        )
        return self.respond(ExplainResponse, explained)

    def batch_check(self, request: Request) -> Response:
        with_extensions = self.wants_extensions()
        items, must_exist = read_items(request.data), read_must_exist(request.data)
        ids = read_ids(items)
        own_project = requested_project_id(named_project_id(request.META))
        read = [read_batch_check(item, own_project) for item in items]
        checks = [each for each in read if isinstance(each, ActionCheck)]
        found = iter(check_actions_for(actor=self.actor, checks=checks, must_exist=must_exist, resolve=resolve_objects))
        verdicts = [
            next(found) if isinstance(each, ActionCheck) else Verdict(is_allowed=False, error=each) for each in read
        ]
        results: list[dict[str, Any]] = [
            {"id": own_id, "allowed": each.is_allowed, "error": each.error if with_extensions else None}
            for own_id, each in zip(ids, verdicts, strict=True)
        ]
        return self.respond(ActionsBatchCheckResponse, {"results": results})


class ObjectActionViewSet(ObjectViewSet):
    schema = OperationsByType(describe_actions)  # type: ignore[assignment]  # it depends on the route

    def list(self, request: Request, **path: str) -> Response:
        kind, grantee = self.securable_type, principal_of_query(request.GET)
        if kind is T.USER:
            user_id = require_user_id(self.path_text("user_id"))
            allowed = list_user_actions_for(actor=self.actor, grantee=grantee, user_id=user_id)
        else:
            target = self.target(self.project() if kind in IN_PROJECTS else None)
            allowed = list_allowed_actions_for(
                actor=self.actor, grantee=grantee, ref=target.ref, actions=ACTIONS_ON[kind], missing=target.missing
            )
        return self.respond(ObjectActionsResponse, {"allowed_actions": allowed})


class AccessViewSet(ObjectViewSet):
    """Allowed actions with the names of Lakekeeper's older API."""

    schema = OperationsByType(describe_access)  # type: ignore[assignment]  # it depends on the route
    action_names: ClassVar[ActionNames] = LEGACY_ACTION_NAMES

    def list(self, request: Request, **path: str) -> Response:
        grantee, target = principal_of_query(request.GET), self.target()
        names = self.action_names[self.securable_type]
        allowed = list_allowed_actions_for(
            actor=self.actor, grantee=grantee, ref=target.ref, actions=list(names.values()), missing=target.missing
        )
        return self.respond(
            AllowedActionsResponse, {"allowed_actions": [name for name, action in names.items() if action in allowed]}
        )


class ProjectByIdAccessViewSet(AccessViewSet):
    schema = OperationsByType(partial(describe_access, by_id=True))


class AuthorizerActionViewSet(AccessViewSet):
    """Allowed actions on the grants of an object."""

    schema = OperationsByType(describe_authorizer_actions)
    action_names = GRANT_ACTION_NAMES


class ManagedAccessViewSet(ObjectViewSet):
    schema = OperationsByType(describe_managed_access)  # type: ignore[assignment]  # it depends on the route

    def retrieve(self, request: Request, **path: str) -> Response:
        target = self.target()
        found = get_managed_access_for(actor=self.actor, ref=target.ref, missing=target.missing)
        is_namespace = self.securable_type is T.NAMESPACE
        return self.respond(NamespaceAuthPropertiesResponse if is_namespace else WarehouseAuthPropertiesResponse, found)

    def update(self, request: Request, **path: str) -> HttpResponse:
        is_managed = self.body(SetManagedAccessRequest)["managed_access"]
        target = self.target()
        set_managed_access(actor=self.actor, ref=target.ref, is_managed=is_managed, missing=target.missing)
        return no_body()
