"""Which lists of the console a user may open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permission_epoch import share_reads
from tenancy.authz.permissions import check_permissions
from tenancy.authz.port import PermissionCheck
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import list_projects_for, server_ref

MAX_PROJECTS: Final = 100
"""Projects that are checked, of those that the user may see, in order of creation."""

ON_SERVER: Final = {
    "users": Can.LIST_USERS,
    "service-accounts": Can.LIST_USERS,
    "server": Can.READ_AUDIT,
    "identity-providers": Can.READ_AUDIT,
    "audit": Can.READ_AUDIT,
    "events": Can.READ_EVENTS,
    "event-sinks": Can.MANAGE_EVENT_SINKS,
    "change-rules": Can.MANAGE_RULES,
}
ON_A_PROJECT: Final = {
    "sql": Can.INCLUDE_IN_LIST,
    "roles": Can.LIST_ROLES,
    "tags": Can.LIST_TAGS,
    "audit": Can.READ_AUDIT,
    "events": Can.READ_EVENTS,
    "change-rules": Can.MANAGE_RULES,
    "statistics": Can.GET_ENDPOINT_STATISTICS,
}
"""`audit`, `events` and `change-rules` need the permission on the server, or on one project. `sql` needs a permission
on something in a project: which tables a user can read is not known without a look at all of them."""


@dataclass(frozen=True, slots=True)
class OpenSections:
    """Names of sections: `guarded` are those that need a permission, `allowed` those of them that the user has."""

    guarded: frozenset[str]
    allowed: frozenset[str]

    def shows(self, section: str) -> bool:
        return section not in self.guarded or section in self.allowed


GUARDED: Final = frozenset({*ON_SERVER, *ON_A_PROJECT})


def find_open_sections(*, actor: Actor) -> OpenSections:
    """Return the sections that `actor` may open; those of projects if one project allows it.

    Two statements, and at most three calls of the authorizer.
    """
    with share_reads():
        projects = [each.pk for each in list_projects_for(actor=actor)[:MAX_PROJECTS]]
        return _check(actor, projects)


def _check(actor: Actor, projects: Sequence[str]) -> OpenSections:
    server = server_ref()
    wanted: list[tuple[str, PermissionCheck]] = [(name, (action, server)) for name, action in ON_SERVER.items()]
    wanted += [
        (name, (action, ObjectRef(Securable.Type.PROJECT, project_id)))
        for project_id in projects
        for name, action in ON_A_PROJECT.items()
    ]
    decided = check_permissions(actor, [check for _, check in wanted])
    allowed = frozenset(name for (name, _), is_allowed in zip(wanted, decided, strict=True) if is_allowed)
    return OpenSections(GUARDED, allowed)
