"""`docs/authorization-model.svg` matches the authorization model, and its elements do not overlap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from scripts.draw_rights import FILE, Box, Card, cards_of, draw, from_above, implications, lay_out
from tenancy.authz.model import FILE as MODEL_FILE
from tenancy.authz.model import Computed, parts_of, read_model, rights_model

MODEL = rights_model()
TYPES = [name for name in MODEL.types if MODEL.privileges(name)]


@pytest.fixture
def cards() -> list[Card]:
    cards = cards_of(MODEL)
    lay_out(cards)
    return cards


def followed(source: str, edges: set[tuple[str, str]]) -> set[str]:
    reached = {source}
    while more := {after for before, after in edges if before in reached} - reached:
        reached |= more
    return reached


def overlap(one: Box | Card, other: Box | Card) -> bool:
    is_apart = one.x + one.width <= other.x or other.x + other.width <= one.x
    return not is_apart and one.y < other.y + other.height and other.y < one.y + one.height


def drawn_boxes(card: Card) -> Iterator[Box]:
    return (box for box in card.boxes.values() if box.label)


def test_the_file_is_up_to_date() -> None:
    assert FILE.read_text() == draw(MODEL)


def test_a_change_of_the_model_changes_the_picture() -> None:
    before = "    define modify: [user, role#assignee] or ownership or modify from parent\n"
    text = MODEL_FILE.read_text()
    assert before in text
    changed = read_model(text.replace(before, before.replace(" or ownership", "")))
    assert draw(changed) != draw(MODEL)


def test_every_type_has_its_privileges_on_one_card(cards: list[Card]) -> None:
    shown = {name: [box.label for box in drawn_boxes(card)] for card in cards for name in card.types}
    assert {name: sorted(found) for name, found in shown.items()} == {
        name: sorted(MODEL.privileges(name)) for name in TYPES
    }


@pytest.mark.parametrize("name", TYPES)
def test_arrows_lead_wherever_the_model_does(name: str) -> None:
    granted = MODEL.privileges(name)
    defined = {
        (part.relation, target)
        for target in granted
        for part in parts_of(MODEL.types[name][target])
        if isinstance(part, Computed) and part.relation in granted
    }
    drawn = {(each.source, each.target) for each in implications(MODEL, name)}
    for privilege in granted:
        assert followed(privilege, drawn) == followed(privilege, defined)
    assert all(followed(source, drawn - {(source, target)}) != followed(source, drawn) for source, target in drawn)


def test_managed_access_keeps_owners_from_granting() -> None:
    conditional = {name: [each for each in implications(MODEL, name) if each.is_conditional] for name in TYPES}
    assert {name for name, found in conditional.items() if found} == {"namespace", "table", "view", "generic-table"}
    assert {(each.source, each.target) for found in conditional.values() for each in found} == {
        ("ownership", "manage_grants")
    }


def test_inherited_privileges_are_in_the_box() -> None:
    assert from_above(MODEL, "warehouse", "modify") == ["modify", "data_admin"]
    assert from_above(MODEL, "table", "manage_grants") == ["manage_grants"]
    assert from_above(MODEL, "table", "ownership") == []


def test_elements_do_not_overlap(cards: list[Card]) -> None:
    assert not [(one.title, other.title) for one, other in combinations(cards, 2) if overlap(one, other)]
    for card in cards:
        pairs = combinations(card.boxes.values(), 2)
        assert not [(one.label, other.label) for one, other in pairs if overlap(one, other)]
        for box in card.boxes.values():
            assert card.x < box.x
            assert box.x + box.width < card.x + card.width
            assert card.y < box.y
            assert box.y + box.height < card.y + card.height
