"""A histogram as SVG that the server draws: groups of sizes as bars, and a line at the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 880
HEIGHT: Final = 240
_TOP, _BOTTOM, _GAP = 44, 28, 12
_MIN_BAR: Final = 2
"""Height of a bar that is not empty, so that it can be seen."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of sizes and how many it has; `colour` is 1 to 6 of the colours of charts."""

    label: str
    count: int
    colour: int


@dataclass(frozen=True, slots=True)
class Bar:
    group: Group
    x: float
    y: float
    height: float
    middle: float
    above: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars, ready to draw. `target_x` is the position of the line between two groups, None without a target."""

    name: str
    bars: tuple[Bar, ...]
    bar_width: float
    target_x: float | None
    target_label: str
    width: int = WIDTH
    height: int = HEIGHT
    base: int = HEIGHT - _BOTTOM
    line_top: int = 22


def draw_histogram(
    name: str, groups: Sequence[Group], *, target_group: float | None = None, target_label: str = ""
) -> Histogram:
    """Draw at least one group; the line stands at `target_group`, in groups from the left."""
    step = WIDTH / len(groups)
    highest = max(*(each.count for each in groups), 1)
    base = HEIGHT - _BOTTOM
    bars = []
    for number, group in enumerate(groups):
        height = (base - _TOP) * group.count / highest
        height = max(height, _MIN_BAR) if group.count else 0.0
        x = number * step + _GAP / 2
        y = base - height
        bars.append(Bar(group, round(x, 1), round(y, 1), round(height, 1), round(x + (step - _GAP) / 2, 1), y - 6))
    target_x = None if target_group is None else round(min(target_group, len(groups)) * step, 1)
    return Histogram(name, tuple(bars), round(step - _GAP, 1), target_x, target_label)
