"""The built-in evaluator: the model over the relation rows of our own database.

What an asker holds on the path to an object is remembered as long as nothing has changed (`tenancy.authz.changes`), so
that a busy engine costs no statement. Nothing is remembered of objects on whose path the asker holds nothing: what is
hidden takes as long as what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Final
from uuid import UUID

from cachetools import LRUCache

from icekeeper.kernel.sql import as_uuid
from tenancy.actor import Actor
from tenancy.authz.builtin.evaluation import Evaluation, looks_below
from tenancy.authz.builtin.records import Asker, Held, read_held, read_shown_children, read_shows_below
from tenancy.authz.changes import rights_changes
from tenancy.authz.model import MANAGED_ACCESS
from tenancy.authz.port import Authorizer, Question
from tenancy.authz.securables import Ref, securable_id
from tenancy.models import Securable

MOST_REMEMBERED: Final = 50_000
"""Objects of one asker each, about half a KB; and askers with their roles."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    stamp: int
    ends_at: float
    value: object


class _Memory:
    """What holds until rights change, or until a grant expires (`ends_at`, of `time.time`)."""

    def __init__(self) -> None:
        self._kept: LRUCache[object, _Remembered] = LRUCache(MOST_REMEMBERED)
        self._lock = Lock()

    def get(self, key: object) -> object | None:
        if not rights_changes.is_watched():
            return None
        with self._lock:
            kept = self._kept.get(key)
        if kept is None or kept.stamp != rights_changes.stamp() or kept.ends_at <= time.time():
            return None
        return kept.value

    def put(self, key: object, value: object, *, stamp: int, until: datetime | None) -> None:
        """`stamp` is what the stamp was before the value was read."""
        ends_at = float("inf") if until is None else until.timestamp()
        with self._lock:
            self._kept[key] = _Remembered(stamp, ends_at, value)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


class BuiltinAuthorizer(Authorizer):
    name = "builtin"

    def __init__(self) -> None:
        self._memory = _Memory()

    def decide(self, actor: Actor, questions: Sequence[Question]) -> list[bool]:
        """One statement for all that is not remembered, and seldom one more for what lies below something else."""
        asker = Asker.of(actor)
        asked = [(securable_id(*ref), f"can_{action.value}") for action, ref in questions]
        found = self._remembered(asker, [own_id for own_id, _ in asked])
        shows: dict[str, bool] = {}
        unknown = list(dict.fromkeys(own_id for own_id, _ in asked if own_id not in found))
        if unknown:
            below = [own_id for own_id, relation in asked if own_id not in found and looks_below(own_id, relation)]
            read, shows = self._read(asker, unknown, list(dict.fromkeys(below)))
            found |= read
        informed = {own_id: found[own_id].informed(shows) for own_id in shows}
        answers = [informed.get(own_id, found[own_id]).holds(relation) for own_id, relation in asked]
        return self._looking_below(asker, asked, answers, {**found, **informed})

    def _looking_below(
        self, asker: Asker, asked: Sequence[tuple[str, str]], answers: list[bool], found: Mapping[str, Evaluation]
    ) -> list[bool]:
        """The answers once it is known what lies below, where that could make a yes of a no."""
        pairs = list(zip(asked, answers, strict=True))
        open_ids = {own_id for (own_id, relation), answer in pairs if not answer and looks_below(own_id, relation)}
        wanted = sorted({each for own_id in open_ids for each in found[own_id].wanted})
        if not wanted:
            return answers
        shows = read_shows_below(asker, wanted, roles=self._roles(asker))
        informed = {own_id: found[own_id].informed(shows) for own_id in open_ids}
        return [
            answer or (own_id in informed and informed[own_id].holds(relation)) for (own_id, relation), answer in pairs
        ]

    def visible_ids(
        self, actor: Actor, *, parent: Ref, child_type: Securable.Type, after: UUID, limit: int
    ) -> list[UUID]:
        """One statement. What inherits its visibility from the parent is not among them: ask for that first."""
        asker = Asker.of(actor)
        found = read_shown_children(
            asker, parent, child_type.value, after=str(after), limit=limit, roles=self._roles(asker)
        )
        return [as_uuid(each) for each in found]

    def forget(self) -> None:
        """Remember nothing any more."""
        self._memory.clear()

    def _roles(self, asker: Asker) -> tuple[UUID, ...] | None:
        return self._memory.get(asker)  # type: ignore[return-value]  # kept under this key by `_read`

    def _remembered(self, asker: Asker, ids: Sequence[str]) -> dict[str, Evaluation]:
        known: dict[str, Evaluation] = {}
        for own_id in ids:
            kept = self._memory.get((asker, own_id))
            if isinstance(kept, Evaluation):
                known[own_id] = kept
        return known

    def _read(
        self, asker: Asker, ids: Sequence[str], below: Sequence[str]
    ) -> tuple[dict[str, Evaluation], dict[str, bool]]:
        """The evaluations, without what lies below: objects come and go there without anybody being told."""
        stamp = rights_changes.stamp()
        held: Held = read_held(asker, ids, roles=self._roles(asker), below=below)
        self._memory.put(asker, held.role_ids, stamp=stamp, until=held.expires_at)
        found = {}
        for own_id, path in held.paths.items():
            found[own_id] = Evaluation(path)
            if any(node.held - {MANAGED_ACCESS} for node in path):
                self._memory.put((asker, own_id), found[own_id], stamp=stamp, until=held.expires_at)
        return found, dict(held.shows_below)
