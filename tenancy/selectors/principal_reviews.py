"""Access review of a principal: the grants and memberships that apply to it, and the objects in a warehouse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Substr

from icekeeper.kernel.clock import now
from tenancy.authz.access_review import (
    Effective,
    Rights,
    Source,
    effective,
    ids_checked_below,
    is_effective,
    reached_below,
    reaches_below,
    read_granted_paths,
    read_nodes,
    walk,
)
from tenancy.authz.actions import ASSIGNEE
from tenancy.authz.builtin.evaluation import Node
from tenancy.authz.builtin.queries import read_grants_on_paths, read_sources_on_paths
from tenancy.authz.model import MANAGED_ACCESS
from tenancy.authz.port import Subject
from tenancy.authz.role_paths import RolePath, earliest_expiry, read_roles_of
from tenancy.models import Grant, Project, RoleMember, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import server_ref

BRANCH_BATCH: Final = 50
"""Subtrees that one statement walks."""

_BRANCHES: Final = frozenset({Securable.Type.WAREHOUSE.value, Securable.Type.NAMESPACE.value})


@dataclass(frozen=True, slots=True)
class AccessSource:
    """A grant or a role membership with its effect alone, on the object and on the objects below it."""

    source: Source
    effective: Effective
    below: Sequence[tuple[str, tuple[str, ...]]]


class PrincipalReview:
    """Review of one principal. Their roles are read once, by the constructor."""

    def __init__(self, subject: Subject) -> None:
        """At most two statements."""
        self._subject = subject
        first, graph = read_roles_of(subject)
        self._role_paths = graph.longest_lasting_paths(first)

    def sources(self, project: Project, *, after: UUID, limit: int) -> list[tuple[UUID, AccessSource]]:
        """Return the grants and memberships after the row `after`, in order of creation: those in a project, and those
        on the server, which apply to it as well. Three statements."""
        rows = self._rows(project, after=after, limit=limit)
        paths = {row.securable_id: path for _, row, path in rows}
        nodes = read_nodes(set(paths.values()))
        found = []
        for row_id, source, path in rows:
            here = nodes[path]
            last = here[-1]
            alone = (*here[:-1], last._replace(relations=last.relations | {source.privilege}))
            below = reached_below(last.type, source.privilege)
            found.append((row_id, AccessSource(source, effective(alone), tuple(below.items()))))
        return found

    def _rows(self, project: Project, *, after: UUID, limit: int) -> list[tuple[UUID, Source, str]]:
        """Return id, source and path of the object, by id of the row."""
        server = f"{securable_id(*server_ref())}/"
        top = f"{server}{securable_id(Securable.Type.PROJECT, project.pk)}/"
        grants = (
            Grant.objects.unexpired(now())
            .filter(self._subject.grants_filter(self._role_paths), pk__gt=after)
            # Compared as text: LIKE ignores case on SQLite, and ids of projects may differ in case alone.
            .annotate(root=Substr("path", 1, len(top)))
            .filter(Q(root=top) | Q(path=server))
            .order_by("pk")[:limit]
        )
        found = [
            (row.pk, self._source(row.privilege, row.securable_id, row.role_id, row.expires_at), row.path)
            for row in grants
        ]
        own = Q(member_role_id__in=list(self._role_paths))
        if self._subject.user_id is not None:
            own |= Q(user_id=self._subject.user_id)
        members = RoleMember.objects.unexpired(now()).filter(own, pk__gt=after, role__project=project).order_by("pk")
        for member in members[:limit]:
            own_id = securable_id(Securable.Type.ROLE, member.role_id)
            source = self._source(ASSIGNEE, own_id, member.member_role_id, member.expires_at)
            found.append((member.pk, source, f"{top}{own_id}/"))
        return sorted(found, key=lambda each: each[0])[:limit]

    def _source(self, privilege: str, own_id: str, role_id: UUID | None, ends_at: object) -> Source:
        path_to_role = RolePath() if role_id is None else self._role_paths[role_id]
        return Source(privilege, own_id, path_to_role.through, earliest_expiry(path_to_role.expires_at, ends_at))  # type: ignore[arg-type]

    def objects(self, warehouse: ObjectRef, *, after: str, limit: int) -> tuple[list[tuple[str, Rights]], str | None]:
        """Return the warehouse and the objects in it on which any action is allowed: rights by securable id, parents
        first, and the path after which the next page starts, None at the end.

        `after` is such a path, or empty. A page may be shorter than `limit` before the end. Six statements.
        """
        own_id = securable_id(*warehouse)
        nodes = read_grants_on_paths(self._subject, list(self._role_paths), [own_id]).paths[own_id]
        top = "".join(f"{node.id}/" for node in nodes)
        paths, token = self._reachable_paths(nodes, top, after=after, limit=limit)
        own_ids = [_last(path) for path in paths]
        return self._rights_on(own_ids), token

    def _reachable_paths(
        self, nodes: Sequence[Node], top: str, *, after: str, limit: int
    ) -> tuple[list[str], str | None]:
        """Return the paths of objects on which the principal may have rights, and the cursor."""
        if reaches_below([(node.type, node.relations - {MANAGED_ACCESS}) for node in nodes]):
            granted, found = [], {top}
            branches = [top]
        else:
            found = {top}
            granted = read_granted_paths(self._subject, self._role_paths, top, after=after, limit=limit + 1)
            branches = []
        end = None
        for path in granted:
            if branches and path.startswith(branches[-1]):
                continue
            if _last(path).partition(":")[0] in _BRANCHES:
                if len(branches) == BRANCH_BATCH:
                    end = path
                    break
                branches.append(path)
            found |= set(_leading(top, path))
        found |= set(walk(branches, after=after, limit=limit + 1))
        remaining = sorted(path for path in found if path > after and (end is None or path < end))
        if len(remaining) > limit:
            return remaining[:limit], remaining[limit - 1]
        return remaining, None if end is None else remaining[-1]

    def _rights_on(self, own_ids: Sequence[str]) -> list[tuple[str, Rights]]:
        if not own_ids:
            return []
        roles = list(self._role_paths)
        below = [each for each in own_ids if each.partition(":")[0] in _BRANCHES]
        grants, rows = read_sources_on_paths(self._subject, roles, own_ids, below=below)
        granted: dict[str, list[Source]] = {}
        for row in sorted(rows, key=lambda each: (each.securable_id, each.privilege, str(each.role_id or ""))):
            source = self._source(row.privilege, row.securable_id, row.role_id, row.expires_at)
            granted.setdefault(row.securable_id, []).append(source)
        found = []
        for own_id in own_ids:
            path = grants.paths[own_id]
            shows = {each for each in ids_checked_below(path) if grants.shows_below.get(each)}
            of_grants, in_all = effective(path), effective(path, shows)
            if in_all:
                sources = tuple(_effective_sources(path, granted))
                found.append((own_id, Rights(in_all, sources, is_shown_from_below=of_grants != in_all)))
        return found


def _effective_sources(path: Sequence[Node], granted: dict[str, list[Source]]) -> list[Source]:
    return [
        source
        for index, node in enumerate(path)
        for source in granted.get(node.id, ())
        if is_effective(path, index, source.privilege)
    ]


def _leading(top: str, path: str) -> Collection[str]:
    """Return the path and those of its ancestors below `top`."""
    parts = path.removeprefix(top).strip("/").split("/")
    return [top + "".join(f"{each}/" for each in parts[: number + 1]) for number in range(len(parts))]


def _last(path: str) -> str:
    return path.strip("/").rpartition("/")[2]
