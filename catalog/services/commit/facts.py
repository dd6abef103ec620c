"""What the database keeps of a commit besides the metadata: totals of the table, by whom it was, and with which engine.

The columns are in the row of the metadata document, which each commit writes anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from catalog.iceberg.totals import MAX_ENGINE_LENGTH, Totals, read_engine, read_totals
from icekeeper.kernel.request_context import current_context
from tenancy.actor import Actor

MAX_USER_LENGTH: Final = 255


class CommitFacts(NamedTuple):
    """The values of `COLUMNS`, in their order."""

    totals: Totals
    committed_at: datetime
    committed_by: str
    engine: str

    def values(self) -> list[Any]:
        return [*self.totals, self.committed_at, self.committed_by, self.engine]


COLUMNS: Final = (
    "total_records",
    "total_files_size",
    "total_data_files",
    "total_delete_files",
    "total_position_deletes",
    "total_equality_deletes",
    "manifests",
    "snapshot_count",
    "ref_count",
    "committed_at",
    "committed_by",
    "engine",
)


def commit_facts(
    actor: Actor, metadata: dict[str, Any], added_snapshots: Sequence[Mapping[str, Any]], at: datetime
) -> CommitFacts:
    """Return the facts of a commit by `actor` to `metadata`.

    The engine is that which the last added snapshot names, else the client that its `User-Agent` names.
    """
    return CommitFacts(read_totals(metadata), at, committer(actor), _engine(added_snapshots))


def committer(actor: Actor) -> str:
    """Return the user id of `actor`, or the name of a part of the server without one.

    Of a document it is who created, registered or last changed the table; of a snapshot, who added it.
    """
    return (actor.user_id or actor.name)[:MAX_USER_LENGTH]


def _engine(added_snapshots: Sequence[Mapping[str, Any]]) -> str:
    if added_snapshots:
        named = read_engine(added_snapshots[-1].get("summary") or {})
        if named:
            return named
    user_agent = current_context().origin.user_agent or ""
    return user_agent.replace("\0", "\ufffd").partition(" ")[0][:MAX_ENGINE_LENGTH]
