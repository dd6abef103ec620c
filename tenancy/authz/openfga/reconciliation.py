"""Compares the tuples in OpenFGA with our rows, object by object, and corrects the differences.

Differences are marked as pending and delivered like every change, so that servers can keep running and none of their
changes is undone. A run can be stopped at any time and continued after the last reported object.

A store may also contain tuples of other applications. Tuples that our model does not define are never deleted, and
nothing is deleted if models of other applications show that the store is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Final, Literal

from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.ids import new_id
from tenancy.authz.model import Direct, parts_of
from tenancy.authz.openfga.authorization_model import unfolded_model
from tenancy.authz.openfga.delivery import deliver_now
from tenancy.authz.openfga.outbox import mark_pending, mark_reconciled
from tenancy.authz.openfga.store import OpenFgaStore, StoredTuple, foreign_models
from tenancy.authz.openfga.tuples import FOREVER, Condition, DesiredTuples, TupleKey, desired_tuples_on
from tenancy.models import Securable

OBJECT_BATCH_SIZE: Final = 100
MAX_PENDING_DELETES: Final = 10_000
"""Tuples without an object that are collected before they are deleted and the search restarts."""

Mode = Literal["add-missing", "add-and-delete-drift"]


class StoreIsShared(Exception):
    """The store has models of other applications: nothing was changed."""


@dataclass(slots=True)
class ReconciliationResult:
    """Counts of compared objects and of tuples that are missing, differ in expiry or have no row.

    `foreign` tuples are kept, since our model does not have their type or relation.
    """

    objects: int = 0
    missing: int = 0
    differing: int = 0
    drifted: int = 0
    foreign: int = 0
    examples: list[str] = field(default_factory=list)

    def add_example(self, what: str, key: TupleKey) -> None:
        if len(self.examples) < 20:  # noqa: PLR2004 - enough to see what it is about
            self.examples.append(f"{what}: {key.object}#{key.relation}@{key.subject}")


def reconcile(
    store: OpenFgaStore,
    *,
    mode: Mode,
    is_dry_run: bool,
    owns_store: bool = False,
    after: str = "",
    progress: Callable[[ReconciliationResult, str], None] = lambda _result, _last: None,
) -> ReconciliationResult:
    """Find tuples in OpenFGA that differ from our rows, and correct them unless `is_dry_run`.

    `add-missing` keeps tuples without a row. Objects are compared in the order of their ids, beginning after `after`;
    `progress` is called with the last id of each batch. With `owns_store` the operator confirms that all tuples in the
    store belong to this server, whatever models it has.

    Raises `OpenFgaUnavailable`; `StoreIsShared` if tuples of another application might be deleted.
    """
    result = ReconciliationResult()
    deletes = mode == "add-and-delete-drift"
    if deletes and not is_dry_run and not owns_store:
        _require_no_others(store)
    for ids in _batches_of_objects(after):
        wanted = desired_tuples_on(ids)
        wrong: list[TupleKey] = []
        for own_id in ids:
            wrong += _differences(result, own_id, wanted, list(_tuples_on(store, own_id)), deletes=deletes)
        result.objects += len(ids)
        if not is_dry_run:
            _deliver(wrong)
        progress(result, ids[-1])
    if deletes:
        _reconcile_unknown_objects(store, result, is_dry_run=is_dry_run)
        if not after and not is_dry_run:
            mark_reconciled()
    return result


def _require_no_others(store: OpenFgaStore) -> None:
    others = foreign_models(store)
    if others:
        raise StoreIsShared(f"it has models that are not of this server, such as {', '.join(others[:3])}")


def _differences(
    result: ReconciliationResult, own_id: str, recorded: DesiredTuples, stored: Sequence[StoredTuple], *, deletes: bool
) -> list[TupleKey]:
    wanted = {key: condition for key, condition in recorded.items() if key.object == own_id}
    expiries = {each.key: each.expires_at for each in stored}
    missing = [key for key in wanted if key not in expiries]
    differing = [key for key in wanted if key in expiries and not _is_same(wanted[key], expiries[key])]
    drifted = [key for key in expiries if key not in wanted and _is_known(key)] if deletes else []
    for what, keys in (("missing", missing), ("other end", differing), ("no row", drifted)):
        for key in keys:
            result.add_example(what, key)
    result.missing += len(missing)
    result.differing += len(differing)
    result.drifted += len(drifted)
    return [*missing, *differing, *drifted]


def _reconcile_unknown_objects(store: OpenFgaStore, result: ReconciliationResult, *, is_dry_run: bool) -> None:
    """Find tuples on objects that no longer exist, and delete them unless `is_dry_run`."""
    while True:
        drifted: list[TupleKey] = []
        result.foreign = 0
        for page in pages_of(store):
            result.foreign += sum(not _is_known(each.key) for each in page)
            ids = {each.key.object for each in page}
            known = set(Securable.objects.filter(pk__in=ids).values_list("pk", flat=True))
            found = [each.key for each in page if each.key.object not in known and _is_known(each.key)]
            result.drifted += len(found)
            for key in found:
                result.add_example("no object", key)
            if not is_dry_run:
                drifted += found
            if len(drifted) >= MAX_PENDING_DELETES:
                break
        # Not while pages are read: a page token may depend on the tuples in the store.
        _deliver(drifted)
        if len(drifted) < MAX_PENDING_DELETES:
            return


def _is_known(key: TupleKey) -> bool:
    return _takes_tuples(key.object.partition(":")[0], key.relation)


@cache
def _takes_tuples(object_type: str, relation: str) -> bool:
    """Return whether tuples can have the relation in our model; no other tuple affects our checks."""
    expression = unfolded_model().types.get(object_type, {}).get(relation)
    return expression is not None and any(isinstance(part, Direct) for part in parts_of(expression))


def pages_of(store: OpenFgaStore) -> Iterator[list[StoredTuple]]:
    """Yield all tuples of the store, in OpenFGA's order."""
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
        ids = list(rows.values_list("pk", flat=True)[:OBJECT_BATCH_SIZE])
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
    """Compare expiry times, which OpenFGA keeps as they were written."""
    if wanted is None or expires_at is None:
        return wanted is None and expires_at is None
    if wanted.expires_at is None:
        return expires_at == FOREVER
    try:
        return datetime.fromisoformat(expires_at).astimezone(UTC) == wanted.expires_at.astimezone(UTC)
    except ValueError:
        return False
