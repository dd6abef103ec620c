"""Draw `docs/authorization-model.svg` from the authorization model, or check that it is up to date.

    .venv/bin/python -m scripts.draw_rights [--check]

Each type of object is a card below its parent type. Types with the same privileges share a card. In a card each
privilege is a box; an arrow leads to a privilege that it implies on the same object. Arrows that follow from others are
omitted. The note in a box lists the privileges on the parent that imply it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from tenancy.authz.model import DOWN, UP, Computed, Exclusion, Linked, Model, parts_of, rights_model

FILE: Final = Path(__file__).resolve().parent.parent / "docs" / "authorization-model.svg"

CHARACTER, NOTE_CHARACTER = 7.9, 6.7
"""Widths, in a monospaced font of 13 and of 11."""

BOX_HEIGHT, NOTED_HEIGHT, BEND = 26.0, 42.0, 14.0
ROW_GAP, COLUMN_GAP, CARD_GAP, MARGIN, TITLE = 34.0, 18.0, 56.0, 16.0, 34.0
LEGEND_HEIGHT = 96.0

Edge = tuple[str, str]


@dataclass(frozen=True)
class Implication:
    """The privilege `source` implies `target` on the same object."""

    source: str
    target: str
    is_conditional: bool
    """Does not apply under managed access."""


@dataclass
class Box:
    """A privilege, or with an empty label the gap in a row for a long arrow. `x`, `y` is its upper left corner."""

    label: str
    note: str = ""
    x: float = 0
    y: float = 0

    @property
    def width(self) -> float:
        if not self.label:
            return BEND
        return max(len(self.label) * CHARACTER, len(self.note) * NOTE_CHARACTER) + 22

    @property
    def height(self) -> float:
        return NOTED_HEIGHT if self.note else BOX_HEIGHT

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass
class Card:
    """A type of object, or several with the same privileges. `paths` are arrows through named boxes."""

    types: tuple[str, ...]
    rows: list[list[Box]]
    paths: list[tuple[tuple[str, ...], bool]]
    depth: int
    """The number of types above it."""
    parents: tuple[str, ...]
    shows_what_it_lies_in: bool
    boxes: dict[str, Box] = field(default_factory=dict)
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0

    @property
    def title(self) -> str:
        return " · ".join(self.types)


# --- what is drawn -----------------------------------------------------------------------------------------------


def cards_of(model: Model) -> list[Card]:
    """Return one card for each set of types with the same privileges; types without privileges have none."""
    alike: dict[object, list[str]] = {}
    for name, relations in model.types.items():
        granted = model.privileges(name)
        if granted:
            same = tuple((each, relations[each]) for each in granted), model.links(name, UP)
            alike.setdefault(same, []).append(name)
    return [_card(model, tuple(types)) for types in alike.values()]


def implications(model: Model, object_type: str) -> list[Implication]:
    """Return the implications of a type, without those that follow from others."""
    granted = model.privileges(object_type)
    found: list[Implication] = []
    for target in granted:
        expression = model.types[object_type][target]
        conditional = [part.base for part in parts_of(expression) if isinstance(part, Exclusion)]
        found += [
            Implication(part.relation, target, part in conditional)
            for part in parts_of(expression)
            if isinstance(part, Computed) and part.relation in granted
        ]
    direct = {(each.source, each.target) for each in found}
    return [
        each for each in found if not _is_reachable(each.source, each.target, direct - {(each.source, each.target)})
    ]


def from_above(model: Model, object_type: str, privilege: str) -> list[str]:
    """Return the privileges on the parent that imply a privilege."""
    parts = list(parts_of(model.types[object_type][privilege]))
    excluded = [part.minus for part in parts if isinstance(part, Exclusion)]
    return [part.relation for part in parts if isinstance(part, Linked) and part.link == UP and part not in excluded]


def _is_reachable(source: str, target: str, edges: set[Edge]) -> bool:
    reached = [source]
    for each in reached:
        reached += [after for before, after in edges if before == each and after not in reached]
    return target in reached


def _depth(model: Model, object_type: str) -> int:
    above = [each for each in model.links(object_type, UP) if each != object_type]
    return 1 + max(_depth(model, each) for each in above) if above else 0


def _card(model: Model, types: tuple[str, ...]) -> Card:
    name = types[0]
    arrows = implications(model, name)
    rank: dict[str, int] = dict.fromkeys(model.privileges(name), 0)
    for _ in rank:  # enough rounds for any order
        for each in arrows:
            rank[each.target] = max(rank[each.target], rank[each.source] + 1)
    boxes = {}
    for privilege in rank:
        above = from_above(model, name, privilege)
        boxes[privilege] = Box(privilege, f"↓ {', '.join(above)}" if above else "")
    rows: list[list[Box]] = [[] for _ in range(max(rank.values()) + 1)]
    for privilege, level in rank.items():
        rows[level].append(boxes[privilege])
    paths = []
    for each in arrows:
        passed = []
        for level in range(rank[each.source] + 1, rank[each.target]):
            key = f"{each.source} {each.target} {level}"
            boxes[key] = Box("")
            rows[level].append(boxes[key])
            passed.append(key)
        paths.append(((each.source, *passed, each.target), each.is_conditional))
    parents = model.links(name, UP)
    shows = any(name in model.links(each, DOWN) for each in parents)
    return Card(types, rows, paths, _depth(model, name), parents, shows, boxes)


# --- where it lies -----------------------------------------------------------------------------------------------


def lay_out(cards: Sequence[Card]) -> tuple[float, float]:
    """Set the coordinates of every box and card; return the size of the drawing."""
    for card in cards:
        _lay_out_card(card)
    levels = [[card for card in cards if card.depth == depth] for depth in range(max(c.depth for c in cards) + 1)]
    y = MARGIN
    for level in levels:
        _lay_out_level(level, cards, y)
        y += max(card.height for card in level) + CARD_GAP
    left = min(card.x for card in cards) - MARGIN
    width = max(card.x + card.width for card in cards) + MARGIN - left
    for card in cards:
        card.x -= left
        for box in card.boxes.values():
            box.x, box.y = box.x + card.x, box.y + card.y
    return width, y - CARD_GAP + LEGEND_HEIGHT


def _lay_out_level(level: list[Card], cards: Sequence[Card], y: float) -> None:
    """Put the card with the most descendants in the middle, at x = 0."""
    *sides, main = sorted(level, key=lambda card: _below(card, cards))
    main.x, main.y = -main.width / 2, y
    left, right = main.x, -main.x
    for number, card in enumerate(sides):
        card.y = y
        if number % 2:
            left -= CARD_GAP + card.width
            card.x = left
        else:
            card.x = right + CARD_GAP
            right = card.x + card.width


def _below(card: Card, cards: Sequence[Card]) -> int:
    return sum(1 + _below(each, cards) for each in cards if each is not card and set(each.parents) & set(card.types))


def _lay_out_card(card: Card) -> None:
    leads: dict[int, list[Box]] = {id(box): [] for box in card.boxes.values()}
    for path, _ in card.paths:
        for before, after in pairwise(path):
            leads[id(card.boxes[after])].append(card.boxes[before])
    inner = max(_row_width(row) for row in card.rows)
    card.width = max(inner, len(card.title) * CHARACTER) + 2 * MARGIN
    sources = {path[0] for path, _ in card.paths}
    card.rows[0].sort(key=lambda box: box.label not in sources)  # privileges that imply nothing are at the right
    y = TITLE + MARGIN
    for row in card.rows:
        row[:] = _ordered(card, row, leads, inner)
        height = max(box.height for box in row)
        for box in row:
            box.y = y + (height - box.height) / 2
        y += height + ROW_GAP
    card.height = y - ROW_GAP + MARGIN


def _row_width(row: Sequence[Box]) -> float:
    return sum(box.width for box in row) + COLUMN_GAP * (len(row) - 1)


def _ordered(card: Card, row: list[Box], leads: Mapping[int, Sequence[Box]], inner: float) -> list[Box]:
    """Return the row in the order in which the arrows into it are shortest, with the coordinates of its boxes set."""

    def length(order: Sequence[Box]) -> float:
        _lay_out_row(card, order, inner)
        return sum(abs(box.middle - before.middle) for box in order for before in leads[id(box)])

    best = min(permutations(row), key=length)
    _lay_out_row(card, best, inner)
    return list(best)


def _lay_out_row(card: Card, row: Sequence[Box], inner: float) -> None:
    x = (card.width - inner) / 2 + (inner - _row_width(row)) / 2
    for box in row:
        box.x = x
        x += box.width + COLUMN_GAP


# --- how it looks ------------------------------------------------------------------------------------------------

STYLE: Final = """
  text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1c2733; }
  .title { font-weight: bold; font-size: 14px; }
  .note, .legend { font-size: 11px; fill: #51606e; }
  .card { fill: #f5f7f9; stroke: #b8c4cf; }
  .box { fill: #ffffff; stroke: #2f6f9f; }
  .implies { fill: none; stroke: #2f6f9f; stroke-width: 1.4; }
  .conditional { stroke-dasharray: 5 4; }
  .parent { fill: none; stroke: #7b8894; stroke-width: 5; }
  .shows { fill: none; stroke: #b0702a; stroke-width: 1.6; stroke-dasharray: 2 4; }
"""


def draw(model: Model) -> str:
    """Return the content of the file."""
    cards = cards_of(model)
    width, height = lay_out(cards)
    size = f'width="{width:.0f}" height="{height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" {size} role="img">',
        "<!-- Generated by `make docs` from tenancy/authz/model.fga: edit there. -->",
        "<title>Privileges and the privileges that they imply</title>",
        f"<style>{STYLE}</style>",
        "<defs>",
        _marker("arrow", "#2f6f9f", 7),
        _marker("wide", "#7b8894", 3.2),
        _marker("dotted", "#b0702a", 7),
        "</defs>",
        f'<rect {size} fill="#ffffff"/>',
    ]
    for card in cards:
        lines += _links(card, cards)
    for card in cards:
        lines += _drawn(card)
    return "\n".join([*lines, *_legend(MARGIN, height - LEGEND_HEIGHT + 26), "</svg>", ""])


def _marker(name: str, colour: str, size: float) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size}" markerHeight="{size}"'
        f' orient="auto"><path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'
    )


def _links(card: Card, cards: Sequence[Card]) -> Iterator[str]:
    """Draw the lines from parent types to the card, and to itself if objects of the type can be nested."""
    for above in cards:
        if above is card or not set(card.parents) & set(above.types):
            continue
        middle = card.x + card.width / 2
        start = min(max(middle, above.x + 40), above.x + above.width - 40)
        top, end = above.y + above.height, card.y
        yield _path("parent", "wide", (start, top), (middle, end - 4))
        if card.shows_what_it_lies_in:
            yield _path("shows", "dotted", (middle + 22, end), (start + 22, top + 2))
    if set(card.parents) & set(card.types):
        x, y = card.x + card.width, card.y + card.height / 2
        yield f'<path class="parent" marker-end="url(#wide)" d="M{x:.1f} {y - 40:.1f}h34v80h-28"/>'
        yield _text("legend", x + 44, y + 4, "any depth")


def _drawn(card: Card) -> Iterator[str]:
    yield (
        f'<rect class="card" x="{card.x:.1f}" y="{card.y:.1f}" width="{card.width:.1f}" height="{card.height:.1f}"'
        ' rx="8"/>'
    )
    yield _text("title", card.x + MARGIN, card.y + 23, card.title)
    for path, is_conditional in card.paths:
        points: list[tuple[float, float]] = []
        for index, name in enumerate(path):
            box = card.boxes[name]
            points += [(box.middle, box.y)] if index else []
            points += [(box.middle, box.y + box.height)] if index < len(path) - 1 else []
        yield _path("implies conditional" if is_conditional else "implies", "arrow", *points)
    for box in card.boxes.values():
        if not box.label:
            continue
        yield (
            f'<rect class="box" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
            ' rx="4"/>'
        )
        yield _text("name", box.middle, box.y + 17, box.label, anchor="middle")
        if box.note:
            yield _text("note", box.middle, box.y + 34, box.note, anchor="middle")


def _path(kind: str, marker: str, *points: tuple[float, float]) -> str:
    drawn = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        half = (y + to_y) / 2
        drawn += f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}"
    return f'<path class="{kind}" marker-end="url(#{marker})" d="{drawn}"/>'


def _text(kind: str, x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _legend(x: float, y: float) -> Iterator[str]:
    rows = (
        ("implies", "arrow", "implies, on the same object"),
        ("implies conditional", "arrow", "the same, but not under managed access"),
        ("parent", "wide", "parent type; ↓ x in a box: x on the parent implies this privilege"),
        ("shows", "dotted", "an object is visible if something in it is"),
    )
    for number, (kind, marker, text) in enumerate(rows):
        at = y + number * 20
        yield f'<path class="{kind}" marker-end="url(#{marker})" d="M{x:.1f} {at - 4:.1f}h44"/>'
        yield _text("legend", x + 58, at, text)


def main(arguments: Sequence[str]) -> None:
    drawn = draw(rights_model())
    if "--check" not in arguments:
        FILE.write_text(drawn)
        print(f"Wrote {FILE.name}")
    elif not FILE.exists() or FILE.read_text() != drawn:
        sys.exit(f"{FILE.name} is out of date: run `make docs`")


if __name__ == "__main__":
    main(sys.argv[1:])
