"""One version on top of another: the later one is the result of its request on the earlier one."""

from __future__ import annotations

from typing import Any

from tests.model.journal import Fault, Record, Result
from tests.model.lineage import Lineage, Version
from tests.model.state import TABLE, VIEW, modelled
from tests.model.table_model import (
    asserted_uuid,
    broken_requirement,
    changed,
    created,
    difference,
    finished,
    previous_files,
)

COMMITS = {"commit", "transaction"}


def check_link(lineage: Lineage, version: Version) -> None:
    """Raise `Fault` for a wrong step. For views only rejected requests are verified; their owners verify the rest."""
    record, metadata = lineage.record_of(version), lineage.metadata_at(version.location)
    if record.result is Result.REFUSED:
        raise Fault(f"{record.op} was rejected, but {version.location} was written", record.op, version.uuid)
    if metadata is None or version.kind == VIEW:
        return
    if version.parent is None:
        problem = _wrong_beginning(record, metadata)
    else:
        before = lineage.metadata_at(version.parent)
        problem = None if before is None else _wrong_step(record, version, before, metadata)
    if problem:
        raise Fault(f"{record.op} wrote {version.location} wrongly: {problem}", record.op, version.uuid)


def _wrong_beginning(record: Record, metadata: dict[str, Any]) -> str | None:
    body = record.content
    new = created(body) if record.what == "create table" else finished(body["updates"])
    return difference(new, modelled(TABLE, metadata))


def _wrong_step(record: Record, version: Version, before: dict[str, Any], metadata: dict[str, Any]) -> str | None:
    """Return what is wrong with a commit that led from `before` to `metadata`."""
    changes = [record.content] if record.what == "commit" else record.content.get("table-changes", [])
    mine = [change for change in changes if asserted_uuid(change) in {version.uuid, None}]
    if record.what not in COMMITS or not mine:
        return f"{record.what} was not for this table"
    requirements, updates = mine[0]["requirements"], mine[0]["updates"]
    model = modelled(TABLE, before)
    broken = broken_requirement(model, requirements)
    if broken:
        return f"the requirement {broken} did not hold"
    last = {"metadata-file": version.parent, "timestamp-ms": before["last-updated-ms"]}
    log = [*before.get("metadata-log", []), last][-previous_files(metadata["properties"]) :]
    if metadata["metadata-log"] != log:
        return f"the metadata log is {metadata['metadata-log']}, not {log}"
    if metadata["last-updated-ms"] < before["last-updated-ms"]:
        return "it is older than its base"
    return difference(changed(model, updates), modelled(TABLE, metadata))
