"""Privileges: what can be granted on which type, with descriptions, and the action that granting them requires."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP, rights_model
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

ASSIGNEE: Final = "assignee"
PASS_GRANTS: Final = "pass_grants"  # noqa: S105 - a name
ADMINISTRATORS: Final = {Securable.Type.SERVER: ("admin", "operator"), Securable.Type.PROJECT: ("project_admin",)}
"""By type: the privileges of administrators, of which at least one grant must always remain."""

_DESCRIPTIONS: Final = {
    "admin": ("administration", "Manage users, projects and administrators; no access to objects inside warehouses"),
    "operator": ("administration", "Everything, in every project"),
    "project_admin": ("administration", "Everything in the project"),
    "security_admin": (
        "security",
        "Roles, tags and all grants of the project but that of project_admin; sees everything",
    ),
    "data_admin": ("administration", "Create, read and change all objects in the warehouses of the project"),
    "role_creator": ("create", "Create roles"),
    "tag_creator": ("create", "Create tag definitions"),
    OWNERSHIP: ("security", "Everything on the object and all objects in it, and grant it to others"),
    PASS_GRANTS: ("security", "Grant own privileges to others"),
    "manage_grants": ("security", "Grant any privilege on the object and all objects in it, without having it"),
    "manage_tags": ("security", "Attach tags to the object and all objects in it"),
    "describe": ("metadata", "See the object and its metadata"),
    "select": ("read", "Read data"),
    "create": ("create", "Create objects in it"),
    "modify": ("write", "Write data, change and drop"),
    ASSIGNEE: ("security", "Be a member of the role"),
    "apply": ("write", "Attach the tag to objects and remove it"),
}


@dataclass(frozen=True, slots=True)
class Privilege:
    """`category` is one of administration, security, metadata, read, write, create."""

    name: str
    securable_type: Securable.Type
    category: str
    description: str


@cache
def privilege_names(securable_type: str) -> tuple[str, ...]:
    """Return the privileges that can be granted on a type, in the order of the model; none for users."""
    return rights_model().privileges(securable_type)


def privileges_on(securable_type: Securable.Type) -> list[Privilege]:
    """Return the privileges of a type with their descriptions, in the order of the model."""
    names = privilege_names(securable_type.value)
    return [Privilege(name, securable_type, *_DESCRIPTIONS[name]) for name in names]


def is_privilege(securable_type: Securable.Type, name: str) -> bool:
    return name in privilege_names(securable_type.value)


def grant_action(privilege: str) -> Can:
    """Return the action that granting or revoking a privilege requires on the object."""
    if privilege == OWNERSHIP:
        return Can.CHANGE_OWNERSHIP
    return Can.MANAGE_ROLE_ASSIGNMENTS if privilege == ASSIGNEE else Can(f"grant_{privilege}")


def reads_grants(ref: ObjectRef) -> Can:
    """Return the action that reading the grants on an object requires."""
    return Can.READ_ROLE_ASSIGNMENTS if ref.type is Securable.Type.ROLE else Can.READ_GRANTS
