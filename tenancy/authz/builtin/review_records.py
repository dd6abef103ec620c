"""The relation rows of access reviews: of all principals of an object, or of all that one principal holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from icekeeper.kernel.clock import now
from icekeeper.kernel.sql import as_uuid, fetch_all
from tenancy.authz.builtin.evaluation import Node, showing_privileges
from tenancy.authz.builtin.records import Asker, as_datetime
from tenancy.authz.builtin.review_statements import (
    EDGES_INTO,
    EDGES_OUT,
    GRANTED_PATHS,
    ROLES_SEEING_BELOW,
    USERS,
    USERS_SEEING_BELOW,
    walks,
)
from tenancy.authz.model import MANAGED_ACCESS
from tenancy.authz.role_ways import Edge, RoleGraph, Way, latest
from tenancy.models import Grant, Role, RoleMember, Securable

_TYPES: Final = sorted(showing_privileges())
_PRIVILEGES: Final = sorted(frozenset().union(*showing_privileges().values()))


@dataclass(frozen=True, slots=True)
class GrantedRow:
    """One grant: `holder` is a user's id or a role's."""

    holder: str | UUID
    securable_id: str
    privilege: str
    expires_at: datetime | None


def lasting() -> Q:
    """What has not ended."""
    return Q(expires_at=None) | Q(expires_at__gt=now())


def read_path(securable_id: str) -> tuple[Node, ...]:
    """The way to an object, without what anybody holds; empty when there is none such. Two statements."""
    path = Securable.objects.filter(pk=securable_id).values_list("path", flat=True).first()
    return () if path is None else read_nodes([path])[path]


def read_nodes(paths: Collection[str]) -> dict[str, tuple[Node, ...]]:
    """The nodes of each path, without what anybody holds but for managed access. One statement."""
    ids = {each for path in paths for each in path.strip("/").split("/")}
    managed = set(Securable.objects.filter(pk__in=ids, managed_access=True).values_list("pk", flat=True))

    def node(own_id: str) -> Node:
        return Node(own_id.partition(":")[0], own_id, frozenset({MANAGED_ACCESS} if own_id in managed else ()))

    return {path: tuple(map(node, path.strip("/").split("/"))) for path in paths}


def read_granted(ids: Collection[str], holders: Q) -> list[GrantedRow]:
    """What `holders` have on some securables, in the order in which it was granted."""
    rows = Grant.objects.filter(lasting(), holders, securable_id__in=ids).order_by("pk")
    return [
        GrantedRow(role_id if user_id is None else user_id, own_id, privilege, end)
        for user_id, role_id, own_id, privilege, end in rows.values_list(
            "user_id", "role_id", "securable_id", "privilege", "expires_at"
        )
    ]


def read_edges_into(roles: Collection[UUID]) -> list[Edge]:
    return _edges(EDGES_INTO, roles)


def read_edges_out_of(roles: Collection[UUID]) -> list[Edge]:
    return _edges(EDGES_OUT, roles)


def _edges(statement: str, roles: Collection[UUID]) -> list[Edge]:
    if not roles:
        return []
    rows = fetch_all("default", statement, [now(), now(), list(roles)])
    return [Edge(as_uuid(inner), as_uuid(outer), _end(end)) for inner, outer, end in rows]


def read_users(ids: Sequence[str], roles: Sequence[UUID], below: Sequence[str], *, after: str, limit: int) -> list[str]:
    """The first users behind `after`, by their ids, who hold something on `ids`, are in `roles` or see something below
    `below`."""
    at = now()
    params: list[Any] = [list(ids), after, at, limit, list(roles), after, at, limit, list(roles), after, at, limit]
    params += [list(below), after, at, _PRIVILEGES, _TYPES, limit, limit]
    return [row[0] for row in fetch_all("default", USERS, params)]


def read_first_roles(user_ids: Sequence[str], roles: Sequence[UUID]) -> dict[str, dict[UUID, datetime | None]]:
    """Of users: those of `roles` that they are in themselves, as members or owners, and until when. Two statements."""
    found: dict[str, dict[UUID, datetime | None]] = {}
    members = RoleMember.objects.filter(lasting(), user_id__in=user_ids, role_id__in=roles)
    owners = Grant.objects.filter(lasting(), user_id__in=user_ids, owned_role_id__in=roles)
    rows: list[Any] = [*members.values_list("user_id", "role_id", "expires_at")]
    rows += owners.values_list("user_id", "owned_role_id", "expires_at")
    for user_id, role_id, end in rows:
        mine = found.setdefault(user_id, {})
        mine[role_id] = latest(mine[role_id], end) if role_id in mine else end
    return found


def read_roles_seeing(below: Sequence[str]) -> dict[UUID, set[str]]:
    """The roles to which something below one of `below` is granted that makes it visible: below which."""
    found: dict[UUID, set[str]] = {}
    if below:
        for role_id, top in fetch_all("default", ROLES_SEEING_BELOW, [list(below), now(), _PRIVILEGES, _TYPES]):
            found.setdefault(as_uuid(role_id), set()).add(top)
    return found


def read_users_seeing(below: Sequence[str], user_ids: Sequence[str]) -> dict[str, set[str]]:
    """The same of users, for themselves alone."""
    found: dict[str, set[str]] = {}
    if below and user_ids:
        params = [list(below), list(user_ids), now(), _PRIVILEGES, _TYPES]
        for user_id, top in fetch_all("default", USERS_SEEING_BELOW, params):
            found.setdefault(user_id, set()).add(top)
    return found


def read_ways_of(asker: Asker) -> dict[UUID, Way]:
    """The ways of somebody into all their roles. At most four statements."""
    first: dict[UUID, datetime | None] = {}
    if asker.assumed_role is not None:
        first[asker.assumed_role] = None
    elif asker.user_id is not None:
        rows: list[Any] = [
            *RoleMember.objects.filter(lasting(), user_id=asker.user_id).values_list("role_id", "expires_at"),
            *Grant.objects.filter(lasting(), user_id=asker.user_id, owned_role__isnull=False).values_list(
                "owned_role_id", "expires_at"
            ),
        ]
        for role_id, end in rows:
            first[role_id] = latest(first[role_id], end) if role_id in first else end
    if asker.token_roles:
        brought = Role.objects.filter(provider_id=asker.provider_id, source_id__in=asker.token_roles)
        first |= dict.fromkeys(brought.values_list("pk", flat=True))
    return RoleGraph(read_edges_out_of(first.keys())).ways(first)


def is_holders(asker: Asker, roles: Collection[UUID]) -> Q:
    """What is granted to an asker whose roles are known."""
    mine = Q(role_id__in=list(roles))
    return mine if asker.user_id is None else mine | Q(user_id=asker.user_id)


def read_granted_paths(asker: Asker, roles: Collection[UUID], top: str, *, after: str, limit: int) -> list[str]:
    """The paths below `top` of objects on which the asker holds something: the first `limit` behind `after`, and those
    that lead to that."""
    leading = after.strip("/").split("/")
    params: list[Any] = [asker.user_id, list(roles), now(), top, end_of(top), max(after, top), leading]
    rows = fetch_all("default", GRANTED_PATHS, [*params, limit + len(leading)])
    return [row[0] for row in rows]


def walk(tops: Sequence[str], *, after: str, limit: int) -> list[str]:
    """The paths behind `after` in the subtrees of `tops`, these included: the first `limit` of each. One statement."""
    params = [each for top in tops for each in (top, end_of(top), after, limit)]
    rows = fetch_all("default", walks(len(tops)), params) if tops else []
    return sorted(row[0] for row in rows)


def end_of(path: str) -> str:
    """Behind everything below a path: "0" is the character after the slash."""
    return f"{path[:-1]}0"


def merged_shows(ways: Mapping[UUID, Way], by_role: Mapping[UUID, set[str]], own: Collection[str] = ()) -> set[str]:
    """What somebody sees something below of, by themselves or through the roles of `ways`."""
    return set(own).union(*(by_role.get(role_id, ()) for role_id in ways))


def _end(value: Any) -> datetime | None:
    return None if value is None else as_datetime(value)
