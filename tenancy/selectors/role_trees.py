"""Roles in roles as trees, and the paths by which a user is in roles; all bounded, for the console."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.authz.port import Subject
from tenancy.authz.role_paths import (
    Edge,
    Entry,
    read_edges_into,
    read_edges_out_of,
    read_roles_of,
)
from tenancy.models import Project, Role, Securable
from tenancy.selectors.roles import role_not_found
from tenancy.selectors.users import get_user_for

MAX_NODES: Final = 200
"""Roles that a tree shows."""


@dataclass(frozen=True, slots=True)
class TreeRole:
    """A role in a tree: `depth` steps away from the role that was asked for, by `entry` in the role above.

    A role that occurs again is shown without what is below it (`is_repeated`).
    """

    id: UUID
    name: str
    depth: int
    entry: Entry
    is_repeated: bool


@dataclass(frozen=True, slots=True)
class RoleTree:
    """Roles in depth-first order; not complete beyond `MAX_NODES`."""

    roles: tuple[TreeRole, ...]
    is_complete: bool


def get_nested_roles_for(*, actor: Actor, project: Project, role_id: UUID) -> tuple[RoleTree, RoleTree]:
    """Return the roles that are in a role, and those that it is in, each as a tree. Expired memberships do not count.

    Roles above that belong to other projects are left out, as in lists. Raises `ProjectActionForbidden` (403) without
    the permission to list roles, `RoleNotFoundInProject` (404). Four statements.
    """
    require_permission(actor, Can.LIST_ROLES, Securable.Type.PROJECT, project.pk)
    if not Role.objects.in_project(project).filter(pk=role_id).exists():
        raise role_not_found(role_id, project)
    into, out_of = read_edges_into([role_id]), read_edges_out_of([role_id])
    reached = {each.inner for each in into} | {each.membership.role_id for each in out_of}
    rows = list(Role.objects.filter(pk__in=reached).values_list("pk", "name", "project_id"))
    names = {pk: name for pk, name, _ in rows}
    own = {pk: name for pk, name, project_id in rows if project_id == project.pk}
    below = _build_tree(role_id, _neighbours((each.membership.role_id, each.inner, each) for each in into), names)
    above = _build_tree(role_id, _neighbours((each.inner, each.membership.role_id, each) for each in out_of), own)
    return below, above


Neighbours = Mapping[UUID, Mapping[UUID, Entry]]


def _neighbours(edges: Iterable[tuple[UUID, UUID, Edge]]) -> Neighbours:
    """Return by role its neighbours, as a member rather than as an owner."""
    found: dict[UUID, dict[UUID, Entry]] = {}
    for near, far, edge in edges:
        entries = found.setdefault(near, {})
        if entries.get(far) != Entry.MEMBER:
            entries[far] = edge.membership.entry
    return found


def _build_tree(root: UUID, neighbours: Neighbours, names: Mapping[UUID, str]) -> RoleTree:
    shown: list[TreeRole] = []
    expanded = {root}

    def sorted_neighbours(role_id: UUID) -> list[tuple[UUID, Entry]]:
        known = [(each, entry) for each, entry in neighbours.get(role_id, {}).items() if each in names]
        return sorted(known, key=lambda each: (names[each[0]].casefold(), each[0]), reverse=True)

    waiting = [(each, entry, 1) for each, entry in sorted_neighbours(root)]
    while waiting and len(shown) < MAX_NODES:
        role_id, entry, depth = waiting.pop()
        is_repeated = role_id in expanded
        shown.append(TreeRole(role_id, names[role_id], depth, entry, is_repeated))
        if not is_repeated:
            expanded.add(role_id)
            waiting += [(each, how, depth + 1) for each, how in sorted_neighbours(role_id)]
    return RoleTree(tuple(shown), is_complete=not waiting)


@dataclass(frozen=True, slots=True)
class NamedRole:
    id: UUID
    name: str
    project_id: str


@dataclass(frozen=True, slots=True)
class RoleOfUser:
    """A role of a user: how the user entered the first role of the path, and the roles through which it leads."""

    role: NamedRole
    entry: Entry
    through: tuple[NamedRole, ...]
    expires_at: datetime | None

    @property
    def is_direct(self) -> bool:
        return not self.through


def list_role_paths_for(*, actor: Actor, user_id: str, projects: Collection[Project]) -> list[RoleOfUser]:
    """Return the roles of a user in `projects` by name, each with the shortest path to it.

    Roles of the actor's own token are included. A path through a role of another project is left out.
    Raises as `get_user_for`. Four statements at most.
    """
    get_user_for(actor=actor, action=Can.READ_ROLE_ASSIGNMENTS, user_id=user_id)
    subject = Subject.of(actor) if user_id == actor.user_id else Subject(user_id, None, "", ())
    first, graph = read_roles_of(subject)
    paths = graph.shortest_paths(first)
    wanted = {each.pk for each in projects}
    rows = Role.objects.filter(pk__in=paths).values_list("pk", "name", "project_id") if paths else ()
    named = {pk: NamedRole(pk, name, project_id) for pk, name, project_id in rows if project_id in wanted}
    found = []
    for role_id, path in paths.items():
        if all(each in named for each in path.through):
            through = tuple(named[each] for each in path.through[:-1])
            found.append(RoleOfUser(named[role_id], path.memberships[0].entry, through, path.expires_at))
    return sorted(found, key=lambda each: (each.role.name.casefold(), each.role.id))
