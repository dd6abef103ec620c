"""Answers of this process by the first digit of their status, and the time that they took.

Counted where each request has its one log line, so also what the server refuses before any view sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

from icekeeper.kernel.meters import Meter, Series

_CLASSES: Final = (2, 3, 4, 5)

_counting = Lock()
_answers = [0] * 10
_milliseconds = [0.0] * 10


def count_answer(status: int, duration_ms: float) -> None:
    first_digit = status // 100
    with _counting:
        _answers[first_digit] += 1
        _milliseconds[first_digit] += duration_ms


def request_meter() -> Meter:
    labels = [{"status": f"{each}xx"} for each in _CLASSES]
    taken = "Seconds from the arrival of requests to the end of their answers"
    return Meter(
        [
            *(
                Series("icekeeper_http_requests_total", "counter", "Requests that were answered", each)
                for each in labels
            ),
            *(Series("icekeeper_http_request_seconds_total", "counter", taken, each) for each in labels),
        ],
        _read,
    )


def _read() -> Sequence[float]:
    with _counting:
        return [*(_answers[each] for each in _CLASSES), *(_milliseconds[each] / 1000 for each in _CLASSES)]
