"""What the processes of a server count about themselves, in the words of Prometheus.

Which numbers there are is known before the first one is counted: nothing that somebody chose ever becomes a label, so
nobody makes the page of metrics grow, and it names no warehouse, table or person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9_.+-]+")
"""What needs no escaping in the text format."""


@dataclass(frozen=True, slots=True)
class Series:
    """One number. A counter only grows and its name ends in `_total`; all of one name share kind and description.

    Raises ValueError for a name or a label that the text format would not take as it is.
    """

    name: str
    kind: Literal["counter", "gauge"]
    description: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = all(_NAME.fullmatch(name) for name in (self.name, *self.labels))
        if not named or not all(_LABEL_VALUE.fullmatch(value) for value in self.labels.values()):
            raise ValueError(f"{self.name}{dict(self.labels)} cannot be a series")
        if self.name.endswith("_total") != (self.kind == "counter") or "\n" in self.description:
            raise ValueError(f"{self.name} is not named or described as a {self.kind}")


@dataclass(frozen=True, slots=True)
class Meter:
    """`read` gives one number for each of `series`, in their order, of this process since it began.

    It is called every second in each server process, so it is quick, waits for nobody and asks no database.
    """

    series: Sequence[Series]
    read: Callable[[], Sequence[float]]
