"""The controls at the head of warehouses and objects in them: each is shown with the permission for it only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.urls import reverse

from catalog.models import Namespace, Tabular
from catalog.selectors.tables.change_preview import TabularChange, change_digest
from management.admin.change_rules.rule_texts import rules_url
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef


@dataclass(frozen=True, slots=True)
class ProtectionSwitch:
    """The form that sets or clears the protection of an object: `wanted` is the state that its button sets."""

    url: str
    is_protected: bool

    @property
    def wanted(self) -> str:
        return "false" if self.is_protected else "true"


@dataclass(frozen=True, slots=True)
class Controls:
    """Addresses of the pages that change an object; empty without the permission.

    `drop_digest` is for a drop at once, which can be undone; empty where a drop has to be confirmed.
    """

    protection: ProtectionSwitch | None = None
    rename_url: str = ""
    drop_url: str = ""
    drop_digest: str = ""
    edit_properties_url: str = ""
    add_namespace_url: str = ""
    rules_url: str = ""
    """The rules about changes that apply to it."""


_OF_NAMESPACE: Final = (
    Can.SET_PROTECTION, Can.MOVE, Can.DELETE, Can.UPDATE_PROPERTIES, Can.CREATE_NAMESPACE, Can.MANAGE_RULES,
)  # fmt: skip
_OF_TABULAR: Final = (Can.SET_PROTECTION, Can.RENAME, Can.DROP, Can.MANAGE_RULES)
_OF_WAREHOUSE: Final = (Can.CREATE_NAMESPACE, Can.MANAGE_RULES)


def namespace_controls(actor: Actor, namespace: Namespace) -> Controls:
    """Return the controls of a namespace; one permission check."""
    allowed = _allowed(actor, ObjectRef(Securable.Type.NAMESPACE, namespace.pk), _OF_NAMESPACE)
    args = [namespace.warehouse_id, namespace.pk]
    return Controls(
        protection=_switch("namespace", namespace.warehouse_id, namespace.pk, namespace.protected, allowed),
        rename_url=reverse("admin:namespace-move", args=args) if allowed[Can.MOVE] else "",
        drop_url=reverse("admin:namespace-drop", args=args) if allowed[Can.DELETE] else "",
        edit_properties_url=(
            reverse("admin:namespace-edit-properties", args=args) if allowed[Can.UPDATE_PROPERTIES] else ""
        ),
        add_namespace_url=reverse("admin:namespace-add-namespace", args=args) if allowed[Can.CREATE_NAMESPACE] else "",
        rules_url=rules_url(f"namespace:{namespace.warehouse_id}:{namespace.pk}") if allowed[Can.MANAGE_RULES] else "",
    )


def tabular_controls(actor: Actor, tabular: Tabular) -> Controls:
    """Return the controls of a tabular with its namespace and warehouse; one permission check."""
    has_properties = tabular.kind != Tabular.Kind.GENERIC_TABLE
    actions = (*_OF_TABULAR, Can.COMMIT) if has_properties else _OF_TABULAR
    allowed = _allowed(actor, ObjectRef(Securable.Type(tabular.kind), tabular.pk), actions)
    args = [tabular.warehouse_id, tabular.kind, tabular.uuid]
    warehouse = tabular.namespace.warehouse
    is_dropped_at_once = allowed[Can.DROP] and warehouse.has_soft_delete and not tabular.protected
    return Controls(
        protection=_switch(tabular.kind, tabular.warehouse_id, tabular.uuid, tabular.protected, allowed),
        rename_url=reverse("admin:tabular-rename", args=args) if allowed[Can.RENAME] else "",
        drop_url=reverse("admin:tabular-drop", args=args) if allowed[Can.DROP] else "",
        drop_digest=change_digest(TabularChange.DROP, warehouse, [tabular]) if is_dropped_at_once else "",
        edit_properties_url=(
            reverse("admin:tabular-edit-properties", args=args) if allowed.get(Can.COMMIT, False) else ""
        ),
        rules_url=(
            rules_url(f"{tabular.kind}:{tabular.warehouse_id}:{tabular.uuid}") if allowed[Can.MANAGE_RULES] else ""
        ),
    )


def warehouse_controls(actor: Actor, warehouse: Warehouse) -> Controls:
    """Return the controls of a warehouse that do not change it; one permission check."""
    allowed = _allowed(actor, ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), _OF_WAREHOUSE)
    can_add = allowed[Can.CREATE_NAMESPACE] and warehouse.status == Warehouse.Status.ACTIVE
    return Controls(
        add_namespace_url=reverse("admin:warehouse-add-namespace", args=[warehouse.pk]) if can_add else "",
        rules_url=rules_url(f"warehouse:{warehouse.pk}") if allowed[Can.MANAGE_RULES] else "",
    )


def _allowed(actor: Actor, ref: ObjectRef, actions: tuple[Can, ...]) -> Mapping[Can, bool]:
    return dict(zip(actions, check_permissions(actor, [(each, ref) for each in actions]), strict=True))


def _switch(
    kind: str, warehouse_id: UUID, object_id: UUID, is_protected: Any, allowed: Mapping[Can, bool]
) -> ProtectionSwitch | None:
    if not allowed[Can.SET_PROTECTION]:
        return None
    return ProtectionSwitch(reverse("admin:protection", args=[warehouse_id, kind, object_id]), bool(is_protected))
