"""The relation rows of access reviews: of all principals of an object, or of all that one principal holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from tenancy.authz.builtin.evaluation import Node
from tenancy.authz.builtin.records import Asker
from tenancy.authz.builtin.review_statements import (
    GRANTED_PATHS,
    ROLES_SEEING_BELOW,
    USERS,
    USERS_SEEING_BELOW,
    walks,
)
from tenancy.authz.grant_filters import lasting
from tenancy.authz.model import MANAGED_ACCESS
from tenancy.authz.role_ways import Way
from tenancy.models import Grant, Securable


@dataclass(frozen=True, slots=True)
class GrantedRow:
    """One grant: `holder` is a user's id or a role's."""

    holder: str | UUID
    securable_id: str
    privilege: str
    expires_at: datetime | None


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
    rows = Grant.objects.filter(lasting(now()), holders, securable_id__in=ids).order_by("pk")
    return [
        GrantedRow(role_id if user_id is None else user_id, own_id, privilege, end)
        for user_id, role_id, own_id, privilege, end in rows.values_list(
            "user_id", "role_id", "securable_id", "privilege", "expires_at"
        )
    ]


def read_users(ids: Sequence[str], roles: Sequence[UUID], below: Sequence[str], *, after: str, limit: int) -> list[str]:
    """The first users behind `after`, by their ids, who hold something on `ids`, are in `roles` or see something below
    `below`."""
    at = now()
    params: list[Any] = [list(ids), after, at, limit, list(roles), after, at, limit, list(roles), after, at, limit]
    params += [list(below), after, at, limit, limit]
    return [row[0] for row in fetch_all("default", USERS, params)]


def read_roles_seeing(below: Sequence[str]) -> dict[UUID, set[str]]:
    """The roles to which something below one of `below` is granted that makes it visible: below which."""
    found: dict[UUID, set[str]] = {}
    if below:
        for role_id, top in fetch_all("default", ROLES_SEEING_BELOW, [list(below), now()]):
            found.setdefault(as_uuid(role_id), set()).add(top)
    return found


def read_users_seeing(below: Sequence[str], user_ids: Sequence[str]) -> dict[str, set[str]]:
    """The same of users, for themselves alone."""
    found: dict[str, set[str]] = {}
    if below and user_ids:
        params = [list(below), list(user_ids), now()]
        for user_id, top in fetch_all("default", USERS_SEEING_BELOW, params):
            found.setdefault(user_id, set()).add(top)
    return found


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
