"""Ages are rounded; lengths of time are not, so that none is shown as longer than it is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from icekeeper.kernel.clock import now
from management.templatetags.console import duration, relative_time

HOUR, DAY = 3600, 86_400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.25, "250 ms"), (2.0, "2 s"), (2.34, "2.3 s"), (59, "59 s"), (60, "1 min"), (125, "2 min 5 s"),
        (HOUR, "1 h"), (HOUR + 90, "1 h 1 min"), (DAY - 1, "23 h 59 min"), (36 * HOUR, "1 d 12 h"), (7 * DAY, "7 d"),
    ],
)  # fmt: skip
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3.4, "3 s"), (59.7, "1 min"), (90 * 60 - 40, "1 h"), (HOUR - 10, "1 h"), (23.6 * HOUR, "1 d"),
        (7 * DAY - 5, "7 d"), (6.4 * DAY, "6 d"),
    ],
)  # fmt: skip
def test_ages(seconds: float, text: str) -> None:
    assert relative_time(now() - timedelta(seconds=seconds)) == f"{text} ago"
    assert relative_time(now() + timedelta(seconds=seconds)) == f"in {text}"
