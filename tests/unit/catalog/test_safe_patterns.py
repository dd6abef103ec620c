"""Patterns of rules equal regular expressions in the part that they support, and take linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.services.approval.patterns import MAX_TEXT_LENGTH, InvalidPattern, SafePattern, describe_patterns

ITEMS = ["a", "b", "_", ".", "[ab]", "[^a]", "[a-c0-9]", r"\d", r"\w", r"\.", r"\-"]
QUANTIFIERS = ["", "", "?", "*", "+", "{2}", "{1,3}", "{0,2}"]


@given(
    st.lists(st.tuples(st.sampled_from(ITEMS), st.sampled_from(QUANTIFIERS)), max_size=6),
    st.text(alphabet="abc0_.-", max_size=10),
)
def test_a_pattern_matches_what_its_regular_expression_matches(parts: list[tuple[str, str]], text: str) -> None:
    pattern = "".join(item + quantifier for item, quantifier in parts)
    expected = re.fullmatch(pattern, text, re.ASCII) is not None
    compiled = SafePattern(pattern)
    assert (compiled.matches(text), compiled.follow(text)) == (expected, expected)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("[a-z][a-z0-9_]*", ["a", "orders_2"], ["", "Orders", "2x", "a-b"]),
        ("", [""], ["a"]),
        ("team-.+", ["team-sales"], ["team-", "Team-sales"]),
        (r"\(\+\*\)", ["(+*)"], ["+"]),
        ("[]x]+", ["]x"], ["y"]),
        ("grün.", ["grünx", "grün\n"], ["grun."]),
    ],
)
def test_examples(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = SafePattern(pattern)
    assert [text for text in [*matching, *others] if compiled.matches(text)] == matching


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a)", r"\( is not supported here: list several patterns instead; write \\\( for the character itself"),
        ("a|b", r"\| is not supported here: list several patterns instead"),
        ("^a", r"\^ is not supported here: a pattern matches the whole text; write \\\^ for"),
        ("a$", r"\$ is not supported here: a pattern matches the whole text"),
        ("*", r"\* is not supported"),
        ("a**", r"\* is not supported"),
        ("[a", r"\[ without \]"),
        ("[z-a]", "bad character range"),
        (r"[\d]", "without backslashes"),
        ("a\\", "ends with a backslash"),
        (r"\b", "is not supported"),
        ("a{3,1}", "is not a range"),
        ("a{0}", "is not a range"),
        ("a{", r"\{ is not supported"),
        ("a{999}", "more than 256 items"),
        ("a" * 257, "longer than 256 characters"),
    ],
)
def test_invalid_patterns(pattern: str, message: str) -> None:
    with pytest.raises(InvalidPattern, match=message):
        SafePattern(pattern)


def test_no_pattern_can_hang() -> None:
    """A backtracking engine would take years for these."""
    for pattern in ("a*" * 120 + "b", "[ab]*" * 50 + "c", ".{0,200}x", "a*b{0,250}c", "a?" * 100 + "a" * 50):
        SafePattern(pattern).matches("a" * MAX_TEXT_LENGTH)
    assert not SafePattern(".*").matches("a" * (MAX_TEXT_LENGTH + 1))


@pytest.mark.parametrize("pattern", ["a*b{0,250}c", "a?" * 120 + "a*c", "[ab]*" * 50 + "c", "a{0,250}b"])
def test_each_character_is_one_step(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a chain of optional items is: it is followed by one addition."""
    steps: list[int] = []
    skip = SafePattern._skip_optional

    def count(self: SafePattern, states: int) -> int:
        steps.append(states)
        return skip(self, states)

    monkeypatch.setattr(SafePattern, "_skip_optional", count)
    assert not SafePattern(pattern).follow("a" * MAX_TEXT_LENGTH)
    assert 250 < len(steps) <= MAX_TEXT_LENGTH + 1


@pytest.mark.parametrize(
    ("patterns", "description"),
    [
        (["[a-z]+"], "[a-z]+"),
        (["a" * 256], "a" * 256),
        (["a+", "b+"], "a+ or b+"),
        (["a+", "b+", "c+"], "a+, b+ or c+"),
        (["a" * 150, "b" * 50, "c"], f"{'a' * 150}, {'b' * 50} or 1 other pattern"),
        (["a" * 256] * 20, f"{'a' * 256} or 19 other patterns"),
        (["a\nb\x1b"], "a b "),
    ],
)
def test_descriptions_have_few_patterns(patterns: list[str], description: str) -> None:
    assert describe_patterns(patterns) == description
