"""The relation rows that decide, each question one statement.

What has expired does not count. All of it is read where it is written: a replica that lags would give back what was
taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from icekeeper.kernel.http.paging import EVERYTHING
from tenancy.actor import Actor
from tenancy.authz.builtin.evaluation import Node
from tenancy.authz.builtin.statements import (
    FIRST_SHOWN_LEAVES,
    HELD,
    HELD_ON_ONE,
    HELD_ON_ONE_AND_BELOW,
    ROLES,
    SHOWN_BRANCHES,
    SHOWN_LEAVES,
    SHOWN_LEAVES_OF_SEVERAL,
    SHOWN_PATHS,
    SHOWS_BELOW,
    TOKEN_ROLES,
)
from tenancy.authz.model import DOWN, MANAGED_ACCESS, rights_model
from tenancy.authz.privileges import ASSIGNEE
from tenancy.models import Securable
from tenancy.refs import ObjectRef, securable_id


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose rights count: those of a user with the roles that the token brings, or of the one role that is assumed."""

    user_id: str | None
    assumed_role: UUID | None
    provider_id: str
    token_roles: tuple[str, ...]

    @classmethod
    def of(cls, actor: Actor) -> Asker:
        if actor.assumed_role is not None:
            return cls(None, actor.assumed_role, "", ())
        identity = actor.identity
        if identity is None or not identity.roles:
            return cls(actor.user_id, None, "", ())
        return cls(actor.user_id, None, identity.provider_id, tuple(r for r in identity.roles if "\x00" not in r))


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles of an asker; `expires_at` is when the first of the memberships behind them ends."""

    ids: tuple[UUID, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Held:
    """The paths to the objects that were asked about, by securable id; whether something visible lies below those of
    which that was asked, too; and when the first of what is held ends."""

    paths: Mapping[str, tuple[Node, ...]]
    shows_below: Mapping[str, bool]
    expires_at: datetime | None


def read_roles(asker: Asker, *, at: datetime | None = None) -> Roles:
    """The roles of an asker now, or as they will be at a moment to come."""
    at, user_id = at or now(), asker.user_id
    if user_id is None and asker.assumed_role is None:
        return Roles((), None)
    begin = [at, at, asker.assumed_role, asker.provider_id, list(asker.token_roles), user_id, at, user_id, at]
    rows = fetch_all("default", ROLES, [*begin, at, user_id, at, user_id])
    ends = [as_datetime(end) for _, end in rows if end is not None]
    return Roles(tuple(as_uuid(role_id) for role_id, _ in rows if role_id is not None), min(ends, default=None))


def read_held(
    asker: Asker,
    roles: Sequence[UUID],
    ids: Sequence[str],
    *,
    below: Sequence[str] = (),
    at: datetime | None = None,
) -> Held:
    """What the asker holds on the securables `ids` and above them, now or at a moment to come.

    Of those that are in `below`, too, it is found out whether something below is visible. Of a securable that there is
    not, the path is its own node alone, on which nothing is held.
    """
    at = at or now()
    mine, showing = [asker.user_id, list(roles), at], _showing(asker, roles, at)
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


def read_shows_below(asker: Asker, roles: Sequence[UUID], ids: Sequence[str]) -> dict[str, bool]:
    """Of each of the securables `ids`: whether the asker has a grant on something below that makes it visible."""
    params = [*_showing(asker, roles, now()), list(ids)]
    shown = {row[1] for row in fetch_all("default", SHOWS_BELOW, params)}
    return {each: each in shown for each in ids}


def _showing(asker: Asker, roles: Sequence[UUID], at: datetime) -> list[Any]:
    """Of the first grant below a place that shows something: the user's, else a role's."""
    return [asker.user_id, at, at, list(roles)]


def read_shown_paths(
    asker: Asker, roles: Sequence[UUID], ids: Sequence[str], *, by_parent: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Of each of the securables `ids` below which the asker has a grant that makes it visible: its path, and that of
    the object of one such grant. For objects of the types `by_parent` both are about their parent.
    """
    params = [*_showing(asker, roles, now()), list(by_parent), list(ids)]
    rows = fetch_all("default", SHOWN_PATHS, params)
    return {own_id: (path, below) for own_id, path, below in rows if below is not None}


def read_token_roles(asker: Asker) -> list[UUID]:
    """The roles that the asker's token brings."""
    return [as_uuid(row[0]) for row in fetch_all("default", TOKEN_ROLES, [asker.provider_id, list(asker.token_roles)])]


def read_shown_children(
    asker: Asker, roles: Sequence[UUID], parent: ObjectRef, child_type: str, *, after: UUID, limit: int
) -> list[UUID]:
    """The first `limit` ids behind `after` of children of one type that a grant on them or below makes visible."""
    if rights_model().links(child_type, DOWN):
        start = f"{child_type}:{after}"
        each = [len(start), now(), f"{child_type};"]
        params = [securable_id(*parent), asker.user_id, list(roles), start, *each, *each, limit, limit]
        rows = fetch_all("default", SHOWN_BRANCHES, params)
    else:
        of_each = [now(), *_between(parent, child_type, after), limit]
        rows = fetch_all("default", FIRST_SHOWN_LEAVES, [asker.user_id, *of_each, list(roles), *of_each, limit])
    return [as_uuid(row[0]) for row in rows]


def read_all_shown_children(
    asker: Asker, roles: Sequence[UUID], parent: ObjectRef, child_type: str, *, after: UUID
) -> set[int]:
    """All that `read_shown_children` would find, by `UUID.int`."""
    if rights_model().links(child_type, DOWN):
        ids = read_shown_children(asker, roles, parent, child_type, after=after, limit=EVERYTHING)
        return {each.int for each in ids}
    of_each = [now(), *_between(parent, child_type, after)]
    ((shown,),) = fetch_all("default", SHOWN_LEAVES, [asker.user_id, *of_each, list(roles), *of_each])
    return _numbers(shown, child_type)


def read_shown_leaves(asker: Asker, roles: Sequence[UUID], parents: Sequence[ObjectRef], child_type: str) -> set[int]:
    """As `read_all_shown_children`, of several parents, for a type that has nothing below it."""
    of_each = [now(), f"{child_type}:", f"{child_type};"]
    params = [asker.user_id, *of_each, list(roles), *of_each, [securable_id(*each) for each in parents]]
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
