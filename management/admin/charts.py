"""Charts as SVG that the server draws: they need no script, follow the theme, and every one has its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, log10
from typing import Final

from management.templatetags.console import byte_size, short_count

WIDTH: Final = 560
HEIGHT: Final = 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 4, 12, 26
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_LINES: Final = 4
_LABELS: Final = 7
_HALF_LABEL: Final = 16
"""Half the width of a time below a chart, which is not drawn where it would be cut."""
_DAY: Final = timedelta(days=1)
_BYTES_A_UNIT: Final = 1024


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its name, its colour (1 to 6), and a value for each moment of the chart."""

    name: str
    colour: int
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Label:
    text: str
    position: float


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    colour: int
    path: str


@dataclass(frozen=True, slots=True)
class TrendChart:
    """Lines over time, ready to draw. `rows` are those of the table below the chart, the newest first."""

    name: str
    lines: tuple[Line, ...]
    area: str
    grid: tuple[Label, ...]
    times: tuple[Label, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[datetime, tuple[float, ...]], ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def draw_trend(
    name: str, moments: Sequence[datetime], series: Sequence[Series], *, in_bytes: bool = False
) -> TrendChart:
    """Draw lines over `moments`: at least two, equally far apart. The area below the last line is filled."""
    maximum = max((value for each in series for value in each.values), default=0)
    highest = bytes_axis_end(maximum) if in_bytes else axis_end(maximum)
    shown = byte_size if in_bytes else short_count
    x = [_LEFT + (WIDTH - _LEFT - _RIGHT) * number / (len(moments) - 1) for number in range(len(moments))]

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / highest

    def path(values: Sequence[float]) -> str:
        return "M" + " L".join(f"{at:.1f} {y(value):.1f}" for at, value in zip(x, values, strict=True))

    lines = tuple(Line(each.name, each.colour, path(each.values)) for each in series)
    base = HEIGHT - _BOTTOM
    area = f"{lines[-1].path} L{x[-1]:.1f} {base} L{x[0]:.1f} {base} Z" if lines else ""
    grid = tuple(
        Label(shown(highest * number / _LINES), round(y(highest * number / _LINES), 1)) for number in range(_LINES + 1)
    )
    return TrendChart(
        name, lines, area, grid, _time_labels(moments, x), tuple(each.name for each in series),
        tuple((at, tuple(each.values[number] for each in series)) for number, at in reversed(list(enumerate(moments)))),
    )  # fmt: skip


def bytes_axis_end(highest: float) -> float:
    """Return the end of an axis of bytes: the parts are round numbers of the unit in which they are shown."""
    unit = 1.0
    while highest >= _BYTES_A_UNIT * unit:
        unit *= _BYTES_A_UNIT
    return axis_end(highest / unit, smallest=0.1 if unit > 1 else 1.0) * unit


def axis_end(highest: float, *, smallest: float = 1.0) -> float:
    """Return the end of an axis from 0 with four equal parts, each a multiple of `smallest`."""
    return axis_step(max(highest / _LINES, smallest), multiple_of=smallest) * _LINES


def axis_step(part: float, *, multiple_of: float | None = None) -> float:
    """Return the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `part`, a positive number.

    With `multiple_of`, a power of ten that is not larger than `part`, others are left out: 5 instead of 2.5 for 1.
    """
    power = 10.0 ** (ceil(log10(part)) - 1)
    steps = (each * power for each in _STEPS if each * power >= part * (1 - 1e-9))
    if multiple_of is None:
        return next(steps)
    return next(each for each in steps if abs(each / multiple_of - round(each / multiple_of)) < 1e-9)  # noqa: PLR2004


def _time_labels(moments: Sequence[datetime], x: Sequence[float]) -> tuple[Label, ...]:
    """Return the times below a chart: of the first moment of a day where it spans several, or of every n-th."""
    numbers = list(range(len(moments)))
    spans_days = moments[-1] - moments[0] > 2 * _DAY
    if spans_days:
        numbers = [each for each in numbers[1:] if moments[each].date() != moments[each - 1].date()]
    every = ceil(len(numbers) / _LABELS)
    labelled = numbers[::every] if spans_days else numbers[every // 2 :: every]
    form = "%a %d" if spans_days else "%H:%M"
    last = WIDTH - _RIGHT - _HALF_LABEL
    return tuple(Label(moments[each].strftime(form), round(x[each], 1)) for each in labelled if x[each] <= last)


def sparkline(values: Sequence[float], *, width: int = 72, height: int = 22) -> str:
    """Return the path of a small line without axes; empty for fewer than two values."""
    if len(values) < 2:  # noqa: PLR2004
        return ""
    lowest, highest = min(values), max(values)
    extent = (highest - lowest) or 1
    step = width / (len(values) - 1)
    points = (
        f"{number * step:.1f} {height - 2 - (height - 4) * (value - lowest) / extent:.1f}"
        for number, value in enumerate(values)
    )
    return "M" + " L".join(points)
