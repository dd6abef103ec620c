"""Charts over time: axes of round numbers, and a label for each day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from management.admin.charts import Series, draw_trend


def grid_of(highest: float, *, in_bytes: bool = False) -> list[str]:
    moments = [datetime(2026, 11, 20, hour, tzinfo=UTC) for hour in range(2)]
    chart = draw_trend("name", moments, [Series("line", 1, [0.0, highest])], in_bytes=in_bytes)
    return [each.text.replace("\N{NARROW NO-BREAK SPACE}", " ") for each in chart.grid]


def test_counts_have_whole_numbers_at_the_axis() -> None:
    assert [grid_of(highest) for highest in (0, 1, 3, 10, 90, 10_000)] == [
        ["0", "1", "2", "3", "4"],
        ["0", "1", "2", "3", "4"],
        ["0", "1", "2", "3", "4"],
        ["0", "5", "10", "15", "20"],
        ["0", "25", "50", "75", "100"],
        ["0", "2.5 k", "5 k", "7.5 k", "10 k"],
    ]


def test_sizes_have_round_numbers_of_their_unit() -> None:
    assert grid_of(600, in_bytes=True) == ["0 B", "200 B", "400 B", "600 B", "800 B"]
    assert grid_of(1_100_000, in_bytes=True) == ["0 B", "512 KiB", "1 MiB", "1.5 MiB", "2 MiB"]


def test_each_day_has_its_label() -> None:
    end = datetime(2026, 11, 28, 19, 30, tzinfo=UTC)
    moments = [end - number * timedelta(hours=6) for number in reversed(range(29))]
    chart = draw_trend("name", moments, [Series("line", 1, [1.0] * len(moments))])
    assert [each.text for each in chart.times] == [
        "Sun 22", "Mon 23", "Tue 24", "Wed 25", "Thu 26", "Fri 27", "Sat 28",
    ]  # fmt: skip
    month = [end - number * timedelta(days=1) for number in reversed(range(31))]
    days = draw_trend("name", month, [Series("line", 1, [1.0] * len(month))]).times
    assert len({each.text for each in days}) == len(days) >= 6
