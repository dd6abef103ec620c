"""Access reviews: the effective privileges of all principals on an object, or of one principal on all objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from itertools import starmap
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from tenancy.authz.actions import ACTIONS_ON, Can, privilege_names
from tenancy.authz.builtin.evaluation import Evaluation, Node
from tenancy.authz.builtin.queries import IS_BELOW, SHOWS
from tenancy.authz.model import MANAGED_ACCESS, UP, rights_model
from tenancy.authz.permissions import NOT_BY_OVERRIDE
from tenancy.authz.port import Subject
from tenancy.authz.role_paths import Membership, RolePath, read_membership
from tenancy.authz.securables import end_of
from tenancy.models import Securable

ACTIONS_OF_ALL_USERS: Final = frozenset({(Securable.Type.ROLE, Can.READ_METADATA)})
"""Actions that every registered user may do; reviews leave them out."""


@dataclass(frozen=True, slots=True)
class Effective:
    """Effective privileges in the order of the model, and actions in that of `ACTIONS_ON`; false if both are empty."""

    privileges: tuple[str, ...]
    actions: tuple[Can, ...]

    def __bool__(self) -> bool:
        return bool(self.privileges or self.actions)


Shape = tuple[tuple[str, frozenset[str]], ...]
"""A path from the root down: the types, and the relations of the subject to each object."""


def effective(path: Sequence[Node], shows_below: Collection[str] = ()) -> Effective:
    """Return what is effective on the last object of `path`; below the ids `shows_below` a visible object exists."""
    shown = frozenset(index for index, node in enumerate(path) if node.id in shows_below)
    return _effective(tuple((node.type, node.relations) for node in path), shown)


def ids_checked_below(path: Sequence[Node]) -> tuple[str, ...]:
    """Return the ids on `path` for which a visible object below matters for the rights on the last object."""
    evaluation = Evaluation([node._replace(relations=frozenset()) for node in path])
    for relation in _relations(path[-1].type):
        evaluation.holds(relation)
    return tuple(node.id for node in path if node.id in evaluation.unknown_below)


def is_effective(path: Sequence[Node], index: int, privilege: str) -> bool:
    """Return whether a privilege on the object at `index` of the path has any effect on the last object."""
    alone = [node._replace(relations=frozenset({privilege} if each == index else ())) for each, node in enumerate(path)]
    return bool(effective(alone))


@cache
def reached_below(securable_type: str, privilege: str) -> Mapping[str, tuple[str, ...]]:
    """Return by type of the objects below an object the privileges that follow from one on the object."""
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[Shape] = [((securable_type, frozenset({privilege})),)]
    while waiting:
        shape = waiting.pop(0)
        for below in rights_model().types:
            if shape[-1][0] in rights_model().links(below, UP) and below not in found and below != securable_type:
                longer = (*shape, (below, frozenset()))
                found[below] = _effective(longer, frozenset()).privileges
                waiting.append(longer)
    if securable_type == Securable.Type.NAMESPACE.value:  # namespaces may be nested
        nested: Shape = ((securable_type, frozenset({privilege})), (securable_type, frozenset()))
        found = {securable_type: _effective(nested, frozenset()).privileges, **found}
    return {below: privileges for below, privileges in found.items() if privileges}


def reaches_below(relations: Sequence[tuple[str, Collection[str]]]) -> bool:
    """Return whether any of these privileges, given with the type of their object, applies to objects below."""
    return any(reached_below(kind, each) for kind, privileges in relations for each in privileges)


@lru_cache(maxsize=20_000)
def _effective(shape: Shape, shown: frozenset[int]) -> Effective:
    path = [Node(kind, str(index), relations) for index, (kind, relations) in enumerate(shape)]
    evaluation = Evaluation(path, {str(index): index in shown for index in range(len(shape))})
    kind = Securable.Type(shape[-1][0])
    return Effective(
        tuple(each for each in privilege_names(kind.value) if evaluation.holds(each)),
        tuple(
            each
            for each in ACTIONS_ON[kind]
            if (kind, each) not in ACTIONS_OF_ALL_USERS and evaluation.holds(f"can_{each.value}")
        ),
    )


def _relations(kind: str) -> list[str]:
    actions = [f"can_{each.value}" for each in ACTIONS_ON[Securable.Type(kind)]]
    return [*privilege_names(kind), *actions]


@dataclass(frozen=True, slots=True)
class Source:
    """A grant that applies to the reviewed principal, directly or through roles, each of which is in the next one.

    `expires_at` is the earliest expiry of the grant and of the memberships.
    """

    privilege: str
    securable_id: str
    through: tuple[UUID, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rights:
    """`is_shown_from_below`: a part of it follows only from a visible object below."""

    effective: Effective
    sources: tuple[Source, ...]
    is_shown_from_below: bool


def instance_admins() -> tuple[str, ...]:
    """Return the instance admins, who have permissions on all objects without grants."""
    return tuple(sorted(settings.ICEKEEPER.instance_admins))


def standing_actions(securable_type: Securable.Type) -> tuple[Can, ...]:
    """Return the actions that instance admins may do on objects of a type without grants."""
    return tuple(
        each
        for each in ACTIONS_ON[securable_type]
        if each not in NOT_BY_OVERRIDE and (securable_type, each) not in ACTIONS_OF_ALL_USERS
    )


_LASTS: Final = "(expires_at IS NULL OR expires_at > %s)"


USERS: Final = f"""
SELECT account.id, account.name, account.is_active, account.deleted_at IS NOT NULL FROM (
    SELECT * FROM (
        SELECT DISTINCT user_id FROM tenancy_grant
         WHERE securable_id = ANY(%s) AND user_id > %s AND {_LASTS} ORDER BY user_id LIMIT %s) AS granted
    UNION
    SELECT * FROM (
        SELECT DISTINCT user_id FROM tenancy_rolemember
         WHERE role_id = ANY(%s) AND user_id > %s AND {_LASTS} ORDER BY user_id LIMIT %s) AS members
    UNION
    SELECT * FROM (
        SELECT DISTINCT user_id FROM tenancy_grant
         WHERE owned_role_id = ANY(%s) AND user_id > %s AND {_LASTS} ORDER BY user_id LIMIT %s) AS owners
    UNION
    SELECT * FROM (
        SELECT DISTINCT g.user_id FROM tenancy_securable AS top, tenancy_grant AS g
         WHERE top.id = ANY(%s) AND g.user_id > %s AND (g.expires_at IS NULL OR g.expires_at > %s)
           AND {SHOWS} AND {IS_BELOW}
         ORDER BY g.user_id LIMIT %s) AS below
) AS found JOIN tenancy_user AS account ON account.id = found.user_id ORDER BY found.user_id LIMIT %s
"""  # noqa: S608 - constants, as below
"""Users after an id who have a grant on one of some objects, are in one of some roles, or see an object below."""


class FoundUser(NamedTuple):
    """A user of a review; deleted ones are left out of it, but count for its pages."""

    id: str
    name: str
    is_active: bool
    is_deleted: bool = False


ROLES_SEEING_BELOW: Final = f"""
SELECT DISTINCT g.role_id, top.id FROM tenancy_securable AS top, tenancy_grant AS g
 WHERE top.id = ANY(%s) AND g.role_id IS NOT NULL AND (g.expires_at IS NULL OR g.expires_at > %s)
   AND {SHOWS} AND {IS_BELOW}
"""  # noqa: S608


ROWS_OF_USERS: Final = f"""
SELECT user_id, 'member', CAST(role_id AS text), NULL, expires_at FROM tenancy_rolemember
 WHERE user_id = ANY(%s) AND role_id = ANY(%s) AND {_LASTS}
UNION ALL
SELECT user_id, 'owner', CAST(owned_role_id AS text), NULL, expires_at FROM tenancy_grant
 WHERE user_id = ANY(%s) AND owned_role_id = ANY(%s) AND {_LASTS}
UNION ALL
SELECT user_id, 'granted', securable_id, privilege, expires_at FROM tenancy_grant
 WHERE user_id = ANY(%s) AND securable_id = ANY(%s) AND {_LASTS}
UNION ALL
SELECT DISTINCT g.user_id, 'below', top.id, NULL, CAST(NULL AS timestamptz)
  FROM tenancy_securable AS top, tenancy_grant AS g
 WHERE top.id = ANY(%s) AND g.user_id = ANY(%s) AND (g.expires_at IS NULL OR g.expires_at > %s)
   AND {SHOWS} AND {IS_BELOW}
"""  # noqa: S608
"""Memberships in some roles and grants on some objects of users, and the objects below which they see one."""


GRANTED_PATHS: Final = """
SELECT DISTINCT g.path FROM tenancy_grant AS g
 WHERE (g.user_id = %s OR g.role_id = ANY(%s)) AND (g.expires_at IS NULL OR g.expires_at > %s)
   AND g.path ~>~ %s AND g.path ~<~ %s AND (g.path ~>~ %s OR g.securable_id = ANY(%s))
 ORDER BY g.path USING ~<~ LIMIT %s
"""
"""Paths of objects below another one with a grant to the subject, after a path or leading to it."""


_WALK: Final = """
SELECT * FROM (
    SELECT path FROM tenancy_securable WHERE path ~>=~ %s AND path ~<~ %s AND path ~>~ %s
     ORDER BY path USING ~<~ LIMIT %s) AS walk{number}"""


@lru_cache(maxsize=128)
def walks(number: int) -> str:
    """Return the statement for the first paths after another one in each of `number` subtrees."""
    return " UNION ALL ".join(_WALK.format(number=each) for each in range(number))


@dataclass(frozen=True, slots=True)
class GrantedRow:
    """One grant: `grantee` is the id of a user or of a role."""

    grantee: str | UUID
    securable_id: str
    privilege: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class GrantChanges:
    """Changes of the grants on one object that a review applies: rows to add, and pairs of grantee and privilege to
    leave out."""

    granted: tuple[GrantedRow, ...] = ()
    revoked: frozenset[tuple[str | UUID, str]] = frozenset()

    @property
    def roles(self) -> set[UUID]:
        changed = {*(row.grantee for row in self.granted), *(grantee for grantee, _ in self.revoked)}
        return {each for each in changed if isinstance(each, UUID)}

    def apply(self, rows: Iterable[GrantedRow], own_id: str, grantees: Collection[str | UUID]) -> list[GrantedRow]:
        """Return the rows as they would be; `grantees` are those that the rows were read for."""
        kept = [row for row in rows if row.securable_id != own_id or (row.grantee, row.privilege) not in self.revoked]
        return [*kept, *(row for row in self.granted if row.grantee in grantees)]


NO_CHANGES: Final = GrantChanges()


_PATH_TO: Final = """
SELECT id, managed_access FROM tenancy_securable
 WHERE id = ANY(string_to_array((SELECT path FROM tenancy_securable WHERE id = %s), '/')) ORDER BY length(path)
"""


_PATH_WITH_ROLES: Final = """
SELECT s.id, s.managed_access, g.role_id, g.privilege, g.expires_at FROM tenancy_securable AS s
  LEFT JOIN tenancy_grant AS g ON g.securable_id = s.id AND g.role_id IS NOT NULL
   AND (g.expires_at IS NULL OR g.expires_at > %s)
 WHERE s.id = ANY(string_to_array((SELECT path FROM tenancy_securable WHERE id = %s), '/'))
 ORDER BY length(s.path), g.id
"""


def read_path(securable_id: str) -> tuple[Node, ...]:
    """Return the path to an object, without grants; empty if it does not exist. One statement."""
    rows = fetch_all("default", _PATH_TO, [securable_id])
    return tuple(_node(own_id, is_managed=is_managed) for own_id, is_managed in rows)


def read_path_with_roles(securable_id: str) -> tuple[tuple[Node, ...], list[GrantedRow]]:
    """Return the path to an object as `read_path`, and the grants to roles on its objects. One statement."""
    path: dict[str, Node] = {}
    granted: list[GrantedRow] = []
    for own_id, is_managed, role_id, privilege, end in fetch_all("default", _PATH_WITH_ROLES, [now(), securable_id]):
        path[own_id] = _node(own_id, is_managed=is_managed)
        if role_id is not None:
            granted.append(GrantedRow(as_uuid(role_id), own_id, privilege, _expiry(end)))
    return tuple(path.values()), granted


def _expiry(end: Any) -> datetime | None:
    return None if end is None else as_datetime(end)


def read_nodes(paths: Collection[str]) -> dict[str, tuple[Node, ...]]:
    """Return the nodes of each path, with managed access and without grants. One statement."""
    ids = {each for path in paths for each in path.strip("/").split("/")}
    managed = set(Securable.objects.filter(pk__in=ids, managed_access=True).values_list("pk", flat=True))

    return {
        path: tuple(_node(own_id, is_managed=own_id in managed) for own_id in path.strip("/").split("/"))
        for path in paths
    }


def _node(own_id: str, *, is_managed: bool) -> Node:
    return Node(own_id.partition(":")[0], own_id, frozenset({MANAGED_ACCESS} if is_managed else ()))


@dataclass(slots=True)
class UserRows:
    """The rows of a user in a review: direct memberships, grants on the path, and the ids of `ids_checked_below` that
    are visible by a grant on an object below them."""

    memberships: list[Membership] = field(default_factory=list)
    granted: list[GrantedRow] = field(default_factory=list)
    seeing: set[str] = field(default_factory=set)


def read_rows_of_users(
    user_ids: Sequence[str], roles: Sequence[UUID], ids: Sequence[str], below: Sequence[str]
) -> dict[str, UserRows]:
    """Return by user the memberships in `roles`, the grants on `ids`, and those of `below` that are visible to them.

    One statement.
    """
    found = {each: UserRows() for each in user_ids}
    at, users, in_roles = now(), list(user_ids), list(roles)
    params = [users, in_roles, at, users, in_roles, at, users, list(ids), at, list(below), users, at]
    for user_id, kind, on, privilege, end in fetch_all("default", ROWS_OF_USERS, params):
        rows = found[user_id]
        if kind == "granted":
            rows.granted.append(GrantedRow(user_id, on, privilege, _expiry(end)))
        elif kind == "below":
            rows.seeing.add(on)
        else:
            rows.memberships.append(read_membership(on, kind, end))
    return found


def read_users(
    ids: Sequence[str], roles: Sequence[UUID], below: Sequence[str], *, after: str, limit: int
) -> list[FoundUser]:
    """Return the first users after `after`, by id, with a grant on `ids`, in `roles`, or who see an object below
    `below`."""
    at = now()
    params: list[Any] = [list(ids), after, at, limit, list(roles), after, at, limit, list(roles), after, at, limit]
    params += [list(below), after, at, limit, limit]
    return list(starmap(FoundUser, fetch_all("default", USERS, params)))


def read_roles_seeing(below: Sequence[str]) -> dict[UUID, set[str]]:
    """Return by role the ids of `below` that are visible to the role by a grant on an object below them."""
    found: dict[UUID, set[str]] = {}
    if below:
        for role_id, top in fetch_all("default", ROLES_SEEING_BELOW, [list(below), now()]):
            found.setdefault(as_uuid(role_id), set()).add(top)
    return found


def read_granted_paths(subject: Subject, roles: Collection[UUID], top: str, *, after: str, limit: int) -> list[str]:
    """Return paths below `top` of objects with a grant to the subject: the first `limit` after `after`, and those of
    its parents."""
    leading = after.strip("/").split("/")
    params: list[Any] = [subject.user_id, list(roles), now(), top, end_of(top), max(after, top), leading]
    rows = fetch_all("default", GRANTED_PATHS, [*params, limit + len(leading)])
    return [row[0] for row in rows]


def walk(tops: Sequence[str], *, after: str, limit: int) -> list[str]:
    """Return the first `limit` paths after `after` in each subtree of `tops`, including the tops. One statement."""
    params = [each for top in tops for each in (top, end_of(top), after, limit)]
    rows = fetch_all("default", walks(len(tops)), params) if tops else []
    return sorted(row[0] for row in rows)


def ids_shown_below(
    role_paths: Mapping[UUID, RolePath], by_role: Mapping[UUID, set[str]], own: Collection[str] = ()
) -> set[str]:
    """Return the objects below which something is visible to a subject, directly or through its roles."""
    return set(own).union(*(by_role.get(role_id, ()) for role_id in role_paths))
