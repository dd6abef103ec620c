"""Builders of requests to the older permissions API, and the objects that they refer to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from catalog.models import Tabular
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Role, Securable, Server, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services.projects import create_project
from tenancy.services.roles import create_role
from tenancy.services.tags import create_tag_definition
from tests.authz.tree_fixtures import give
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers

T = Securable.Type
NO_ONE = "0198e0f4-3f6e-7c31-8c7d-000000000000"
MISSING = {
    T.WAREHOUSE: "NoSuchWarehouseException",
    T.NAMESPACE: "NoSuchNamespaceException",
    T.TABLE: "NoSuchTableException",
    T.VIEW: "NoSuchViewException",
    T.GENERIC_TABLE: "NoSuchGenericTableException",
    T.ROLE: "RoleIdNotFound",
    T.TAG: "TagDefinitionIdNotFound",
}
FORBIDDEN = {
    T.SERVER: "ServerActionForbidden",
    T.PROJECT: "ProjectActionForbidden",
    T.WAREHOUSE: "WarehouseActionForbidden",
    T.NAMESPACE: "NamespaceActionForbidden",
    T.TABLE: "TableActionForbidden",
    T.VIEW: "ViewActionForbidden",
    T.GENERIC_TABLE: "GenericTableActionForbidden",
    T.TAG: "TagActionForbidden",
}
"""For callers who see the object; callers who see a role may read its members."""

MANAGES: Mapping[Securable.Type, tuple[str, Securable.Type]] = {
    T.SERVER: ("operator", T.SERVER),
    T.PROJECT: ("project_admin", T.PROJECT),
    T.ROLE: ("security_admin", T.PROJECT),
    T.TAG: ("security_admin", T.PROJECT),
    T.WAREHOUSE: ("project_admin", T.PROJECT),
    **dict.fromkeys((T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE), ("ownership", T.WAREHOUSE)),
}
"""The grant (privilege, object) that allows a user to grant every privilege on an object of the type."""

SHOWS: Mapping[Securable.Type, tuple[str, Securable.Type]] = {
    T.PROJECT: ("describe", T.PROJECT),
    T.ROLE: ("describe", T.PROJECT),
    T.TAG: ("apply", T.TAG),
    **{kind: ("select", kind) for kind in (T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE)},
}
"""The grant (privilege, object) that allows a user to see an object of the type, but not to read its grants."""

WEAKEST: Mapping[Securable.Type, str] = {
    T.SERVER: "admin",
    T.PROJECT: "describe",
    T.ROLE: "assignee",
    T.TAG: "apply",
    **dict.fromkeys((T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE), "describe"),
}


class Things:
    """One object of each type with privileges, and clients for its users."""

    def __init__(self, warehouse: Warehouse, lake: dict[str, ObjectRef], callers: NamedCallers) -> None:
        self.warehouse, self._callers = warehouse, callers
        self.role = new_role("team")
        tag = create_tag_definition(
            actor=INTERNAL, project=get_project(None), name="pii", scope=["table"], value_kind="marker"
        )
        self.refs: dict[Securable.Type, ObjectRef] = {
            T.SERVER: ObjectRef(T.SERVER, Server.objects.get().server_id),
            T.PROJECT: ObjectRef(T.PROJECT, get_project(None).pk),
            T.WAREHOUSE: ObjectRef(T.WAREHOUSE, warehouse.pk),
            T.NAMESPACE: lake["closed.deep"],
            T.TABLE: lake["closed.deep.a"],
            T.VIEW: lake["closed.deep.v"],
            T.GENERIC_TABLE: lake["closed.deep.g"],
            T.ROLE: ObjectRef(T.ROLE, self.role.pk),
            T.TAG: ObjectRef(T.TAG, tag.pk),
        }

    def path(self, kind: Securable.Type, object_id: object = None, *, warehouse_id: object = None) -> str:
        """Return the path below `/management/v1/permissions`; `object_id` names another object than the fixture's."""
        if kind in {T.SERVER, T.PROJECT}:
            return f"/{kind.value}"
        named = object_id or self.public_id(kind)
        if kind in {T.TABLE, T.VIEW, T.GENERIC_TABLE}:
            return f"/warehouse/{warehouse_id or self.warehouse.pk}/{kind.value}/{named}"
        return f"/{kind.value}/{named}"

    def public_id(self, kind: Securable.Type) -> str:
        own_id = self.refs[kind][1]
        if kind in {T.TABLE, T.VIEW, T.GENERIC_TABLE}:
            own_id = Tabular.objects.get(pk=own_id).uuid
        return str(own_id)

    def client(self, name: str, *token_roles: str) -> CallerClient:
        """Return a client of a registered user without grants."""
        self._callers.user(name, roles=token_roles)
        User.objects.get_or_create(id=f"oidc~{name}", defaults={"name": name})
        return CallerClient("/management/v1/permissions", name)

    def with_right(self, name: str, right: tuple[str, Securable.Type]) -> CallerClient:
        """Return a client of a user with the privilege on the object of that type."""
        client = self.client(name)
        give(right[0], self.refs[right[1]], Actor(user_id=f"oidc~{name}"))
        return client

    def manager(self, kind: Securable.Type) -> CallerClient:
        return self.with_right("manager", MANAGES[kind])


def new_role(name: str, project: Project | None = None) -> Role:
    return create_role(
        actor=INTERNAL,
        project=project or get_project(None),
        name=name,
        description=None,
        provider_id=None,
        source_id=None,
    )


def other_project() -> Project:
    return create_project(actor=INTERNAL, name="Other", project_id="other")


def other_warehouse(project: Project) -> UUID:
    """Return a warehouse of another project, as far as authorization needs one."""
    warehouse_id = new_id()
    add_securable(T.WAREHOUSE, warehouse_id, parent=ObjectRef(T.PROJECT, project.pk))
    return warehouse_id


def to_user(privilege: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": privilege, "user": f"oidc~{name}", **more}


def to_role(privilege: str, role: Role, **more: Any) -> dict[str, Any]:
    return {"type": privilege, "role": str(role.pk), **more}


Everything = Callable[[], Fingerprint]
