"""What is told apart of the calls of the APIs, and how they are added up, from the counting to the writing."""

from __future__ import annotations

from typing import Final, NamedTuple

SECONDS_AN_HOUR: Final = 3600


class Call(NamedTuple):
    """What is told apart. `hour` counts from the epoch, `route` is Django's pattern.

    `warehouse` and `project` are as the request named them, whether they exist or not; None where it did not.
    """

    hour: int
    method: str
    route: str
    status: int
    warehouse: str | None
    project: str | None


class Tally:
    """How often, and when first and last, in seconds since the epoch."""

    __slots__ = ("count", "first", "last")

    def __init__(self, at: float) -> None:
        self.count = 1
        self.first = self.last = at
