"""The SQL statements of the built-in backend, and the functions that run them: one statement a function.

They start from the objects of a check and read the grants on them, never all grants of a subject: the creator of a
hundred thousand tables owns as many. Expired grants do not count. They read the primary database: a lagging replica
would restore revoked grants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from icekeeper.kernel.http.paging import EVERYTHING
from tenancy.authz.builtin.evaluation import Node, showing_privileges
from tenancy.authz.model import DOWN, MANAGED_ACCESS, rights_model
from tenancy.authz.privileges import ASSIGNEE
from tenancy.authz.subject import Subject
from tenancy.models import Securable
from tenancy.refs import ObjectRef, securable_id

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
"""The roles of an subject, in whatever depth, in circles, too, and when the first of the ways into them ends."""


_LASTS: Final = "(g.expires_at IS NULL OR g.expires_at > %s)"


_MINE: Final = f"(g.user_id = %s OR g.role_id = ANY(%s)) AND {_LASTS}"
"""The grants of the subject."""


def _texts(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


# Words of the model, written out: to send them as lists takes longer than to send a short statement.
_PRIVILEGE_SHOWS: Final = f"g.privilege IN ({_texts(set().union(*showing_privileges().values()))})"


# Of the types those that do not show: of a list of those that do, PostgreSQL thinks that hardly a grant is on one, and
# rather sorts them all than takes the first from the index.
SHOWS: Final = f"""{_PRIVILEGE_SHOWS}
   AND substr(g.securable_id, 1, strpos(g.securable_id, ':') - 1) NOT IN ({
    _texts(rights_model().types.keys() - showing_privileges().keys())
})"""
"""Those that make visible what they are on, and whatever that lies in."""


IS_BELOW: Final = "g.path ~>~ top.path AND g.path ~<~ (substr(top.path, 1, length(top.path) - 1) || '0')"


HELD_ON_ONE: Final = f"""
SELECT 'object', s.id, s.parent_id, s.managed_access, g.privilege, g.expires_at
  FROM tenancy_securable AS s LEFT JOIN tenancy_grant AS g ON g.securable_id = s.id AND {_MINE}
 WHERE s.id = ANY(string_to_array((SELECT path FROM tenancy_securable WHERE id = %s), '/'))
"""  # noqa: S608 - constants, as below
"""What is held on an object and above it."""


_FIRST_BELOW: Final = f"""(
    SELECT g.path FROM tenancy_grant AS g WHERE {{whose}} AND {_LASTS} AND {SHOWS} AND {IS_BELOW} LIMIT 1)"""  # noqa: S608


# Neither EXISTS, of which PostgreSQL would make a join, nor OR or ANY, for which it would collect all that there is:
# one row from the index of the user, else of the first role that has any there.
_A_PATH_BELOW: Final = f"""COALESCE({_FIRST_BELOW.format(whose="g.user_id = %s")}, (
    SELECT path FROM (
        SELECT {_FIRST_BELOW.format(whose="g.role_id = r.value")} AS path
          FROM unnest(%s::uuid[]) AS r(value)) AS of_roles
     WHERE path IS NOT NULL LIMIT 1))"""  # noqa: S608


_SHOWS_BELOW: Final = f"""
SELECT 'shows', top.id, NULL, NULL, NULL, NULL FROM tenancy_securable AS top
 WHERE {_A_PATH_BELOW} IS NOT NULL AND top.id"""  # noqa: S608


SHOWS_BELOW: Final = f"{_SHOWS_BELOW} = ANY(%s)"
"""Of objects: those below which something shows."""


HELD_ON_ONE_AND_BELOW: Final = f"{HELD_ON_ONE} UNION ALL {_SHOWS_BELOW} = %s"
"""`HELD_ON_ONE`, and whether something shows below an object."""


HELD: Final = f"""
WITH RECURSIVE up(id, parent_id, managed_access) AS (
    SELECT id, parent_id, managed_access FROM tenancy_securable WHERE id = ANY(%s)
    UNION
    SELECT above.id, above.parent_id, above.managed_access
      FROM up JOIN tenancy_securable AS above ON above.id = up.parent_id
)
SELECT 'object', up.id, up.parent_id, up.managed_access, g.privilege, g.expires_at
  FROM up LEFT JOIN tenancy_grant AS g ON g.securable_id = up.id AND {_MINE}
UNION ALL {SHOWS_BELOW}
"""  # noqa: S608
"""`HELD_ON_ONE` for many objects, and `SHOWS_BELOW` for some."""


SHOWN_PATHS: Final = f"""
SELECT asked.id, top.path, {_A_PATH_BELOW}
  FROM tenancy_securable AS asked JOIN tenancy_securable AS top
    ON top.id = CASE WHEN asked.type = ANY(%s) THEN asked.parent_id ELSE asked.id END
 WHERE asked.id = ANY(%s)
"""  # noqa: S608
"""Of objects, or of the parents of those that have some types: the path, and that of something below that shows."""


TOKEN_ROLES: Final = "SELECT id FROM tenancy_role WHERE provider_id = %s AND source_id = ANY(%s) ORDER BY id"  # noqa: S105


_PATH: Final = "(SELECT path FROM tenancy_securable WHERE id = %s)"


_BETWEEN: Final = f"g.path ~>~ ({_PATH} || %s) AND g.path ~<~ ({_PATH} || %s)"


_ID: Final = "substr({path}, length({path}) - 36, 36)::uuid"
"""What a path ends with, before its last slash."""


_LEAVES: Final = f"FROM tenancy_grant AS g WHERE {{whose}} AND {_LASTS} AND {_PRIVILEGE_SHOWS} AND {_BETWEEN}"


# Each arm by its own index: for an OR, SQLite would go through all that the user was ever granted. To cut a thousand
# ids out of their paths takes PostgreSQL four times as long as to find them, and one text is less to send and to read
# than a thousand rows. What is the user's own repeats no more often than there are privileges.
SHOWN_LEAVES: Final = f"""
SELECT string_agg(securable_id, ' ') FROM (
    SELECT g.securable_id {_LEAVES.format(whose="g.user_id = %s")}
    UNION ALL
    SELECT DISTINCT g.securable_id {_LEAVES.format(whose="g.role_id = ANY(%s)")}) AS shown
"""  # noqa: S608
"""Children that have nothing below them, which a grant on them makes visible: their securables in one text, in whatever
order, some of them repeated; null for none.
"""


# A subquery for each parent and not a join, for which PostgreSQL may read all that the grantee holds anywhere.
_LEAVES_OF_PLACE: Final = f"""(
    SELECT string_agg(g.securable_id, ' ') FROM tenancy_grant AS g
     WHERE {{whose}} AND {_LASTS} AND {_PRIVILEGE_SHOWS}
       AND g.path ~>~ (place.path || %s) AND g.path ~<~ (place.path || %s))"""  # noqa: S608


SHOWN_LEAVES_OF_SEVERAL: Final = f"""
SELECT {_LEAVES_OF_PLACE.format(whose="g.user_id = %s")}, {_LEAVES_OF_PLACE.format(whose="g.role_id = ANY(%s)")}
  FROM tenancy_securable AS place WHERE place.id = ANY(%s)
"""  # noqa: S608
"""`SHOWN_LEAVES` of the children of several objects: two texts for each."""


_FIRST_LEAVES: Final = f"SELECT DISTINCT g.path {_LEAVES} ORDER BY g.path USING ~<~ LIMIT %s"


FIRST_SHOWN_LEAVES: Final = f"""
SELECT {_ID.format(path="path")} FROM (
    SELECT * FROM ({_FIRST_LEAVES.format(whose="g.user_id = %s")}) AS own
    UNION
    SELECT * FROM ({_FIRST_LEAVES.format(whose="g.role_id = ANY(%s)")}) AS of_roles) AS shown
 ORDER BY path USING ~<~ LIMIT %s
"""  # noqa: S608
"""The first of them. Of ever so many that the user was granted no more are read than asked for; of what the roles were
granted there, all."""


_NEXT_BRANCH: Final = f"""
    SELECT substr(g.path, 1, length(place.path) + %s) FROM tenancy_grant AS g
     WHERE {{whose}} AND {_LASTS} AND {SHOWS} AND g.path ~>~ (walk.top || '0') AND g.path ~<~ (place.path || %s)
     ORDER BY g.path USING ~<~ LIMIT 1"""  # noqa: S608


# From one child to the next, and past all that lies below it: who made a hundred thousand tables has as many grants
# in a few namespaces. Each grantee walks alone, as the grants of each lie in an index in the order of their paths.
SHOWN_BRANCHES: Final = f"""
WITH RECURSIVE place(path) AS (
    SELECT path FROM tenancy_securable WHERE id = %s
), grantee(user_id, role_id) AS (
    SELECT CAST(%s AS text), NULL::uuid
    UNION ALL
    SELECT NULL, r.value FROM unnest(%s::uuid[]) AS r(value)
), walk(user_id, role_id, top, so_far) AS (
    SELECT user_id, role_id, place.path || %s, 0 FROM grantee, place
    UNION ALL
    SELECT walk.user_id, walk.role_id, COALESCE(({_NEXT_BRANCH.format(whose="g.user_id = walk.user_id")}),
        ({_NEXT_BRANCH.format(whose="g.role_id = walk.role_id")})), so_far + 1
      FROM walk, place WHERE top IS NOT NULL AND so_far < %s
)
SELECT DISTINCT substr(top, length(top) - 35)::uuid FROM walk WHERE so_far > 0 AND top IS NOT NULL ORDER BY 1 LIMIT %s
"""  # noqa: S608
"""Children that a grant on them or on something below makes visible."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles of an subject; `expires_at` is when the first of the memberships behind them ends."""

    ids: tuple[UUID, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Held:
    """The paths to the objects that were asked about, by securable id; whether something visible lies below those of
    which that was asked, too; and when the first of what is held ends."""

    paths: Mapping[str, tuple[Node, ...]]
    shows_below: Mapping[str, bool]
    expires_at: datetime | None


def read_roles(subject: Subject, *, at: datetime | None = None) -> Roles:
    """The roles of an subject now, or as they will be at a moment to come."""
    at, user_id = at or now(), subject.user_id
    if user_id is None and subject.assumed_role is None:
        return Roles((), None)
    begin = [at, at, subject.assumed_role, subject.provider_id, list(subject.token_roles), user_id, at, user_id, at]
    rows = fetch_all("default", ROLES, [*begin, at, user_id, at, user_id])
    ends = [as_datetime(end) for _, end in rows if end is not None]
    return Roles(tuple(as_uuid(role_id) for role_id, _ in rows if role_id is not None), min(ends, default=None))


def read_held(
    subject: Subject,
    roles: Sequence[UUID],
    ids: Sequence[str],
    *,
    below: Sequence[str] = (),
    at: datetime | None = None,
) -> Held:
    """What the subject holds on the securables `ids` and above them, now or at a moment to come.

    Of those that are in `below`, too, it is found out whether something below is visible. Of a securable that there is
    not, the path is its own node alone, on which nothing is held.
    """
    at = at or now()
    mine, showing = [subject.user_id, list(roles), at], _showing(subject, roles, at)
    if len(ids) > 1 or len(below) > 1:
        rows = fetch_all("default", HELD, [list(ids), *mine, *showing, list(below)])
    elif below:
        rows = fetch_all("default", HELD_ON_ONE_AND_BELOW, [*mine, ids[0], *showing, below[0]])
    else:
        rows = fetch_all("default", HELD_ON_ONE, [*mine, ids[0]])
    parents: dict[str, str | None] = {}
    held: dict[str, set[str]] = {}
    ends: list[datetime] = []
    shows = dict.fromkeys(below, False)
    for kind, own_id, parent_id, managed, privilege, expires_at in rows:
        if kind == "shows":
            shows[own_id] = True
            continue
        parents[own_id] = parent_id
        on_it = held.setdefault(own_id, {MANAGED_ACCESS} if managed else set())
        if privilege is not None:
            on_it.add(privilege)
        if expires_at is not None:
            ends.append(as_datetime(expires_at))
    for role_id in roles:
        as_object = securable_id(Securable.Type.ROLE, role_id)
        if as_object in held:  # it is asked about itself, and its members are its assignees
            held[as_object].add(ASSIGNEE)
    return Held({own_id: _path(own_id, parents, held) for own_id in ids}, shows, min(ends, default=None))


def _path(own_id: str, parents: Mapping[str, str | None], held: Mapping[str, set[str]]) -> tuple[Node, ...]:
    path: list[Node] = []
    here: str | None = own_id if own_id in parents else None
    while here is not None:
        path.append(Node(here.partition(":")[0], here, frozenset(held[here])))
        here = parents[here]
    return tuple(reversed(path)) or (Node(own_id.partition(":")[0], own_id, frozenset()),)


def read_shows_below(subject: Subject, roles: Sequence[UUID], ids: Sequence[str]) -> dict[str, bool]:
    """Of each of the securables `ids`: whether the subject has a grant on something below that makes it visible."""
    params = [*_showing(subject, roles, now()), list(ids)]
    shown = {row[1] for row in fetch_all("default", SHOWS_BELOW, params)}
    return {each: each in shown for each in ids}


def _showing(subject: Subject, roles: Sequence[UUID], at: datetime) -> list[Any]:
    """Of the first grant below a place that shows something: the user's, else a role's."""
    return [subject.user_id, at, at, list(roles)]


def read_shown_paths(
    subject: Subject, roles: Sequence[UUID], ids: Sequence[str], *, by_parent: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Of each of the securables `ids` below which the subject has a grant that makes it visible: its path, and that of
    the object of one such grant. For objects of the types `by_parent` both are about their parent.
    """
    params = [*_showing(subject, roles, now()), list(by_parent), list(ids)]
    rows = fetch_all("default", SHOWN_PATHS, params)
    return {own_id: (path, below) for own_id, path, below in rows if below is not None}


def read_token_roles(subject: Subject) -> list[UUID]:
    """The roles that the subject's token brings."""
    return [
        as_uuid(row[0]) for row in fetch_all("default", TOKEN_ROLES, [subject.provider_id, list(subject.token_roles)])
    ]


def read_shown_children(
    subject: Subject, roles: Sequence[UUID], parent: ObjectRef, child_type: str, *, after: UUID, limit: int
) -> list[UUID]:
    """The first `limit` ids behind `after` of children of one type that a grant on them or below makes visible."""
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
    """All that `read_shown_children` would find, by `UUID.int`."""
    if rights_model().links(child_type, DOWN):
        ids = read_shown_children(subject, roles, parent, child_type, after=after, limit=EVERYTHING)
        return {each.int for each in ids}
    of_each = [now(), *_between(parent, child_type, after)]
    ((shown,),) = fetch_all("default", SHOWN_LEAVES, [subject.user_id, *of_each, list(roles), *of_each])
    return _numbers(shown, child_type)


def read_shown_leaves(
    subject: Subject, roles: Sequence[UUID], parents: Sequence[ObjectRef], child_type: str
) -> set[int]:
    """As `read_all_shown_children`, of several parents, for a type that has nothing below it."""
    of_each = [now(), f"{child_type}:", f"{child_type};"]
    params = [subject.user_id, *of_each, list(roles), *of_each, [securable_id(*each) for each in parents]]
    found: set[int] = set()
    for texts in fetch_all("default", SHOWN_LEAVES_OF_SEVERAL, params):
        for text in texts:
            found |= _numbers(text, child_type)
    return found


def _numbers(securables: str | None, child_type: str) -> set[int]:
    """The ids in a text of securables of one type, as `UUID.int`."""
    digits = (securables or "").replace(f"{child_type}:", "").replace("-", "")
    return {int(each, 16) for each in digits.split()}


def _between(parent: ObjectRef, child_type: str, after: UUID) -> list[str]:
    """What follows the parent's path in those of its children of one type behind `after`."""
    parent_id = securable_id(*parent)
    # "0" and ";" are the characters after the slash and the colon.
    return [parent_id, f"{child_type}:{after}0", parent_id, f"{child_type};"]
