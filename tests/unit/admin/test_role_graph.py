"""Where the boxes and lines of the graph of roles are."""

from __future__ import annotations

from uuid import UUID

from management.admin.accounts.role_graph import COLUMN_WIDTH, MARGIN, MAX_ROWS, RoleGraphView, draw_role_graph
from tenancy.authz.role_paths import Entry
from tenancy.selectors.role_trees import RoleTree, TreeRole

NOTHING = RoleTree((), is_complete=True)


def role_id(name: str) -> UUID:
    return UUID(bytes=name.encode().ljust(16, b"\0")[:16])


def tree(*rows: tuple[str, int]) -> RoleTree:
    """Return a tree of roles by name and depth."""
    return RoleTree(
        tuple(TreeRole(role_id(name), name, depth, Entry.MEMBER, is_repeated=False) for name, depth in rows),
        is_complete=True,
    )


def draw(below: RoleTree, above: RoleTree) -> RoleGraphView:
    graph = draw_role_graph(role_id("a"), "a", below=below, above=above)
    assert graph is not None
    return graph


def columns(graph: RoleGraphView) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for box in sorted(graph.boxes, key=lambda each: each.y):
        found.setdefault((box.x - MARGIN) // COLUMN_WIDTH, []).append(box.name or f"+{box.more}")
    return [found[number] for number in sorted(found)]


def test_a_role_is_right_of_all_its_members() -> None:
    """`d` is in `c`, and both are in `b`: the longest way decides."""
    graph = draw(tree(("b", 1), ("c", 2), ("d", 3), ("d", 2)), tree(("x", 1), ("z", 2), ("y", 1), ("z", 2)))
    assert columns(graph) == [["d"], ["c"], ["b"], ["a"], ["x", "y"], ["z"]]
    assert len(graph.lines) == 8
    assert [box.name for box in graph.boxes if box.is_chosen] == ["a"]
    assert max(box.x for box in graph.boxes) + graph.box_width < graph.width
    assert max(box.y for box in graph.boxes) + graph.box_height < graph.height


def test_roles_in_a_circle() -> None:
    graph = draw(tree(("b", 1), ("c", 2), ("b", 3), ("a", 3)), NOTHING)
    assert columns(graph) == [["c"], ["b"], ["a"]]
    assert len(graph.lines) == 4


def test_a_column_is_bounded() -> None:
    graph = draw(NOTHING, tree(*((f"r{number:03}", 1) for number in range(50))))
    assert columns(graph)[1] == [*(f"r{number:03}" for number in range(MAX_ROWS - 1)), f"+{50 - MAX_ROWS + 1}"]
    assert len(graph.lines) == MAX_ROWS - 1
    assert len(columns(draw(tree(*((f"r{number}", number) for number in range(1, 30))), NOTHING))) == 5


def test_names_are_shortened_and_a_role_alone_has_no_graph() -> None:
    graph = draw(tree(("n" * 255, 1)), NOTHING)
    assert max(len(box.label) for box in graph.boxes) == 20
    assert draw_role_graph(role_id("a"), "a", below=NOTHING, above=NOTHING) is None
