"""Grants on the wire: what is asked for, and what is told."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

from rest_framework import serializers

from catalog.objects.grants import GrantedObject
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.serializers import KebabSerializer, Text
from management.api.principals import GrantPrincipal, read_grantee, seen_json
from management.api.serializers import StrictSerializer, resource_type
from management.api.users.serializers import SEEN
from tenancy.authz.privileges import Privilege, is_privilege
from tenancy.models import Securable
from tenancy.selectors.grants import HeldGrant
from tenancy.services.grants import (
    MAX_CHANGES,
    MAX_PRIVILEGE_LENGTH,
    Difference,
    GrantDiffTooLarge,
    GrantSpec,
    build_difference,
)

T = Securable.Type
GRANTED_ON: Final = (
    T.SERVER, T.PROJECT, T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE, T.TAG,
)  # fmt: skip
"""Types of objects with routes for grants; who is in a role is told with the role."""

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)

RESOURCE_TYPES: Final = [resource_type(each) for each in GRANTED_ON]


class EmptyGrantDiff(BadRequest):
    wire_type = "EmptyGrantDiff"


class EndField(serializers.DateTimeField):
    """A moment as RFC 3339 writes it, with its zone; DRF's own field also takes days, and moments of no zone."""

    def to_internal_value(self, value: Any) -> datetime:
        if not isinstance(value, str) or not _MOMENT.fullmatch(value):
            self.fail("invalid", format="2027-01-31T18:00:00Z")
        return super().to_internal_value(value)


class RevokeEntry(StrictSerializer):
    privilege = Text(
        allow_blank=True,
        help_text=f"1 to {MAX_PRIVILEGE_LENGTH} characters. What is to be revoked may be none that there is any more",
    )
    principal = GrantPrincipal()


class GrantEntry(StrictSerializer):
    privilege = Text(allow_blank=True, help_text="One of those that can be granted on the resource")
    principal = GrantPrincipal()
    expires_at = EndField(
        required=False, allow_null=True, help_text="Its end; without it, it has none. What is granted already gets it"
    )


class ApplyGrantsRequest(StrictSerializer):
    """At least one entry, and at most 100 in both together."""

    writes = serializers.ListField(
        child=GrantEntry(), required=False, max_length=MAX_CHANGES, help_text="To be granted"
    )
    deletes = serializers.ListField(
        child=RevokeEntry(), required=False, max_length=MAX_CHANGES, help_text="To be revoked"
    )


class GrantResource(KebabSerializer):
    type = serializers.ChoiceField(RESOURCE_TYPES)
    project_id = Text(required=False, help_text="Of a project")
    warehouse_id = serializers.UUIDField(required=False, help_text="Of a warehouse and of what is in one")
    namespace_id = serializers.UUIDField(required=False, help_text="Of a namespace")
    table_id = serializers.UUIDField(required=False, help_text="Of a table, as clients know it")
    view_id = serializers.UUIDField(required=False, help_text="Of a view, as clients know it")
    generic_table_id = serializers.UUIDField(required=False, help_text="Of a generic table, as clients know it")
    tag_definition_id = serializers.UUIDField(required=False, help_text="Of a tag definition")


class GrantResponse(KebabSerializer):
    principal = GrantPrincipal()
    resource = GrantResource()
    privilege = Text()
    recognized = serializers.BooleanField(
        help_text="Whether there is such a privilege; one that there is not any more allows nothing and can be revoked"
    )
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(required=False, help_text="Its end, absent when it has none")
    seen = serializers.BooleanField(required=False, help_text=f"Of users. {SEEN}")


class ListGrantsResponse(KebabSerializer):
    grants = GrantResponse(many=True)
    next_page_token = Text(required=False, help_text="Absent on the last page")


class PrivilegeDescriptor(KebabSerializer):
    name = Text()
    display_name = Text(help_text="For people")
    description = Text()
    category = serializers.ChoiceField(["administration", "security", "metadata", "read", "write", "create"])
    resource_type = serializers.ChoiceField(RESOURCE_TYPES)


class GrantablePrivilegesResponse(KebabSerializer):
    privileges = serializers.DictField(
        child=serializers.ListField(child=PrivilegeDescriptor()), help_text="By type of resource"
    )


class GrantablePrivilege(KebabSerializer):
    privilege = PrivilegeDescriptor()
    allowed = serializers.BooleanField(help_text="Whether one may grant it here, and revoke it")


class ResourceGrantablePrivilegesResponse(KebabSerializer):
    privileges = GrantablePrivilege(many=True)


def require_few(body: Any) -> None:
    """Asked before a body is read in full. Raises `GrantDiffTooLarge` (400)."""
    lists = [body.get(name) for name in ("writes", "deletes")] if isinstance(body, dict) else []
    number = sum(len(each) for each in lists if isinstance(each, list))
    if number > MAX_CHANGES:
        raise GrantDiffTooLarge(f"{number} changes of grants in one request; there may be {MAX_CHANGES}")


def read_difference(body: dict[str, Any]) -> Difference:
    """Of a checked `ApplyGrantsRequest`. Raises `EmptyGrantDiff`, and what `build_difference` raises (400)."""
    writes, deletes = (
        [_spec(entry, f"{name}[{place}].principal") for place, entry in enumerate(body.get(name, []))]
        for name in ("writes", "deletes")
    )
    if not writes and not deletes:
        raise EmptyGrantDiff("There must be something in writes or deletes")
    return build_difference(writes=writes, deletes=deletes)


def _spec(entry: dict[str, Any], where: str) -> GrantSpec:
    return GrantSpec(entry["privilege"], read_grantee(entry["principal"], where), entry.get("expires_at"))


def grants_json(held: list[tuple[HeldGrant, GrantedObject]], *, wants_extensions: bool) -> list[dict[str, Any]]:
    seen = seen_json([grant.grantee for grant, _ in held], wants_extensions=wants_extensions)
    return [_grant_json(*each) | extension for each, extension in zip(held, seen, strict=True)]


def _grant_json(held: HeldGrant, place: GrantedObject) -> dict[str, Any]:
    grantee = held.grantee
    told = {
        "principal": {"user": grantee.user_id} if grantee.role_id is None else {"role": str(grantee.role_id)},
        "resource": _resource_json(place),
        "privilege": held.privilege,
        "recognized": is_privilege(place.securable_type, held.privilege),
        "created-at": held.created_at,
    }
    return told if held.expires_at is None else told | {"expires-at": held.expires_at}


def _resource_json(place: GrantedObject) -> dict[str, str]:
    told = {"type": resource_type(place.securable_type)}
    if place.warehouse_id is not None:
        told["warehouse-id"] = place.warehouse_id
    if place.securable_type not in {T.SERVER, T.WAREHOUSE}:
        told[f"{told['type']}-id"] = place.object_id
    return told


def privilege_json(privilege: Privilege) -> dict[str, str]:
    return {
        "name": privilege.name,
        "display-name": privilege.name.replace("_", " "),
        "description": privilege.description,
        "category": privilege.category,
        "resource-type": resource_type(privilege.securable_type),
    }
