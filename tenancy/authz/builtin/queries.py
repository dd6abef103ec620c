"""The SQL statements of the built-in backend, and the functions that run them: one statement a function.

They start from the objects of a check and read the grants on them, never all grants of a subject: the creator of a
hundred thousand tables owns as many. Expired grants do not count. They read the primary database: a lagging replica
would restore revoked grants. `visible_securables` is the same decision as a condition on rows, for tables of the
console: `tests/authz/test_visible_rows.py` compares it with the evaluation of each object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat, Length, Substr

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from icekeeper.kernel.http.paging import NO_LIMIT
from tenancy.authz.actions import ASSIGNEE
from tenancy.authz.builtin.evaluation import Evaluation, Node, showing_privileges
from tenancy.authz.model import DOWN, MANAGED_ACCESS, UP, rights_model
from tenancy.authz.port import Subject
from tenancy.models import Grant, Securable
from tenancy.models.securable import ObjectRef, securable_id

ROLES: Final = """
WITH RECURSIVE edge(member_role_id, role_id) AS (
    SELECT member_role_id, role_id FROM tenancy_rolemember
     WHERE member_role_id IS NOT NULL AND (expires_at IS NULL OR expires_at > %s)
    UNION ALL
    SELECT role_id, owned_role_id FROM tenancy_grant
     WHERE owned_role_id IS NOT NULL AND role_id IS NOT NULL AND (expires_at IS NULL OR expires_at > %s)
), acting(role_id) AS (
    SELECT id FROM tenancy_role WHERE id = %s
    UNION
    SELECT id FROM tenancy_role WHERE provider_id = %s AND source_id = ANY(%s)
    UNION
    SELECT role_id FROM tenancy_rolemember WHERE user_id = %s AND (expires_at IS NULL OR expires_at > %s)
    UNION
    SELECT owned_role_id FROM tenancy_grant
     WHERE user_id = %s AND owned_role_id IS NOT NULL AND (expires_at IS NULL OR expires_at > %s)
    UNION
    SELECT edge.role_id FROM acting JOIN edge ON edge.member_role_id = acting.role_id
)
SELECT CAST(role_id AS text), NULL FROM acting
UNION ALL
SELECT NULL, MIN(expires_at) FROM tenancy_rolemember
 WHERE expires_at > %s AND (user_id = %s OR member_role_id IN (SELECT role_id FROM acting))
UNION ALL
SELECT NULL, MIN(expires_at) FROM tenancy_grant
 WHERE expires_at > %s AND owned_role_id IS NOT NULL
   AND (user_id = %s OR role_id IN (SELECT role_id FROM acting))
"""
"""The roles of a subject at any depth, also in cycles, and the earliest expiry of their memberships."""


_LASTS: Final = "(g.expires_at IS NULL OR g.expires_at > %s)"


_OWN_GRANTS: Final = f"(g.user_id = %s OR g.role_id = ANY(%s)) AND {_LASTS}"
"""The grants of the subject."""


def _texts(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


# The names are part of the statement: sending them as lists takes longer.
_PRIVILEGE_SHOWS: Final = f"g.privilege IN ({_texts(set().union(*showing_privileges().values()))})"


# The condition excludes types: with a list of included types PostgreSQL expects few matching grants, and sorts all of
# them instead of reading the first from the index.
SHOWS: Final = f"""{_PRIVILEGE_SHOWS}
   AND substr(g.securable_id, 1, strpos(g.securable_id, ':') - 1) NOT IN ({
    _texts(rights_model().types.keys() - showing_privileges().keys())
})"""
"""The condition on grants that grant visibility of their object and so of its parents."""


IS_BELOW: Final = "g.path ~>~ top.path AND g.path ~<~ (substr(top.path, 1, length(top.path) - 1) || '0')"


GRANTS_ON_ONE: Final = f"""
SELECT 'object', s.id, s.parent_id, s.managed_access, g.privilege, g.expires_at
  FROM tenancy_securable AS s LEFT JOIN tenancy_grant AS g ON g.securable_id = s.id AND {_OWN_GRANTS}
 WHERE s.id = ANY(string_to_array((SELECT path FROM tenancy_securable WHERE id = %s), '/'))
"""  # noqa: S608 - constants, as below
"""The grants on an object and its parents."""


_FIRST_BELOW: Final = f"""(
    SELECT g.path FROM tenancy_grant AS g WHERE {{grantee}} AND {_LASTS} AND {SHOWS} AND {IS_BELOW} LIMIT 1)"""  # noqa: S608


# PostgreSQL would plan EXISTS as a join, and read all matching rows for OR or ANY. This reads one row from the index of
# the user, else of the first role with a grant there.
_A_PATH_BELOW: Final = f"""COALESCE({_FIRST_BELOW.format(grantee="g.user_id = %s")}, (
    SELECT path FROM (
        SELECT {_FIRST_BELOW.format(grantee="g.role_id = r.value")} AS path
          FROM unnest(%s::uuid[]) AS r(value)) AS of_roles
     WHERE path IS NOT NULL LIMIT 1))"""  # noqa: S608


_SHOWS_BELOW: Final = f"""
SELECT 'shows', top.id, NULL, NULL, NULL, NULL FROM tenancy_securable AS top
 WHERE {_A_PATH_BELOW} IS NOT NULL AND top.id"""  # noqa: S608


SHOWS_BELOW: Final = f"{_SHOWS_BELOW} = ANY(%s)"
"""The objects that are visible by a grant on an object below them."""


GRANTS_ON_ONE_AND_BELOW: Final = f"{GRANTS_ON_ONE} UNION ALL {_SHOWS_BELOW} = %s"
"""`GRANTS_ON_ONE`, and `SHOWS_BELOW` for one object."""


GRANTS_ON_MANY: Final = f"""
WITH RECURSIVE up(id, parent_id, managed_access) AS (
    SELECT id, parent_id, managed_access FROM tenancy_securable WHERE id = ANY(%s)
    UNION
    SELECT above.id, above.parent_id, above.managed_access
      FROM up JOIN tenancy_securable AS above ON above.id = up.parent_id
)
SELECT 'object', up.id, up.parent_id, up.managed_access, g.privilege, g.expires_at
  FROM up LEFT JOIN tenancy_grant AS g ON g.securable_id = up.id AND {_OWN_GRANTS}
UNION ALL {SHOWS_BELOW}
"""  # noqa: S608
"""`GRANTS_ON_ONE` for many objects, and `SHOWS_BELOW` for some."""


SOURCES_ON_MANY: Final = GRANTS_ON_MANY.replace("g.expires_at\n", "g.expires_at, g.role_id\n", 1).replace(
    "SELECT 'shows', top.id,", "SELECT 'shows', top.id, NULL,"
)
"""`GRANTS_ON_MANY` with the role of each grant."""


SHOWN_PATHS: Final = f"""
SELECT checked.id, top.path, {_A_PATH_BELOW}
  FROM tenancy_securable AS checked JOIN tenancy_securable AS top
    ON top.id = CASE WHEN checked.type = ANY(%s) THEN checked.parent_id ELSE checked.id END
 WHERE checked.id = ANY(%s)
"""  # noqa: S608
"""For objects, or for the parents of objects of some types: the path, and the path of a visible object below."""


TOKEN_ROLES: Final = "SELECT id FROM tenancy_role WHERE provider_id = %s AND source_id = ANY(%s) ORDER BY id"  # noqa: S105


_PATH: Final = "(SELECT path FROM tenancy_securable WHERE id = %s)"


_BETWEEN: Final = f"g.path ~>~ ({_PATH} || %s) AND g.path ~<~ ({_PATH} || %s)"


_ID: Final = "substr({path}, length({path}) - 36, 36)::uuid"
"""The UUID at the end of a path, before the last slash."""


_LEAVES: Final = f"FROM tenancy_grant AS g WHERE {{grantee}} AND {_LASTS} AND {_PRIVILEGE_SHOWS} AND {_BETWEEN}"


# Each branch uses its own index; for an OR, SQLite would read all grants of the user. Cutting a thousand ids out of
# their paths takes PostgreSQL four times as long as finding them, and one text is faster to send and to read than a
# thousand rows. An object of the user repeats at most once per privilege.
SHOWN_LEAVES: Final = f"""
SELECT string_agg(securable_id, ' ') FROM (
    SELECT g.securable_id {_LEAVES.format(grantee="g.user_id = %s")}
    UNION ALL
    SELECT DISTINCT g.securable_id {_LEAVES.format(grantee="g.role_id = ANY(%s)")}) AS shown
"""  # noqa: S608
"""Visible children of a type without child objects, by a grant on them: their securable ids in one text, unordered
and with duplicates; null for none.
"""


# A subquery for each parent: for a join, PostgreSQL may read all grants of the grantee.
_LEAVES_OF_PARENT: Final = f"""(
    SELECT string_agg(g.securable_id, ' ') FROM tenancy_grant AS g
     WHERE {{grantee}} AND {_LASTS} AND {_PRIVILEGE_SHOWS}
       AND g.path ~>~ (container.path || %s) AND g.path ~<~ (container.path || %s))"""  # noqa: S608


SHOWN_LEAVES_OF_SEVERAL: Final = f"""
SELECT {_LEAVES_OF_PARENT.format(grantee="g.user_id = %s")}, {_LEAVES_OF_PARENT.format(grantee="g.role_id = ANY(%s)")}
  FROM tenancy_securable AS container WHERE container.id = ANY(%s)
"""  # noqa: S608
"""`SHOWN_LEAVES` of the children of several objects: two texts for each."""


_FIRST_LEAVES: Final = f"SELECT DISTINCT g.path {_LEAVES} ORDER BY g.path USING ~<~ LIMIT %s"


FIRST_SHOWN_LEAVES: Final = f"""
SELECT {_ID.format(path="path")} FROM (
    SELECT * FROM ({_FIRST_LEAVES.format(grantee="g.user_id = %s")}) AS own
    UNION
    SELECT * FROM ({_FIRST_LEAVES.format(grantee="g.role_id = ANY(%s)")}) AS of_roles) AS shown
 ORDER BY path USING ~<~ LIMIT %s
"""  # noqa: S608
"""The first visible children: of the user's grants it reads at most the limit, of the roles' grants there all."""


_NEXT_BRANCH: Final = f"""
    SELECT substr(g.path, 1, length(container.path) + %s) FROM tenancy_grant AS g
     WHERE {{grantee}} AND {_LASTS} AND {SHOWS} AND g.path ~>~ (walk.top || '0') AND g.path ~<~ (container.path || %s)
     ORDER BY g.path USING ~<~ LIMIT 1"""  # noqa: S608


# Skips from one child to the next without reading what is below it: the creator of a hundred thousand tables has as
# many grants in a few namespaces. It walks once per grantee, whose grants an index has in the order of their paths.
SHOWN_BRANCHES: Final = f"""
WITH RECURSIVE container(path) AS (
    SELECT path FROM tenancy_securable WHERE id = %s
), grantee(user_id, role_id) AS (
    SELECT CAST(%s AS text), NULL::uuid
    UNION ALL
    SELECT NULL, r.value FROM unnest(%s::uuid[]) AS r(value)
), walk(user_id, role_id, top, so_far) AS (
    SELECT user_id, role_id, container.path || %s, 0 FROM grantee, container
    UNION ALL
    SELECT walk.user_id, walk.role_id, COALESCE(({_NEXT_BRANCH.format(grantee="g.user_id = walk.user_id")}),
        ({_NEXT_BRANCH.format(grantee="g.role_id = walk.role_id")})), so_far + 1
      FROM walk, container WHERE top IS NOT NULL AND so_far < %s
)
SELECT DISTINCT substr(top, length(top) - 35)::uuid FROM walk WHERE so_far > 0 AND top IS NOT NULL ORDER BY 1 LIMIT %s
"""  # noqa: S608
"""Children that are visible by a grant on them or on an object below them."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles of a subject; `expires_at` is the earliest expiry of their memberships."""

    ids: tuple[UUID, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class GrantsOnPaths:
    """The paths to objects with their grants, by securable id, whether a visible object exists below some of them, and
    the earliest expiry of the grants."""

    paths: Mapping[str, tuple[Node, ...]]
    shows_below: Mapping[str, bool]
    expires_at: datetime | None


def read_roles(subject: Subject, *, at: datetime | None = None) -> Roles:
    """Return the roles of a subject now, or at a later time."""
    at, user_id = at or now(), subject.user_id
    if user_id is None and subject.assumed_role is None:
        return Roles((), None)
    begin = [at, at, subject.assumed_role, subject.provider_id, list(subject.token_roles), user_id, at, user_id, at]
    rows = fetch_all("default", ROLES, [*begin, at, user_id, at, user_id])
    ends = [as_datetime(end) for _, end in rows if end is not None]
    return Roles(tuple(as_uuid(role_id) for role_id, _ in rows if role_id is not None), min(ends, default=None))


def read_grants_on_paths(
    subject: Subject,
    roles: Sequence[UUID],
    ids: Sequence[str],
    *,
    below: Sequence[str] = (),
    at: datetime | None = None,
) -> GrantsOnPaths:
    """Return what is granted to the subject on the securables `ids` and their parents, now or at a later time.

    For ids in `below` it also returns whether an object below them is visible. The path of an unknown securable is its
    own node without grants.
    """
    at = at or now()
    own_grants, showing = [subject.user_id, list(roles), at], _showing(subject, roles, at)
    if len(ids) > 1 or len(below) > 1:
        rows = fetch_all("default", GRANTS_ON_MANY, [list(ids), *own_grants, *showing, list(below)])
    elif below:
        rows = fetch_all("default", GRANTS_ON_ONE_AND_BELOW, [*own_grants, ids[0], *showing, below[0]])
    else:
        rows = fetch_all("default", GRANTS_ON_ONE, [*own_grants, ids[0]])
    return _grants_on_paths(rows, roles, ids, below)


class GrantOnPath(NamedTuple):
    """A grant to the subject, or to its role `role_id`, on an object of a path."""

    securable_id: str
    privilege: str
    role_id: UUID | None
    expires_at: datetime | None


def read_sources_on_paths(
    subject: Subject, roles: Sequence[UUID], ids: Sequence[str], *, below: Sequence[str]
) -> tuple[GrantsOnPaths, list[GrantOnPath]]:
    """As `read_grants_on_paths`, with the grants themselves in no order. One statement."""
    at = now()
    params = [list(ids), subject.user_id, list(roles), at, *_showing(subject, roles, at), list(below)]
    rows = fetch_all("default", SOURCES_ON_MANY, params)
    found = [
        GrantOnPath(
            own_id,
            privilege,
            None if role_id is None else as_uuid(role_id),
            None if end is None else as_datetime(end),
        )
        for kind, own_id, _, _, privilege, end, role_id in rows
        if kind == "object" and privilege is not None
    ]
    return _grants_on_paths((row[:6] for row in rows), roles, ids, below), found


def _grants_on_paths(
    rows: Iterable[Sequence[Any]], roles: Sequence[UUID], ids: Sequence[str], below: Sequence[str]
) -> GrantsOnPaths:
    parents: dict[str, str | None] = {}
    relations: dict[str, set[str]] = {}
    ends: list[datetime] = []
    shows = dict.fromkeys(below, False)
    for kind, own_id, parent_id, managed, privilege, expires_at in rows:
        if kind == "shows":
            shows[own_id] = True
            continue
        parents[own_id] = parent_id
        on_it = relations.setdefault(own_id, {MANAGED_ACCESS} if managed else set())
        if privilege is not None:
            on_it.add(privilege)
        if expires_at is not None:
            ends.append(as_datetime(expires_at))
    for role_id in roles:
        as_object = securable_id(Securable.Type.ROLE, role_id)
        if as_object in relations:  # the role itself is checked, and its members are its assignees
            relations[as_object].add(ASSIGNEE)
    return GrantsOnPaths({own_id: _path(own_id, parents, relations) for own_id in ids}, shows, min(ends, default=None))


def _path(own_id: str, parents: Mapping[str, str | None], relations: Mapping[str, set[str]]) -> tuple[Node, ...]:
    path: list[Node] = []
    here: str | None = own_id if own_id in parents else None
    while here is not None:
        path.append(Node(here.partition(":")[0], here, frozenset(relations[here])))
        here = parents[here]
    return tuple(reversed(path)) or (Node(own_id.partition(":")[0], own_id, frozenset()),)


def read_shows_below(subject: Subject, roles: Sequence[UUID], ids: Sequence[str]) -> dict[str, bool]:
    """Return by id of `ids` whether it is visible to the subject by a grant on an object below it."""
    params = [*_showing(subject, roles, now()), list(ids)]
    shown = {row[1] for row in fetch_all("default", SHOWS_BELOW, params)}
    return {each: each in shown for each in ids}


def _showing(subject: Subject, roles: Sequence[UUID], at: datetime) -> list[Any]:
    """Return the parameters of `_A_PATH_BELOW`."""
    return [subject.user_id, at, at, list(roles)]


def read_shown_paths(
    subject: Subject, roles: Sequence[UUID], ids: Sequence[str], *, by_parent: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return by id of `ids` its path and the path of one object below it with a grant that shows it to the subject.

    Ids without such a grant are left out. For objects of the types `by_parent` both paths are those of their parent.
    """
    params = [*_showing(subject, roles, now()), list(by_parent), list(ids)]
    rows = fetch_all("default", SHOWN_PATHS, params)
    return {own_id: (path, below) for own_id, path, below in rows if below is not None}


def read_token_roles(subject: Subject) -> list[UUID]:
    """Return the ids of the roles that the subject's token names."""
    return [
        as_uuid(row[0]) for row in fetch_all("default", TOKEN_ROLES, [subject.provider_id, list(subject.token_roles)])
    ]


def read_shown_children(
    subject: Subject, roles: Sequence[UUID], parent: ObjectRef, child_type: str, *, after: UUID, limit: int
) -> list[UUID]:
    """Return the first `limit` ids after `after` of visible children of one type, by a grant on them or below them."""
    if rights_model().links(child_type, DOWN):
        start = f"{child_type}:{after}"
        each = [len(start), now(), f"{child_type};"]
        params = [securable_id(*parent), subject.user_id, list(roles), start, *each, *each, limit, limit]
        rows = fetch_all("default", SHOWN_BRANCHES, params)
    else:
        of_each = [now(), *_between(parent, child_type, after), limit]
        rows = fetch_all("default", FIRST_SHOWN_LEAVES, [subject.user_id, *of_each, list(roles), *of_each, limit])
    return [as_uuid(row[0]) for row in rows]


def read_all_shown_children(
    subject: Subject, roles: Sequence[UUID], parent: ObjectRef, child_type: str, *, after: UUID
) -> set[int]:
    """Return all ids that `read_shown_children` would find, as `UUID.int`."""
    if rights_model().links(child_type, DOWN):
        ids = read_shown_children(subject, roles, parent, child_type, after=after, limit=NO_LIMIT)
        return {each.int for each in ids}
    of_each = [now(), *_between(parent, child_type, after)]
    ((shown,),) = fetch_all("default", SHOWN_LEAVES, [subject.user_id, *of_each, list(roles), *of_each])
    return _numbers(shown, child_type)


def read_shown_leaves(
    subject: Subject, roles: Sequence[UUID], parents: Sequence[ObjectRef], child_type: str
) -> set[int]:
    """Return the same for several parents, for a type without child objects."""
    of_each = [now(), f"{child_type}:", f"{child_type};"]
    params = [subject.user_id, *of_each, list(roles), *of_each, [securable_id(*each) for each in parents]]
    found: set[int] = set()
    for texts in fetch_all("default", SHOWN_LEAVES_OF_SEVERAL, params):
        for text in texts:
            found |= _numbers(text, child_type)
    return found


def _numbers(securables: str | None, child_type: str) -> set[int]:
    """Parse the ids in a text of securable ids of one type, as `UUID.int`."""
    digits = (securables or "").replace(f"{child_type}:", "").replace("-", "")
    return {int(each, 16) for each in digits.split()}


def _between(parent: ObjectRef, child_type: str, after: UUID) -> list[str]:
    """Return the bounds of the paths of a parent's children of one type after `after`."""
    parent_id = securable_id(*parent)
    # "0" and ";" are the characters after the slash and the colon.
    return [parent_id, f"{child_type}:{after}0", parent_id, f"{child_type};"]


class VisibilitySources(NamedTuple):
    """What shows objects of a type: privileges by type of the object that they are granted on, and whether a visible
    object below the object, or below its parent, shows it."""

    privileges: dict[str, list[str]]
    is_shown_from_below: bool
    is_shown_from_below_parent: bool


def visible_securables(
    subject: Subject, roles: Collection[UUID], securable_type: str, relation: str, *, at: datetime
) -> QuerySet[Securable]:
    """Return the securables of a type to which the subject has `relation`, as a query that is not evaluated yet."""
    sources = visibility_sources(securable_type, relation)
    grants = Grant.objects.unexpired(at).filter(subject.grants_filter(roles))
    shown = Q(Exists(grants.filter(securable_id=OuterRef("pk"), privilege__in=sources.privileges[securable_type])))
    for above, privileges in sources.privileges.items():
        covering = grants.filter(securable__type=above, privilege__in=privileges)
        shown |= Q(Exists(covering.filter(path=Substr(OuterRef("path"), 1, Length("path")))))
    showing = grants.filter(_is_showing())
    if sources.is_shown_from_below:
        below = showing.filter(path__path_after=OuterRef("path"), path__path_before=OuterRef("path_end"))
        shown |= Q(Exists(below))
    if sources.is_shown_from_below_parent:
        below = showing.filter(path__path_after=OuterRef("parent__path"), path__path_before=OuterRef("parent_path_end"))
        shown |= Q(Exists(below))
    rows = Securable.objects.of_type(securable_type).with_path_end()
    return rows.annotate(parent_path_end=_end_of("parent__path")).filter(shown)


def _end_of(path: str) -> Concat:
    return Concat(Substr(path, 1, Length(F(path)) - 1), Value("0"))


def _is_showing() -> Q:
    """Filter grants that show the parents of their object."""
    shows = Q()
    for securable_type, privileges in showing_privileges().items():
        shows |= Q(securable__type=securable_type, privilege__in=sorted(privileges))
    return shows


@cache
def visibility_sources(securable_type: str, relation: str) -> VisibilitySources:
    types = [securable_type]
    while above := [each for each in rights_model().links(types[0], UP) if each != types[0]]:
        types.insert(0, above[0])
    last = len(types) - 1

    def evaluate(level: int | None, privilege: str = "") -> Evaluation:
        relations = [frozenset({privilege}) if each == level else frozenset[str]() for each in range(len(types))]
        return Evaluation([Node(kind, str(each), relations[each]) for each, kind in enumerate(types)])

    privileges = {
        kind: [each for each in rights_model().privileges(kind) if evaluate(level, each).holds(relation)]
        for level, kind in enumerate(types)
    }
    without_grants = evaluate(None)
    without_grants.holds(relation)
    levels = {int(each) for each in without_grants.unknown_below}
    if not levels <= {last, last - 1}:
        raise NotImplementedError(f"{securable_type}: {relation} is shown from below an object above its parent")
    return VisibilitySources(privileges, last in levels, last - 1 in levels)
