"""Paths to a role: the shortest and the one with the latest expiration, against a search of all paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tenancy.authz.role_paths import NEVER, Edge, Entry, Membership, RoleGraph, RolePath, earliest_expiry

ROLES = [UUID(int=number) for number in range(6)]
FAR = datetime(2101, 1, 1, tzinfo=UTC)

memberships = st.builds(
    Membership,
    st.sampled_from(ROLES),
    st.sampled_from([Entry.MEMBER, Entry.OWNER]),
    st.sampled_from([None, *(FAR + timedelta(days=days) for days in range(4))]),
)
edges = st.lists(st.builds(Edge, st.sampled_from(ROLES), memberships), max_size=14)


def all_ways(first: Sequence[Membership], graph: Sequence[Edge]) -> Iterator[tuple[Membership, ...]]:
    """Yield all paths that visit no role twice."""
    waiting = [(each,) for each in first]
    while waiting:
        way = waiting.pop()
        yield way
        been = {each.role_id for each in way}
        waiting += [
            (*way, edge.membership)
            for edge in graph
            if edge.inner == way[-1].role_id and edge.membership.role_id not in been
        ]


def end(way: Sequence[Membership]) -> datetime:
    return earliest_expiry(*(each.expires_at for each in way)) or NEVER


@given(first=st.lists(memberships, max_size=4), graph=edges)
def test_of_all_ways(first: list[Membership], graph: list[Edge]) -> None:
    into: dict[UUID, list[tuple[Membership, ...]]] = {}
    for way in all_ways(first, graph):
        into.setdefault(way[-1].role_id, []).append(way)
    shortest = RoleGraph(graph).shortest_paths(first)
    lasting = RoleGraph(graph).longest_lasting_paths(first)
    assert shortest.keys() == lasting.keys() == into.keys()
    for role_id, ways in into.items():
        for reported in (shortest[role_id], lasting[role_id]):
            assert reported.memberships in ways
            assert reported.expires_at == earliest_expiry(*(each.expires_at for each in reported.memberships))
        length = min(map(len, ways))
        assert len(shortest[role_id].memberships) == length
        assert end(shortest[role_id].memberships) == max(end(way) for way in ways if len(way) == length)
        assert end(lasting[role_id].memberships) == max(map(end, ways))


@given(first=st.lists(memberships, max_size=4, unique_by=lambda each: (each.role_id, each.entry)), graph=edges)
def test_the_order_in_which_it_is_read_does_not_matter(first: list[Membership], graph: list[Edge]) -> None:
    by_location = {(each.inner, each.membership.role_id, each.membership.entry): each for each in graph}
    unique = list(by_location.values())
    for way in ("shortest_paths", "longest_lasting_paths"):
        found = getattr(RoleGraph(unique), way)(first)
        assert getattr(RoleGraph(unique[::-1]), way)(first[::-1]) == found


def test_the_two_differ() -> None:
    inner, middle, outer = ROLES[:3]
    soon, late = FAR, FAR + timedelta(days=1)
    direct = Membership(outer, Entry.MEMBER, soon)
    graph = RoleGraph(
        [Edge(inner, Membership(middle, Entry.OWNER)), Edge(middle, Membership(outer, Entry.MEMBER, late))]
    )
    first = [direct, Membership(inner, Entry.TOKEN)]
    assert graph.shortest_paths(first)[outer] == RolePath((direct,), soon)
    reported = graph.longest_lasting_paths(first)[outer]
    assert (reported.through, reported.expires_at) == ((inner, middle, outer), late)
    assert [each.entry for each in reported.memberships] == [Entry.TOKEN, Entry.OWNER, Entry.MEMBER]
    assert graph.inner_roles == {inner, middle}
