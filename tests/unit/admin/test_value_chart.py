"""Bars and lines over labels: axes for any numbers, gaps, and texts that are no number."""

from __future__ import annotations

from management.admin.value_chart import draw_values, read_number


def test_axes_and_shapes() -> None:
    for values, ticks in (
        ([3.0, 40.0], ["0", "10", "20", "30", "40"]),
        ([-3.0, None, 1.0], ["-3", "-2", "-1", "0", "1"]),
        ([-40.0], ["-40", "-30", "-20", "-10", "0"]),
        ([0.0, None], ["0", "1"]),
        ([1.0, 0.0], ["0", "1"]),
        ([0.5, 1.0], ["0", "0.25", "0.5", "0.75", "1"]),
        ([10.0, 9.5], ["0", "2.5", "5", "7.5", "10"]),
        ([1e299, -1e299], None),
    ):  # fmt: skip
        bars = draw_values("name", "bar", ["x" * 20] * len(values), values)
        assert ticks is None or [each.text for each in bars.grid] == ticks, values
        known = [each for each in values if each is not None]
        assert len(bars.bars) == len(known)
        assert all(0 <= each.y <= each.y + each.height <= bars.height for each in bars.bars)
        assert bars.labels[0].text == "x" * 11 + "…"
    assert len(draw_values("name", "bar", ["x"] * 200, [1.0] * 200).labels) == 8
    line = draw_values("name", "line", ["a", "b", "c", "d"], [1.0, 2.0, None, 3.0]).path
    assert [each[0] for each in line.split(" ") if not each[0].isdigit()] == ["M", "L", "M"]


def test_numbers() -> None:
    assert [read_number(each) for each in ("1.50", "-2", "1e3", None, "x", "inf", "nan", "1" * 310)] == [
        1.5, -2.0, 1000.0, None, None, None, None, None,
    ]  # fmt: skip
