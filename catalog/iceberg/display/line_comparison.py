"""The comparison of two texts line by line."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final, NamedTuple

MAX_LINES: Final = 1_000
MAX_CHARACTERS: Final = 256 * 1024
"""Of each text; longer ones are not compared by line."""
CONTEXT: Final = 3
"""Equal lines that are shown before and after a change."""


class LineChange(NamedTuple):
    """A line: `-` removed, `+` added, empty unchanged. Its numbers begin at 1, None where it is missing."""

    sign: str
    old_number: int | None
    new_number: int | None
    text: str


class LineComparison(NamedTuple):
    """Groups of lines around the changes; none if the texts are equal, or differ but are too long."""

    groups: tuple[tuple[LineChange, ...], ...]
    is_too_long: bool


def compare_lines(old: str, new: str) -> LineComparison:
    if old == new:
        return LineComparison((), is_too_long=False)
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MAX_LINES or max(len(old), len(new)) > MAX_CHARACTERS:
        return LineComparison((), is_too_long=True)
    if before == after:  # only line ends differ
        return LineComparison((), is_too_long=False)
    groups = []
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT):
        lines: list[LineChange] = []
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                lines += [
                    LineChange("", old_from + n + 1, new_from + n + 1, text)
                    for n, text in enumerate(before[old_from:old_to])
                ]
                continue
            lines += [LineChange("-", n + 1, None, before[n]) for n in range(old_from, old_to)]
            lines += [LineChange("+", None, n + 1, after[n]) for n in range(new_from, new_to)]
        groups.append(tuple(lines))
    return LineComparison(tuple(groups), is_too_long=False)
