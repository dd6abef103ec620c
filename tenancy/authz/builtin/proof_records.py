"""The relation rows of one question with whom each grant is to, for explanations: not of the hot paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from tenancy.authz.builtin.evaluation import Node
from tenancy.authz.builtin.records import Asker, read_held
from tenancy.authz.builtin.review_records import end_of
from tenancy.authz.builtin.role_records import read_graph_out_of, read_memberships_of
from tenancy.authz.builtin.statements import SHOWS
from tenancy.authz.grant_filters import is_holders, lasting
from tenancy.authz.privileges import ASSIGNEE
from tenancy.authz.role_ways import Entry, Membership, Way, earliest, moment
from tenancy.models import Grant, Securable
from tenancy.refs import securable_id


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant that counts for the asker: to them, or to the role of the last of `through`, memberships that lead there.

    `expires_at` None: it does not end.
    """

    privilege: str
    securable_id: str
    through: tuple[Membership, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rows:
    """`path` leads to the object; `ways` are the asker's roles with the shortest way into each.

    `grants` are those on the path by object and privilege, of several the one that came by the shortest way, and of
    those by ways of one length the one that lasts longest, memberships and grant together.
    """

    asker: Asker
    path: tuple[Node, ...]
    ways: Mapping[UUID, Way]
    grants: Mapping[tuple[str, str], GrantRow]

    def grant(self, privilege: str, place: int) -> GrantRow | None:
        """The grant of a privilege on the object at `place` of the path."""
        return self.grants.get((self.path[place].id, privilege))

    def shown_below(self, place: int) -> GrantRow | None:
        """A grant on something below the object at `place` of the path that makes it visible."""
        top = "".join(f"{node.id}/" for node in self.path[: place + 1])
        shown = [top, end_of(top), MOST_LOOKED_AT]
        params = [self.asker.user_id, now(), *shown, list(self.ways), now(), *shown, MOST_LOOKED_AT]
        return min(_told(fetch_all("default", _SHOWN_BELOW, params), self.ways), key=_distance, default=None)


MOST_LOOKED_AT: Final = 1_000
"""Grants below an object; the nearest of them is as good an explanation as another."""


_SHOWN: Final = f"""
SELECT g.path, g.id, g.privilege, g.securable_id, g.role_id, g.expires_at FROM tenancy_grant AS g
 WHERE {{whose}} AND (g.expires_at IS NULL OR g.expires_at > %s) AND {SHOWS} AND g.path ~>~ %s AND g.path ~<~ %s
 ORDER BY g.path USING ~<~, g.id LIMIT %s"""  # noqa: S608 - constants, as below

# Each arm by its own index: for an OR all would be gone through that the asker was ever granted.
_SHOWN_BELOW: Final = f"""
SELECT privilege, securable_id, role_id, expires_at FROM (
    SELECT * FROM ({_SHOWN.format(whose="g.user_id = %s")}) AS own
    UNION ALL
    SELECT * FROM ({_SHOWN.format(whose="g.role_id = ANY(%s)")}) AS of_roles) AS shown
 ORDER BY path USING ~<~, id LIMIT %s
"""  # noqa: S608


def read_rows(asker: Asker, own_id: str) -> Rows:
    """What `read_held` reads of the securable `own_id`, with whom it is granted to and the ways into their roles."""
    first = read_memberships_of(asker)
    ways = read_graph_out_of([each.role_id for each in first]).shortest_ways(first)
    path = read_held(asker, list(ways), [own_id]).paths[own_id]
    granted = Grant.objects.filter(lasting(now()), is_holders(asker, ways), securable_id__in=[node.id for node in path])
    grants: dict[tuple[str, str], GrantRow] = {}
    columns = granted.order_by("pk").values_list("privilege", "securable_id", "role_id", "expires_at")
    for row in sorted([*_told(columns[:MOST_LOOKED_AT], ways), *_assigned(path, ways)], key=_distance):
        grants.setdefault((row.securable_id, row.privilege), row)
    return Rows(asker, path, ways, grants)


def _told(rows: Iterable[Sequence[Any]], ways: Mapping[UUID, Way]) -> list[GrantRow]:
    """Of a privilege, a securable, a role, if it is to one, and an end, as either database has them."""
    return [
        GrantRow(
            privilege,
            own_id,
            () if role_id is None else ways[as_uuid(role_id)].memberships,
            None if end is None else as_datetime(end),
        )
        for privilege, own_id, role_id, end in rows
    ]


def _assigned(path: Iterable[Node], ways: Mapping[UUID, Way]) -> list[GrantRow]:
    """That the asker is in a role on the path: granted to whoever is a member.

    Who owns it has a grant that says so. A role that is assumed, or named by a token, is in itself alone.
    """
    found = []
    for role_id, way in ways.items():
        own_id = securable_id(Securable.Type.ROLE, role_id)
        if any(node.id == own_id for node in path):
            *before, last = way.memberships
            if last.entry is Entry.MEMBER:
                found.append(GrantRow(ASSIGNEE, own_id, tuple(before), last.expires_at))
            elif last.entry is not Entry.OWNER:
                found.append(GrantRow(ASSIGNEE, own_id, way.memberships, None))
    return found


def _distance(row: GrantRow) -> tuple[int, float]:
    """Of two that came by ways of one length, the one that lasts longer is the nearer, with the way to it."""
    return len(row.through), -moment(earliest(row.expires_at, *(each.expires_at for each in row.through)))
