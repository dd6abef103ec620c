"""Objects of the access pages: their keys in addresses, and their pages."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from catalog.objects import ObjectKey
from catalog.selectors.permission_objects import (
    PermissionObject,
    find_project_object,
    find_role_object,
    find_server_object,
    find_warehouse_object,
)
from icekeeper.kernel.errors.types import NotFound
from icekeeper.kernel.ids import parse_id
from management.admin.navigation import Text, object_url
from tenancy.actor import Actor
from tenancy.models import Securable
from tenancy.models.securable import parse_securable_id
from tenancy.selectors.objects import NamedObject

T = Securable.Type
IN_WAREHOUSES: Final = frozenset({T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE})

KIND_LABELS: Final[dict[Securable.Type, Text]] = {
    T.SERVER: _("server"),
    T.PROJECT: _("project"),
    T.WAREHOUSE: _("warehouse"),
    T.NAMESPACE: _("namespace"),
    T.TABLE: _("table"),
    T.VIEW: _("view"),
    T.GENERIC_TABLE: _("generic table"),
    T.ROLE: _("role"),
    T.TAG: _("tag"),
}
ICONS: Final = {
    T.SERVER: "settings",
    T.PROJECT: "catalog",
    T.NAMESPACE: "folder",
    T.ROLE: "roles",
}


def icon_of(kind: Securable.Type) -> str:
    return ICONS.get(kind, kind.value)


def key_of(named: NamedObject) -> str:
    """Return the key of an object in addresses: its type and the ids that clients see."""
    kind = named.securable_type
    if kind is T.SERVER:
        return kind.value
    if kind in IN_WAREHOUSES - {T.WAREHOUSE}:
        return f"{kind.value}:{named.warehouse_id}:{named.object_id}"
    return f"{kind.value}:{named.object_id}"


def find_object(*, actor: Actor, key: str) -> PermissionObject:
    """Return the object of a key. Raises `NotFound` for a text that is none, and the 404 of the object's type."""
    kind, _colon, rest = key.partition(":")
    if key == T.SERVER:
        return find_server_object()
    if kind == T.PROJECT:
        return find_project_object(actor=actor, project_id=rest)
    first, last = _ids(rest)
    if kind == T.ROLE and first is not None and last is None:
        return find_role_object(actor=actor, role_id=first)
    if kind == T.WAREHOUSE and first is not None and last is None:
        return find_warehouse_object(actor=actor, key=ObjectKey(T.WAREHOUSE, first))
    if kind in IN_WAREHOUSES - {T.WAREHOUSE} and first is not None and last is not None:
        return find_warehouse_object(actor=actor, key=ObjectKey(T(kind), first, last))
    raise NotFound("No such object")


def _ids(text: str) -> tuple[UUID | None, UUID | None]:
    first, colon, last = text.partition(":")
    if not colon:
        return parse_id(first), None
    return (parse_id(first), parse_id(last)) if parse_id(last) is not None else (None, None)


def access_url(named: NamedObject, *, is_browsable: bool = True) -> str:
    """Return the address of the access page of an object: the tab of its page if it is browsable."""
    kind = named.securable_type
    if kind in IN_WAREHOUSES and is_browsable and not named.is_dropped:
        if kind is T.WAREHOUSE:
            return reverse("admin:warehouse-tab", args=[named.object_id, "access"])
        return reverse(f"admin:{kind.value}-tab", args=[named.warehouse_id, named.object_id, "access"])
    if kind is T.SERVER:
        return reverse("admin:server-access")
    if kind is T.PROJECT:
        return reverse("admin:project-access", args=[named.object_id])
    if kind is T.ROLE:
        return reverse("admin:role-access", args=[named.object_id])
    return reverse("admin:object-access", args=[key_of(named)])


def page_url(named: NamedObject) -> str:
    """Return the address of the page of an object; empty for objects without one."""
    kind = named.securable_type
    if named.is_dropped or kind is T.TAG:
        return ""
    if kind in IN_WAREHOUSES:
        return object_url(kind.value, named.object_id, named.warehouse_id)
    if kind is T.PROJECT:
        return reverse("admin:project", args=[named.object_id])
    return access_url(named)


def label_of(named: NamedObject) -> str:
    """Return the name of an object, or its type and id where it is not visible to the caller."""
    if named.securable_type is T.SERVER:
        return str(_("this server"))
    if named.securable_type is T.NAMESPACE and named.levels:
        return ".".join(named.levels)
    if named.name is not None:
        return ".".join((*named.levels, named.name)) if named.levels else named.name
    return f"{KIND_LABELS[named.securable_type]} {named.object_id}"


def describe(named: NamedObject) -> str:
    """Return an object in sentences and lists: `table sales.orders`, `this server`."""
    label = label_of(named)
    return f"{KIND_LABELS[named.securable_type]} {label}" if named.name is not None or named.levels else label


def describe_source(own_id: str, named: NamedObject | None) -> str:
    """Return the object that has an inherited grant, whose securable id is `own_id`; None is one that is hidden."""
    if named is not None:
        return describe(named)
    return _("%(kind)s, not visible to you") % {"kind": KIND_LABELS[parse_securable_id(own_id).type]}
