"""Reading of requests about one permission: its check and its explanation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalog.objects import ObjectKey, find_target
from icekeeper.kernel.errors.types import BadRequest
from management.api.base import ManagementViewSet
from management.api.permissions.serializers import ActionNames, PermissionCheckRequest
from management.api.serializers import read_grantee, read_uuid
from tenancy.actor import Grantee
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.selectors.objects import PermissionTarget, find_role_target, find_tag_target, target_project, the_server

T = Securable.Type


@dataclass(frozen=True, slots=True)
class PermissionCheck:
    """`grantee` is None for the caller."""

    grantee: Grantee | None
    target: PermissionTarget
    action: Can


def read_check(view: ManagementViewSet, shape: type[PermissionCheckRequest], names: ActionNames) -> PermissionCheck:
    """Raises `BadRequest`, the 404 of the object's type, or what `read_grantee` raises."""
    body = view.body(shape)
    identity, operation = body.get("identity"), body["operation"]
    grantee = None if identity is None else read_grantee(identity, "identity")
    if len(operation) != 1:
        raise BadRequest(f"operation: exactly one of {', '.join(each.value for each in names)} is required")
    ((name, given),) = operation.items()
    kind = Securable.Type(name)
    return PermissionCheck(grantee, _target(view, kind, given), names[kind][given["action"]])


def _target(view: ManagementViewSet, kind: Securable.Type, given: dict[str, Any]) -> PermissionTarget:
    match kind:
        case T.SERVER:
            return the_server()
        case T.PROJECT:
            return target_project(view.project(given.get("project_id")))
        case T.ROLE:
            role_id = read_uuid(given["role_id"], "operation.role.role-id")
            return find_role_target(project=view.project(), role_id=role_id)
        case T.TAG:
            definition_id = read_uuid(given["tag_definition_id"], "operation.tag.tag-definition-id")
            return find_tag_target(project=None, definition_id=definition_id)
        case _:
            return find_target(actor=view.actor, key=_object_key(kind, given), project=None)


def _object_key(kind: Securable.Type, given: dict[str, Any]) -> ObjectKey:
    where = f"operation.{kind.value}"
    warehouse_id = read_uuid(given["warehouse_id"], f"{where}.warehouse-id")
    if kind is T.WAREHOUSE:
        return ObjectKey(kind, warehouse_id)
    member = "namespace-id" if kind is T.NAMESPACE else "table-id"
    object_id = given.get(member.replace("-", "_"))
    if object_id is not None:
        return ObjectKey(kind, warehouse_id, read_uuid(object_id, f"{where}.{member}"))
    levels, name = given.get("namespace"), given.get("table", "")
    if levels is None or (kind is not T.NAMESPACE and not name):
        raise BadRequest(f"{where}: {member} or the name is required")
    return ObjectKey(kind, warehouse_id, None, tuple(levels), name)
