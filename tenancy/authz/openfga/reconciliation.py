"""What OpenFGA has held against our relation rows, object by object, and made the same.

Nothing is written here by itself: what differs is noted as undelivered and delivered like every change, so that servers
may go on meanwhile and a change of theirs is never undone. It may be stopped at any time and begun anew, from the start
or behind the object that was told last.

A store may also hold tuples of others. What our model has no word for is never deleted, and nothing at all is where
models of others show that somebody else has the store, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Final, Literal

from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.ids import new_id
from tenancy.authz.model import Direct, parts_of
from tenancy.authz.openfga.authorization_model import unfolded_model
from tenancy.authz.openfga.delivery import deliver_now
from tenancy.authz.openfga.installation import foreign_models
from tenancy.authz.openfga.outbox import mark_pending, mark_reconciled
from tenancy.authz.openfga.store import OpenFgaStore, StoredTuple
from tenancy.authz.openfga.tuples import FOREVER, Condition, Recorded, TupleKey, desired_tuples_on
from tenancy.models import Securable

OBJECTS_AT_ONCE: Final = 100
MOST_KEPT: Final = 10_000
"""Tuples without an object, after which they are deleted and the search begins anew."""

Mode = Literal["add-missing", "add-and-delete-drift"]


class StoreIsShared(Exception):
    """The store has models of others: nothing was changed."""


@dataclass(slots=True)
class Outcome:
    """Objects that were looked at, and tuples: missing, ending at another time, there without a row, and `foreign`:
    left alone since our model has no such type or relation.
    """

    objects: int = 0
    missing: int = 0
    differing: int = 0
    drifted: int = 0
    foreign: int = 0
    examples: list[str] = field(default_factory=list)

    def tell(self, what: str, key: TupleKey) -> None:
        if len(self.examples) < 20:  # noqa: PLR2004 - enough to see what it is about
            self.examples.append(f"{what}: {key.object}#{key.relation}@{key.subject}")


def reconcile(
    store: OpenFgaStore,
    *,
    mode: Mode,
    is_dry_run: bool,
    owns_store: bool = False,
    after: str = "",
    progress: Callable[[Outcome, str], None] = lambda _outcome, _last: None,
) -> Outcome:
    """Find what OpenFGA has otherwise than our rows, and unless `is_dry_run` deliver it.

    `add-missing` leaves alone what OpenFGA has and the rows have not. Objects are taken in the order of their ids,
    those behind `after`; `progress` is called with the last of each batch. `owns_store` is the word of the operator
    that what is in the store is this server's, whatever models are there.

    Raises `OpenFgaUnavailable`; `StoreIsShared` where something might be deleted that is somebody else's.
    """
    outcome = Outcome()
    deletes = mode == "add-and-delete-drift"
    if deletes and not is_dry_run and not owns_store:
        _require_no_others(store)
    for ids in _batches_of_objects(after):
        wanted = desired_tuples_on(ids)
        wrong: list[TupleKey] = []
        for own_id in ids:
            wrong += _differences(outcome, own_id, wanted, list(_tuples_on(store, own_id)), deletes=deletes)
        outcome.objects += len(ids)
        if not is_dry_run:
            _deliver(wrong)
        progress(outcome, ids[-1])
    if deletes:
        _look_for_unknown_objects(store, outcome, is_dry_run=is_dry_run)
        if not after and not is_dry_run:
            mark_reconciled()
    return outcome


def _require_no_others(store: OpenFgaStore) -> None:
    others = foreign_models(store)
    if others:
        raise StoreIsShared(f"it has models that are not of this server, such as {', '.join(others[:3])}")


def _differences(
    outcome: Outcome, own_id: str, recorded: Recorded, stored: Sequence[StoredTuple], *, deletes: bool
) -> list[TupleKey]:
    wanted = {key: condition for key, condition in recorded.items() if key.object == own_id}
    there = {each.key: each.expires_at for each in stored}
    missing = [key for key in wanted if key not in there]
    differing = [key for key in wanted if key in there and not _is_same(wanted[key], there[key])]
    drifted = [key for key in there if key not in wanted and _is_known(key)] if deletes else []
    for what, keys in (("missing", missing), ("other end", differing), ("no row", drifted)):
        for key in keys:
            outcome.tell(what, key)
    outcome.missing += len(missing)
    outcome.differing += len(differing)
    outcome.drifted += len(drifted)
    return [*missing, *differing, *drifted]


def _look_for_unknown_objects(store: OpenFgaStore, outcome: Outcome, *, is_dry_run: bool) -> None:
    """Tuples on objects that there are no more."""
    while True:
        drifted: list[TupleKey] = []
        outcome.foreign = 0
        for page in pages_of(store):
            outcome.foreign += sum(not _is_known(each.key) for each in page)
            ids = {each.key.object for each in page}
            known = set(Securable.objects.filter(pk__in=ids).values_list("pk", flat=True))
            found = [each.key for each in page if each.key.object not in known and _is_known(each.key)]
            outcome.drifted += len(found)
            for key in found:
                outcome.tell("no object", key)
            if not is_dry_run:
                drifted += found
            if len(drifted) >= MOST_KEPT:
                break
        # Not while pages are read: where the next one begins may depend on what there is.
        _deliver(drifted)
        if len(drifted) < MOST_KEPT:
            return


def _is_known(key: TupleKey) -> bool:
    return _takes_tuples(key.object.partition(":")[0], key.relation)


@cache
def _takes_tuples(object_type: str, relation: str) -> bool:
    """Whether our model has the relation, as one that tuples say; any other has no effect on what we ask."""
    expression = unfolded_model().types.get(object_type, {}).get(relation)
    return expression is not None and any(isinstance(part, Direct) for part in parts_of(expression))


def pages_of(store: OpenFgaStore) -> Iterator[list[StoredTuple]]:
    """All tuples of the store, in OpenFGA's order."""
    after = ""
    while True:
        page, after = store.read(after=after)
        yield page
        if not after:
            return


def _tuples_on(store: OpenFgaStore, own_id: str) -> Iterator[StoredTuple]:
    after = ""
    while True:
        page, after = store.read(on=own_id, after=after)
        yield from page
        if not after:
            return


def _batches_of_objects(after: str) -> Iterator[list[str]]:
    while True:
        rows = Securable.objects.filter(pk__gt=after).order_by("pk")
        ids = list(rows.values_list("pk", flat=True)[:OBJECTS_AT_ONCE])
        if not ids:
            return
        yield ids
        after = ids[-1]


def _deliver(keys: Iterable[TupleKey]) -> None:
    wrong = list(keys)
    if not wrong:
        return
    delivery = new_id()
    with write_transaction():
        mark_pending(wrong, delivery)
    deliver_now(delivery)


def _is_same(wanted: Condition | None, expires_at: str | None) -> bool:
    """OpenFGA keeps times as they were written."""
    if wanted is None or expires_at is None:
        return wanted is None and expires_at is None
    if wanted.expires_at is None:
        return expires_at == FOREVER
    try:
        return datetime.fromisoformat(expires_at).astimezone(UTC) == wanted.expires_at.astimezone(UTC)
    except ValueError:
        return False
