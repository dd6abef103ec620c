"""Report an import: failures as JSON lines, progress and summary as text."""

from __future__ import annotations

from typing import IO, Any

from catalog.identifiers import Identifier, dotted
from catalog.services.tables.bulk_register import ImportEntry, ImportResult
from icekeeper.kernel.json.strict import write_json
from management.table_import.import_run import FAILED, MISSING, ImportCounts, ItemResult, type_of_item
from management.table_import.source import NamespaceEntry, UnreadableEntry

PLURALS = {"namespace": "namespaces", "table": "tables", "view": "views"}
MAX_MESSAGE = 1000


def failure(result: ItemResult) -> dict[str, Any]:
    """Return one line of the report; that of a table or view is a valid entry of a list file."""
    error = result.error
    found: dict[str, Any] = {"type": type_of_item(result.item)}
    match result.item:
        case NamespaceEntry():
            found |= {"namespace": list(result.item.levels)}
        case ImportEntry():
            found |= {"namespace": list(result.item.levels), "name": result.item.name}
            found |= {"metadata-location": result.item.metadata_location}
        case UnreadableEntry():
            found |= {"where": result.item.where}
    if error is not None:
        found["error"] = {"type": error.wire_type, "message": error.message[:MAX_MESSAGE], "code": error.status}
    return found


def write_failure(result: ItemResult, file: IO[bytes]) -> None:
    file.write(write_json(failure(result)) + b"\n")
    file.flush()


def sentence(result: ItemResult) -> str:
    """Return one line of text without control characters."""
    match result.item:
        case NamespaceEntry():
            subject = f"namespace {dotted(result.item.levels)}"
        case ImportEntry():
            subject = f"{result.item.kind} {Identifier(result.item.levels, result.item.name)}"
        case _:
            subject = result.item.where
    text = f"{result.status}: {subject}"
    if result.error is not None:
        text += f": {result.error.message[:MAX_MESSAGE]}"
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def summary(counts: ImportCounts) -> list[str]:
    lines = []
    for item_type, plural in PLURALS.items():
        statuses = ", ".join(f"{counts.count(item_type, status)} {status}" for status in (*ImportResult, FAILED))
        missing = counts.count(item_type, MISSING)
        lines.append(f"{plural}: {statuses}" + (f", {missing} missing in the source" if missing else ""))
    if unreadable := counts.count("unreadable", FAILED):
        lines.append(f"unreadable in the source: {unreadable}")
    return lines
