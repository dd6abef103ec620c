"""How a run is told: failures for machines (JSON lines), progress and a summary for people."""

from __future__ import annotations

from typing import IO, Any

from catalog.identifiers import Identifier, dotted
from catalog.services.tables.bulk_register import Came, Listed
from icekeeper.kernel.json.strict import write_json
from management.registration.run import FAILED, GONE, Ended, Tally, sort_of
from management.registration.source import ListedNamespace, Unreadable

SORTS = {"namespace": "namespaces", "table": "tables", "view": "views"}
MAX_MESSAGE = 1000


def failure(ended: Ended) -> dict[str, Any]:
    """One line of the report. That of a table or view is an entry of a list file again."""
    error = ended.error
    found: dict[str, Any] = {"type": sort_of(ended.item)}
    match ended.item:
        case ListedNamespace():
            found |= {"namespace": list(ended.item.levels)}
        case Listed():
            found |= {"namespace": list(ended.item.levels), "name": ended.item.name}
            found |= {"metadata-location": ended.item.metadata_location}
        case Unreadable():
            found |= {"where": ended.item.where}
    if error is not None:
        found["error"] = {"type": error.wire_type, "message": error.message[:MAX_MESSAGE], "code": error.status}
    return found


def write_failure(ended: Ended, file: IO[bytes]) -> None:
    file.write(write_json(failure(ended)) + b"\n")
    file.flush()


def sentence(ended: Ended) -> str:
    """One line for people; nothing in it moves a terminal's cursor."""
    match ended.item:
        case ListedNamespace():
            subject = f"namespace {dotted(ended.item.levels)}"
        case Listed():
            subject = f"{ended.item.kind} {Identifier(ended.item.levels, ended.item.name)}"
        case _:
            subject = ended.item.where
    text = f"{ended.came}: {subject}"
    if ended.error is not None:
        text += f": {ended.error.message[:MAX_MESSAGE]}"
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def summary(tally: Tally) -> list[str]:
    lines = []
    for sort, plural in SORTS.items():
        counted = ", ".join(f"{tally.of(sort, came)} {came}" for came in (*Came, FAILED))
        gone = f", {tally.of(sort, GONE)} gone from the source" if tally.of(sort, GONE) else ""
        lines.append(f"{plural}: {counted}{gone}")
    if tally.of("unreadable", FAILED):
        lines.append(f"unreadable in the source: {tally.of('unreadable', FAILED)}")
    return lines
