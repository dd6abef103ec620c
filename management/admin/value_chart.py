"""Bars or a line over labels, as SVG that the server draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite
from typing import Final, Literal

from management.admin.charts import Label, axis_step
from management.templatetags.console import short_count

Kind = Literal["bar", "line"]

WIDTH: Final = 720
HEIGHT: Final = 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 12, 28
_LINES: Final = 4
_LABELS: Final = 8
_LABEL_LENGTH: Final = 12
_MAX_BAR: Final = 48.0
_GAP: Final = 0.2
"""Share of the width of a bar that is left empty."""


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class ValueChart:
    """Bars or a line, ready to draw; the other one is empty. `zero` is the height of the axis."""

    name: str
    bars: tuple[Bar, ...]
    path: str
    grid: tuple[Label, ...]
    labels: tuple[Label, ...]
    zero: float
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT


def draw_values(name: str, kind: Kind, labels: Sequence[str], values: Sequence[float | None]) -> ValueChart:
    """Draw a value for each label, at least one; None leaves a gap."""
    known = [each for each in values if each is not None]
    step = _step(known)
    low = floor(min([0.0, *known]) / step + 1e-9)
    high = max(ceil(max([0.0, *known]) / step - 1e-9), low + 1)
    slot = (WIDTH - _LEFT - _RIGHT) / len(values)

    def y(value: float) -> float:
        share = (value / step - low) / (high - low)
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * share, 1)

    middles = [round(_LEFT + slot * (number + 0.5), 1) for number in range(len(values))]
    every = ceil(len(labels) / _LABELS)
    return ValueChart(
        name,
        _bars(middles, [None if each is None else y(each) for each in values], y(0), slot) if kind == "bar" else (),
        _path(middles, [None if each is None else y(each) for each in values]) if kind == "line" else "",
        tuple(Label(_number_text(step * number), y(step * number)) for number in range(low, high + 1)),
        tuple(Label(_shorten(labels[at]), middles[at]) for at in range(every // 2, len(labels), every)),
        y(0),
    )


def read_number(text: str | None) -> float | None:
    """Return the number that a text is; None if it cannot be drawn."""
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and isfinite(number) and abs(number) < 1e300 else None  # noqa: PLR2004


def _step(values: Sequence[float]) -> float:
    """Return the distance of the lines: at most about four reach the values; whole for whole numbers."""
    part = max((abs(each) for each in values), default=0.0) / _LINES
    if all(each.is_integer() for each in values):
        return axis_step(max(part, 1.0), multiple_of=1.0)
    return axis_step(part) if part >= 1e-300 else 1.0  # noqa: PLR2004


def _number_text(value: float) -> str:
    """Return a number of the axis, with decimals below 1,000."""
    return f"{value:.3g}" if abs(value) < 1000 else short_count(value)  # noqa: PLR2004


def _bars(middles: Sequence[float], heights: Sequence[float | None], zero: float, slot: float) -> tuple[Bar, ...]:
    width = round(min(slot * (1 - _GAP), _MAX_BAR), 2)
    return tuple(
        Bar(round(middle - width / 2, 2), min(at, zero), width, round(abs(at - zero), 1))
        for middle, at in zip(middles, heights, strict=True)
        if at is not None
    )


def _path(middles: Sequence[float], heights: Sequence[float | None]) -> str:
    """Return the path of a line, which begins again after each gap."""
    parts, is_begun = [], False
    for middle, at in zip(middles, heights, strict=True):
        if at is not None:
            parts.append(f"{'L' if is_begun else 'M'}{middle} {at}")
        is_begun = at is not None
    return " ".join(parts)


def _shorten(label: str) -> str:
    return label if len(label) <= _LABEL_LENGTH else f"{label[: _LABEL_LENGTH - 1]}…"
