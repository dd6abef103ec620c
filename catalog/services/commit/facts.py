"""What the row of a table or view says about its last commit: when, by whom, with which engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from catalog.iceberg.totals import MAX_ENGINE_LENGTH, read_engine
from icekeeper.kernel.request_context import current_context
from tenancy.actor import Actor

MAX_USER_LENGTH: Final = 255


class CommitFacts(NamedTuple):
    """The values of the columns `committed_at`, `committed_by` and `engine` of a tabular."""

    at: datetime
    by: str
    engine: str


def commit_facts(actor: Actor, added_snapshots: Sequence[Mapping[str, Any]], at: datetime) -> CommitFacts:
    """Return the facts of a commit by `actor`.

    The engine is that which the last added snapshot names, else the client that its `User-Agent` names.
    """
    return CommitFacts(at, committer(actor), _engine(added_snapshots))


def committer(actor: Actor) -> str:
    """Return the user id of `actor`, or the name of a part of the server without one."""
    return (actor.user_id or actor.name)[:MAX_USER_LENGTH]


def _engine(added_snapshots: Sequence[Mapping[str, Any]]) -> str:
    if added_snapshots:
        named = read_engine(added_snapshots[-1].get("summary") or {})
        if named:
            return named
    user_agent = current_context().origin.user_agent or ""
    return user_agent.replace("\0", "\ufffd").partition(" ")[0][:MAX_ENGINE_LENGTH]
