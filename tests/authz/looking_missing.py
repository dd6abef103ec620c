"""What a refusal tells: whoever compares two of them learns nothing from the words, the type or the work done."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.statement_counts import counting
from tests.wsgi_client import Answer


class Told(NamedTuple):
    status: int
    wire_type: str
    message: str
    statements: int


def told(act: Callable[[], Answer], name: str) -> Told:
    """What is told the second time, when it is remembered who calls, with X in the place of `name`."""
    act()
    with counting() as counted:
        answer = act()
    error = answer.error
    return Told(answer.status, error["type"], error["message"].replace(name, "X"), counted["statements"])
