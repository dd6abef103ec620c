"""The relation rows that decide, each question one statement.

What has expired does not count. All of it is read where it is written: a replica that lags would give back what was
taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.sql import Row, as_uuid, fetch_all
from tenancy.actor import Actor
from tenancy.authz.builtin.evaluation import Node, showing_privileges
from tenancy.authz.builtin.statements import HELD, HELD_ON_ONE, SHOWN_BRANCHES, SHOWN_LEAVES, SHOWS_BELOW
from tenancy.authz.model import DOWN, MANAGED_ACCESS, rights_model
from tenancy.authz.securables import Ref, securable_id


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
class Held:
    """The paths to the objects that were asked about, by securable id; whether something visible lies below those of
    which that was asked, too; the asker's roles; and for how long it holds."""

    paths: Mapping[str, tuple[Node, ...]]
    shows_below: Mapping[str, bool]
    role_ids: tuple[UUID, ...]
    expires_at: datetime | None


def read_held(asker: Asker, ids: Sequence[str], *, roles: tuple[UUID, ...] | None, below: Sequence[str] = ()) -> Held:
    """What the asker holds on the securables `ids` and above them; `roles` are the asker's if they are known.

    Of those that are in `below`, too, it is found out whether something below is visible. Of a securable that there is
    not, the path is its own node alone, on which nothing is held.
    """
    at = now()
    if roles is not None and len(ids) == 1 and not below:
        rows = fetch_all("default", HELD_ON_ONE, [asker.user_id, list(roles), at, ids[0]])
    else:
        objects = [*_acting(asker, roles, at), list(ids)] if roles is None else [list(ids)]
        held = [*_mine(asker, roles), at]
        shows = [list(below), *_mine(asker, roles), _PRIVILEGES, at, _TYPES]
        ends = [at, asker.user_id, at, asker.user_id] if roles is None else []
        rows = fetch_all("default", HELD[roles is not None], [*objects, *held, *shows, *ends])
    return _held(ids, rows, below, roles)


def _held(ids: Sequence[str], rows: Sequence[Row], below: Sequence[str], roles: tuple[UUID, ...] | None) -> Held:
    parents: dict[str, str | None] = {}
    held: dict[str, set[str]] = {}
    ends: list[datetime] = []
    found_roles: list[UUID] = []
    shows = dict.fromkeys(below, False)
    for kind, own_id, parent_id, managed, privilege, expires_at in rows:
        if kind == "object":
            parents[own_id] = parent_id
            on_it = held.setdefault(own_id, {MANAGED_ACCESS} if managed else set())
            if privilege is not None:
                on_it.add(privilege)
        elif kind == "role":
            found_roles.append(as_uuid(own_id))
        elif kind == "shows":
            shows[own_id] = True
        if expires_at is not None:
            ends.append(_datetime(expires_at))
    nodes = {own_id: Node(own_id.partition(":")[0], own_id, frozenset(each)) for own_id, each in held.items()}
    paths: dict[str, tuple[Node, ...]] = {}
    for own_id in ids:
        path: list[Node] = []
        here: str | None = own_id if own_id in nodes else None
        while here is not None:
            path.append(nodes[here])
            here = parents[here]
        paths[own_id] = tuple(reversed(path)) or (Node(own_id.partition(":")[0], own_id, frozenset()),)
    return Held(paths, shows, tuple(found_roles) if roles is None else roles, min(ends, default=None))


def read_shows_below(asker: Asker, ids: Sequence[str], *, roles: tuple[UUID, ...] | None) -> dict[str, bool]:
    """Of each of the securables `ids`: whether the asker has a grant on something below that makes it visible."""
    at = now()
    params = [list(ids), *_mine(asker, roles), _PRIVILEGES, at, _TYPES]
    rows = fetch_all("default", SHOWS_BELOW[roles is not None], [*_acting(asker, roles, at), *params])
    shown = {row[1] for row in rows}
    return {each: each in shown for each in ids}


def read_shown_children(
    asker: Asker, parent: Ref, child_type: str, *, after: str, limit: int, roles: tuple[UUID, ...] | None
) -> list[str]:
    """The object ids of the children of one type that a grant on them or below makes visible, in their order."""
    at, parent_id = now(), securable_id(*parent)
    params: list[Any] = [*_acting(asker, roles, at), parent_id, child_type, after]
    is_leaf = not rights_model().links(child_type, DOWN)
    if is_leaf:
        by_role = [] if roles is None else [list(roles)]
        params += [asker.user_id, _PRIVILEGES, at, *by_role, _PRIVILEGES, at, limit]
    else:
        params += [parent_id, *_mine(asker, roles), _PRIVILEGES, at, _TYPES, limit]
    statements = SHOWN_LEAVES if is_leaf else SHOWN_BRANCHES
    return [row[0] for row in fetch_all("default", statements[roles is not None], params)]


def _acting(asker: Asker, roles: tuple[UUID, ...] | None, at: datetime) -> list[Any]:
    """What finds the roles of the asker, unless they are known."""
    if roles is not None:
        return []
    user_id = asker.user_id
    return [at, at, asker.assumed_role, asker.provider_id, list(asker.token_roles), user_id, at, user_id, at]


def _mine(asker: Asker, roles: tuple[UUID, ...] | None) -> list[Any]:
    """What tells the grants of the asker."""
    return [asker.user_id] if roles is None else [asker.user_id, list(roles)]


_TYPES: Final = sorted(showing_privileges())
_PRIVILEGES: Final = sorted(frozenset().union(*showing_privileges().values()))
"""What shows itself, and so whatever it lies in: types of objects, and the privileges on them that do."""


def _datetime(value: Any) -> datetime:
    """SQLite keeps a text, in UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=now().tzinfo)
    return datetime.fromisoformat(value).replace(tzinfo=now().tzinfo)
