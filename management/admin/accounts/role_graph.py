"""The graph of the roles around a role: where its boxes and lines are. The lists next to it have the same as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tenancy.selectors.role_trees import RoleTree

BOX_WIDTH: Final = 168
BOX_HEIGHT: Final = 34
COLUMN_WIDTH: Final = 224
ROW_HEIGHT: Final = 46
MARGIN: Final = 8
MAX_STEPS: Final = 4
"""Columns on each side of the role."""
MAX_ROWS: Final = 8
"""Boxes of a column; the last one is the number of the others."""
MAX_LABEL_LENGTH: Final = 20
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class GraphBox:
    """A role, or the number of those that are not drawn (`more`). `x` and `y` are its upper left corner."""

    x: int
    y: int
    label: str = ""
    name: str = ""
    role_id: UUID | None = None
    is_chosen: bool = False
    more: int = 0


@dataclass(frozen=True, slots=True)
class RoleGraphView:
    width: int
    height: int
    boxes: Sequence[GraphBox]
    lines: Sequence[str]
    """Paths from a role to one that it is a member of."""
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


def draw_role_graph(role_id: UUID, name: str, *, below: RoleTree, above: RoleTree) -> RoleGraphView | None:
    """Return the graph from the roles in the role, on the left, to those it is in; None for a role without either."""
    if not below.roles and not above.roles:
        return None
    names = {each.id: each.name for each in (*below.roles, *above.roles)} | {role_id: name}
    inwards, outwards = _edges(role_id, below), _edges(role_id, above)
    left, right = _columns(role_id, inwards, names), _columns(role_id, outwards, names)
    columns = [*reversed(left), [role_id], *right]
    height = max(min(len(each), MAX_ROWS) for each in columns)
    corners: dict[UUID, tuple[int, int]] = {}
    boxes: list[GraphBox] = []
    for number, column in enumerate(columns):
        rows = min(len(column), MAX_ROWS)
        x, top = MARGIN + number * COLUMN_WIDTH, MARGIN + (height - rows) * ROW_HEIGHT // 2
        shown = column if len(column) <= MAX_ROWS else column[: MAX_ROWS - 1]
        for row, each in enumerate(shown):
            corners[each] = x, top + row * ROW_HEIGHT
            boxes.append(GraphBox(*corners[each], _shorten(names[each]), names[each], each, each == role_id))
        if len(shown) < len(column):
            boxes.append(GraphBox(x, top + len(shown) * ROW_HEIGHT, more=len(column) - len(shown)))
    memberships = [(member, outer) for outer, member in inwards] + outwards
    lines = [
        _line(corners[member], corners[outer])
        for member, outer in memberships
        if member in corners and outer in corners
    ]
    width = 2 * MARGIN + (len(columns) - 1) * COLUMN_WIDTH + BOX_WIDTH
    return RoleGraphView(width, 2 * MARGIN + height * ROW_HEIGHT - (ROW_HEIGHT - BOX_HEIGHT), boxes, lines)


def _edges(root: UUID, tree: RoleTree) -> list[tuple[UUID, UUID]]:
    """Return the steps of a tree away from its root, each once."""
    path, found = [root], dict[tuple[UUID, UUID], None]()
    for each in tree.roles:
        del path[each.depth :]
        found[path[-1], each.id] = None
        path.append(each.id)
    return list(found)


def _columns(root: UUID, edges: Sequence[tuple[UUID, UUID]], names: Mapping[UUID, str]) -> list[list[UUID]]:
    """Return the roles by their distance from the root, at most `MAX_STEPS`, each column near its neighbours."""
    distances = _distances(root, edges)
    positions: dict[UUID, float] = {root: 0}
    columns: list[list[UUID]] = []
    for distance in range(1, min(MAX_STEPS, max(distances.values(), default=0)) + 1):
        near: dict[UUID, list[float]] = {each: [] for each, steps in distances.items() if steps == distance}
        for one, other in edges:
            if other in near and one in positions:
                near[other].append(positions[one])
        column = sorted(near, key=lambda each: (_mean(near[each]), names[each].casefold(), each))
        positions |= {each: float(number) for number, each in enumerate(column)}
        columns.append(column)
    return columns


def _distances(root: UUID, edges: Sequence[tuple[UUID, UUID]]) -> dict[UUID, int]:
    """Return by role the longest way to the root; the shortest one if roles are in each other in a circle."""
    roles = {each for edge in edges for each in edge} - {root}
    found = dict.fromkeys(roles, 1) | {root: 0}
    for _ in roles:
        changed = False
        for one, other in edges:
            if other != root and found[other] < found[one] + 1:
                found[other], changed = found[one] + 1, True
        if not changed:
            return {each: steps for each, steps in found.items() if each != root}
    shortest = {root: 0}
    waiting = [root]
    for role_id in waiting:
        for one, other in edges:
            if one == role_id and other not in shortest:
                shortest[other] = shortest[one] + 1
                waiting.append(other)
    return {each: steps for each, steps in shortest.items() if each != root}


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.0


def _line(member: tuple[int, int], outer: tuple[int, int]) -> str:
    """Return the path from the right side of a box to the left side of another."""
    x, y = member[0] + BOX_WIDTH, member[1] + BOX_HEIGHT // 2
    end_x, end_y = outer[0], outer[1] + BOX_HEIGHT // 2
    bend = (COLUMN_WIDTH - BOX_WIDTH) // 2
    return f"M{x} {y}C{x + bend} {y} {end_x - bend} {end_y} {end_x} {end_y}"


def _shorten(name: str) -> str:
    return name if len(name) <= MAX_LABEL_LENGTH else name[: MAX_LABEL_LENGTH - 1].rstrip() + _ELLIPSIS
