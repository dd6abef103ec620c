"""Paths of securable objects in the management API, and the errors for missing ones."""

from __future__ import annotations

from catalog.models import Namespace, Tabular
from tenancy.models.securable import ObjectRef
from tests.authz.tree_fixtures import T
from tests.management.warehouse_request_fixtures import NO_ONE

MISSING = {
    T.WAREHOUSE: "NoSuchWarehouseException",
    T.NAMESPACE: "NoSuchNamespaceException",
    T.TABLE: "NoSuchTableException",
    T.VIEW: "NoSuchViewException",
    T.GENERIC_TABLE: "NoSuchGenericTableException",
    T.ROLE: "RoleNotFoundInProject",
    T.TAG: "TagDefinitionIdNotFound",
}
HOSTILE = ["no", "..%2Fx", "%7B" + NO_ONE + "%7D", NO_ONE.replace("-", ""), "*", "%E2%80%AE", "a%20b", "x" * 300]


def path_of(ref: ObjectRef) -> str:
    """Return the path below `/management/v1`, by the ids that clients know."""
    kind, object_id = ref
    if kind in {T.SERVER, T.PROJECT}:
        return f"/{kind.value}"
    if kind is T.WAREHOUSE:
        return f"/warehouse/{object_id}"
    if kind in {T.ROLE, T.TAG}:
        return f"/{'role' if kind is T.ROLE else 'tag-definition'}/{object_id}"
    if kind is T.NAMESPACE:
        return f"/warehouse/{Namespace.objects.get(pk=str(object_id)).warehouse_id}/namespace/{object_id}"
    row = Tabular.objects.get(pk=str(object_id))
    return f"/warehouse/{row.warehouse_id}/{kind.value}/{row.uuid}"
