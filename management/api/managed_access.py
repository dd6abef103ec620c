"""Managed access of warehouses and namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.serializers import Flag, KebabSerializer, empty_response, operation_responses
from management.api.base import no_body
from management.api.permission_places import DESCRIBED, TAGS, PermissionView
from tenancy.models import Securable
from tenancy.selectors.grants import get_managed_access_for
from tenancy.services.managed_access import set_managed_access

T = Securable.Type


class SetManagedAccessRequest(KebabSerializer):
    managed_access = Flag(help_text="Whether owners of the objects in it may not grant privileges on them")


class WarehouseAuthPropertiesResponse(KebabSerializer):
    managed_access = serializers.BooleanField()


class NamespaceAuthPropertiesResponse(KebabSerializer):
    managed_access = serializers.BooleanField(help_text="Whether it is set on the namespace itself")
    managed_access_inherited = serializers.BooleanField(
        help_text="Whether it applies: set on the namespace, on a parent, or on the warehouse"
    )


class AuthPropertiesView(PermissionView):
    def get(self, request: Request, **names: str) -> Response:
        target = self.target()
        found = get_managed_access_for(actor=self.actor, ref=target.ref, missing=target.missing)
        inherited = {"managed-access-inherited": found.is_in_force} if self.kind is T.NAMESPACE else {}
        return Response({"managed-access": found.is_set, **inherited})


class ManagedAccessView(PermissionView):
    def post(self, request: Request, **names: str) -> HttpResponse:
        is_managed = self.body(SetManagedAccessRequest)["managed_access"]
        target = self.target()
        set_managed_access(actor=self.actor, ref=target.ref, is_managed=is_managed, missing=target.missing)
        return no_body()


V = TypeVar("V", bound=PermissionView)


def _described(kind: Securable.Type) -> Callable[[type[V]], type[V]]:
    told = DESCRIBED[kind]
    shape = NamespaceAuthPropertiesResponse if kind is T.NAMESPACE else WarehouseAuthPropertiesResponse
    reading = {
        "get": extend_schema(
            operation_id=f"get_{kind.value}_managed_access",
            tags=TAGS,
            summary=f"Get managed access of {told.noun}",
            parameters=told.parameters,
            responses=operation_responses({200: shape}, told.errors()),
        )
    }
    changing = {
        "post": extend_schema(
            operation_id=f"set_{kind.value}_managed_access",
            tags=TAGS,
            summary=f"Update managed access of {told.noun}",
            description="With managed access, owners of the objects in it may not grant privileges on them; principals "
            "with `manage_grants` may.",
            parameters=told.parameters,
            request=SetManagedAccessRequest,
            responses=operation_responses(
                empty_response("Updated", status=200), {**told.errors(), 409: "`GrantLockTimeout`"}
            ),
        )
    }

    def describe(view: type[V]) -> type[V]:
        return extend_schema_view(**(changing if issubclass(view, ManagedAccessView) else reading))(view)

    return describe


@_described(T.WAREHOUSE)
class WarehouseAuthPropertiesView(AuthPropertiesView):
    kind: ClassVar = T.WAREHOUSE


@_described(T.NAMESPACE)
class NamespaceAuthPropertiesView(AuthPropertiesView):
    kind: ClassVar = T.NAMESPACE


@_described(T.WAREHOUSE)
class WarehouseManagedAccessView(ManagedAccessView):
    kind: ClassVar = T.WAREHOUSE


@_described(T.NAMESPACE)
class NamespaceManagedAccessView(ManagedAccessView):
    kind: ClassVar = T.NAMESPACE
