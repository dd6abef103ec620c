"""The requests and responses of every process, and the history of an object in a fault."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

MAX_STORY = 60


class Result(Enum):
    """`UNKNOWN`: the response was lost or reports an unknown result; the request was executed completely or not at
    all.
    """

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Attempt:
    """One transmission of a request.

    Seconds are of the clock that all processes share; `is_lost`: the result is unknown.
    """

    sent: float
    responded: float
    reported: str
    is_lost: bool


@dataclass(slots=True)
class Record:
    """One request that changes something, or one load.

    `about` are the names and UUIDs that it refers to. `op` is its own token, which every metadata file that it writes
    contains. `location` and `uuid` come from the response, `is_kept` is whether it is stored under its key;
    `document` is the metadata itself, where the file may be deleted before a check reads it.
    """

    op: str
    what: str
    about: tuple[str, ...]
    method: str
    path: str
    body: str
    key: str | None = None
    attempts: list[Attempt] = field(default_factory=list)
    result: Result = Result.UNKNOWN
    status: int = 0
    error: str = ""
    is_kept: bool = True
    location: str | None = None
    uuid: str | None = None
    document: dict[str, Any] | None = None

    @property
    def sent(self) -> float:
        return self.attempts[0].sent

    @property
    def responded(self) -> float:
        """Return the time of the last response, infinity if there is none."""
        return self.attempts[-1].responded if self.result is not Result.UNKNOWN else float("inf")

    @property
    def content(self) -> dict[str, Any]:
        """Return the contents of the request."""
        content: dict[str, Any] = json.loads(self.body)
        return content

    @property
    def is_purge(self) -> bool:
        return "purgeRequested=true" in self.path

    @property
    def may_have_left_a_file(self) -> bool:
        return any(attempt.is_lost for attempt in self.attempts)

    def found(self, result: Result, at: float, location: str | None) -> None:
        """Record the result of a request whose response was lost, as a read has found it."""
        self.attempts.append(Attempt(at, at, f"found {result.value}", is_lost=False))
        self.result, self.location = result, location

    def line(self, start: float) -> str:
        reported = "; ".join(
            f"{attempt.sent - start:.3f}..{attempt.responded - start:.3f} {attempt.reported}"
            for attempt in self.attempts
        )
        key = f" key {self.key}" if self.key else ""
        found = f" -> {self.location}" if self.location else ""
        return f"{self.op} {self.what}: {self.method} {self.path}{key} {self.body[:2000]}\n      [{reported}]{found}"


class Fault(Exception):
    """A violation by the catalog; `about` are the names, UUIDs and tokens whose history belongs to it."""

    def __init__(self, message: str, *about: object) -> None:
        super().__init__(message)
        self.message = message
        self.about = tuple(str(each) for each in about)


class Journal:
    """The records of all processes so far."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.records: list[Record] = []
        self.by_op: dict[str, Record] = {}

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self.records.append(record)
            self.by_op[record.op] = record

    def story(self, about: Iterable[str]) -> str:
        """Return the last events of the objects."""
        wanted = {each.casefold() for each in about}
        reported = [
            record
            for record in self.records
            if wanted & {record.op.casefold(), str(record.uuid), *(each.casefold() for each in record.about)}
        ]
        reported.sort(key=lambda record: record.sent)
        left_out = [f"({len(reported) - MAX_STORY} earlier ones left out)"] if len(reported) > MAX_STORY else []
        return "\n".join([*left_out, *(record.line(self.start) for record in reported[-MAX_STORY:])])
