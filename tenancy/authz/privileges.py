"""What can be granted, as people are told, and what it takes to grant it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP, rights_model
from tenancy.models import Securable
from tenancy.refs import ObjectRef

ASSIGNEE: Final = "assignee"
PASS_GRANTS: Final = "pass_grants"  # noqa: S105 - a name
ADMINISTRATORS: Final = {Securable.Type.SERVER: ("admin", "operator"), Securable.Type.PROJECT: ("project_admin",)}
"""Privileges, one of which somebody must always have."""

_DESCRIPTIONS: Final = {
    "admin": ("administration", "Manage users, projects and who administrates; sees nothing inside warehouses"),
    "operator": ("administration", "Everything, in every project"),
    "project_admin": ("administration", "Everything in the project"),
    "security_admin": (
        "security",
        "Roles, tags and all grants of the project but that of project_admin; sees everything",
    ),
    "data_admin": ("administration", "Make, see and change whatever is in warehouses of the project"),
    "role_creator": ("create", "Make roles"),
    "tag_creator": ("create", "Make tag definitions"),
    OWNERSHIP: ("security", "Everything on the object and what is in it, and to grant it to others"),
    PASS_GRANTS: ("security", "Grant to others what one has oneself"),
    "manage_grants": ("security", "Grant anything on the object and what is in it, without having it"),
    "manage_tags": ("security", "Attach tags to the object and what is in it"),
    "describe": ("metadata", "See that it is there, and its metadata"),
    "select": ("read", "Read data"),
    "create": ("create", "Make new objects in it"),
    "modify": ("write", "Write data, change and drop"),
    ASSIGNEE: ("security", "Be a member of the role"),
    "apply": ("write", "Attach the tag to objects and take it off"),
}


@dataclass(frozen=True, slots=True)
class Privilege:
    """`category` is one of administration, security, metadata, read, write, create."""

    name: str
    securable_type: Securable.Type
    category: str
    description: str


def privileges_on(securable_type: Securable.Type) -> list[Privilege]:
    """In the order of the model; empty for users, on whom nothing is granted."""
    names = rights_model().privileges(securable_type.value)
    return [Privilege(name, securable_type, *_DESCRIPTIONS[name]) for name in names]


def is_privilege(securable_type: Securable.Type, name: str) -> bool:
    return name in rights_model().privileges(securable_type.value)


def grant_action(privilege: str) -> Can:
    """What who grants or revokes a privilege must be allowed to do on the object."""
    if privilege == OWNERSHIP:
        return Can.CHANGE_OWNERSHIP
    return Can.MANAGE_ROLE_ASSIGNMENTS if privilege == ASSIGNEE else Can(f"grant_{privilege}")


def reads_grants(ref: ObjectRef) -> Can:
    """What who reads the grants on an object must be allowed to do on it."""
    return Can.READ_ROLE_ASSIGNMENTS if ref.type is Securable.Type.ROLE else Can.READ_GRANTS
