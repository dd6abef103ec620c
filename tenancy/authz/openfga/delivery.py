"""Delivers pending tuples to OpenFGA: writes them as our rows have them, then deletes their outbox rows.

A delivery holds a lease on a tuple (`UndeliveredTuple.holder`) for longer than its requests can take effect. So after a
request with an unknown result no other delivery sends the tuple until that result cannot change any more, and nothing
newer is undone. No database lock is held during requests to OpenFGA.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.request_context import deadline
from tenancy.actor import Actor
from tenancy.authz.openfga.client import OpenFgaRequestRejected, OpenFgaUnavailable
from tenancy.authz.openfga.store import PAGE_SIZE, OpenFgaStore, openfga_store
from tenancy.authz.openfga.tuples import Condition, DesiredTuples, TupleKey, desired_tuples, end_of
from tenancy.authz.port import is_openfga
from tenancy.models import UndeliveredTuple

LEASE_SECONDS: Final = 30.0
"""The lease of a delivery on a tuple: longer than its requests can take effect."""


MAX_WRITE_SECONDS: Final = LEASE_SECONDS / 3
"""For one write, including the request for a token and the look-up of the store."""
MIN_LEASE_SECONDS: Final = LEASE_SECONDS / 2
"""What must remain of the lease when the desired tuples are read: enough for a write and its late effect."""


MAX_READ_OBJECTS: Final = 10
"""Objects whose tuples are read after a conflict; all tuples of others count as different."""
_CONFLICT: Final = 409


_BAD_REQUEST: Final = 400


logger = logging.getLogger("icekeeper.authz")


class Batch:
    """Outbox rows that one write can take, on which `delivery` has a lease of at least `MIN_LEASE_SECONDS`.

    No request starts after `until` (monotonic clock), except writes of tuples that were deleted to be replaced.
    """

    def __init__(
        self, store: OpenFgaStore, delivery: UUID, rows: Sequence[UndeliveredTuple], *, until: float | None
    ) -> None:
        self._store, self._delivery, self._until = store, delivery, until
        self._rows = {TupleKey(row.object, row.relation, row.subject): row for row in rows}
        self._write_until = time.monotonic() + MAX_WRITE_SECONDS
        self._is_fresh = True
        self.delivered: set[TupleKey] = set()
        """Tuples that OpenFGA now has as our rows say."""
        self.rejected: set[TupleKey] = set()
        """Tuples that OpenFGA does not accept."""
        self.is_in_doubt = False
        """Whether an earlier copy of a request may still take effect after the last one did."""

    def run(self) -> None:
        """Deliver until `until`. Raises `OpenFgaUnavailable`."""
        parts = [list(self._rows)]
        while parts:
            part = parts.pop()
            try:
                self.delivered |= self._write(part)
            except OpenFgaRequestRejected as rejection:
                self.is_in_doubt |= rejection.is_in_doubt
                if rejection.openfga_status == _CONFLICT:
                    self.delivered |= self._write_over(part)
                elif rejection.openfga_status != _BAD_REQUEST:
                    raise
                elif len(part) > 1:  # OpenFGA rejects one of them: find it by halving
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                else:
                    self.rejected |= set(part)
                    logger.error(  # noqa: TRY400 - what it says is the reason
                        "OpenFGA rejects a tuple, which stays pending: %s: %s", part[0], rejection.reason
                    )
            if self._is_over():
                return

    def _write(self, keys: Sequence[TupleKey]) -> set[TupleKey]:
        """Write the tuples whose lease is still ours and return them."""
        leased_keys, wanted = self._current(keys)
        self._put(wanted, [key for key in leased_keys if key not in wanted])
        return set(leased_keys)

    def _write_over(self, keys: Sequence[TupleKey]) -> set[TupleKey]:
        """As `_write`, after a conflict: tuples with another expiry in OpenFGA are deleted first, in one request."""
        unchanged = self._find_unchanged(desired_tuples(keys))
        if self._is_over():
            return set()
        leased_keys, wanted = self._current(keys)
        self._put({}, [key for key in leased_keys if key not in wanted or (key, end_of(wanted[key])) not in unchanged])
        return self._write(leased_keys)

    def _find_unchanged(self, wanted: DesiredTuples) -> set[tuple[TupleKey, str | None]]:
        """Return tuples that OpenFGA has with the desired expiry, as one page of each of a few objects shows."""
        found: set[tuple[TupleKey, str | None]] = set()
        for own_id in list(dict.fromkeys(key.object for key in wanted))[:MAX_READ_OBJECTS]:
            if self._is_over():
                break
            page, _ = self._store.read(on=own_id)
            found |= {(each.key, each.expires_at) for each in page}
        return found

    def _current(self, keys: Sequence[TupleKey]) -> tuple[list[TupleKey], DesiredTuples]:
        """Return those of `keys` with a lease, and their desired state, which must be written before `_write_until`."""
        if not self._is_fresh:
            self._renew_leases()
        self._is_fresh = False
        leased_keys = [key for key in keys if key in self._rows]
        return leased_keys, desired_tuples(leased_keys)

    def _renew_leases(self) -> None:
        """Renew the leases that are still ours and drop the other rows."""
        begun = time.monotonic()
        leased = UndeliveredTuple.objects.filter(pk__in=[row.pk for row in self._rows.values()], holder=self._delivery)
        leased.update(held_until=now() + timedelta(seconds=LEASE_SECONDS))
        ours = set(leased.values_list("pk", flat=True))
        self._rows = {key: row for key, row in self._rows.items() if row.pk in ours}
        self._write_until = begun + MAX_WRITE_SECONDS

    def _put(self, written: Mapping[TupleKey, Condition | None], deleted: Sequence[TupleKey]) -> None:
        try:
            with deadline(self._write_until):
                self.is_in_doubt |= self._store.write(written, deleted)
        except RequestTimeout:
            raise OpenFgaUnavailable("a write took longer than the lease of its tuples", is_in_doubt=True) from None

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() > self._until


MAX_WAIT_SECONDS: Final = 3.0
"""How long a request waits until its change is delivered."""


POLL_SECONDS: Final = 0.05
"""How often a request checks whether another delivery has delivered its change."""
MAX_LEASED: Final = 1000


def deliver_before_response(delivery: UUID) -> None:
    """Deliver the tuples of one transaction within `MAX_WAIT_SECONDS`; errors of OpenFGA are logged, not raised.

    Tuples that another delivery has a lease on are waited for.
    """
    until = time.monotonic() + MAX_WAIT_SECONDS
    try:
        _deliver(delivery, until=until)
        while UndeliveredTuple.objects.filter(changed_by=delivery).exists():
            if time.monotonic() > until:
                logger.warning("a change reaches OpenFGA later: another delivery has it, or there are too many")
                return
            time.sleep(POLL_SECONDS)
            _lease(delivery, UndeliveredTuple.objects.filter(changed_by=delivery, held_until__lte=now()))
            _deliver(delivery, until=until)
    except OpenFgaUnavailable as failure:
        logger.warning("a change is not in OpenFGA yet; until then only revocations take effect: %s", failure.reason)


def deliver_pending(*, actor: Actor) -> int:
    """Deliver tuples that crashes and outages left pending (`PERIODIC_JOBS`); return how many.

    Raises `OpenFgaUnavailable`.
    """
    if not is_openfga():
        return 0
    return deliver_all_pending()


def deliver_all_pending() -> int:
    """As `deliver_pending`, whichever backend decides. Raises `OpenFgaUnavailable`."""
    delivered = 0
    while True:
        delivery = new_id()
        taken = _lease(delivery, UndeliveredTuple.objects.filter(held_until__lte=now()))
        if not taken:
            return delivered
        delivered += _deliver(delivery, until=None)


def deliver_now(delivery: UUID) -> None:
    """Deliver the tuples of `delivery` that no other one has a lease on. Raises `OpenFgaUnavailable`."""
    _deliver(delivery, until=None)


def deliver_late() -> None:
    """Deliver in a server process what is pending (`PERIODIC_JOBS`). Raises `OpenFgaUnavailable`."""
    delivered = deliver_all_pending()
    if delivered:
        logger.info("%s tuples were delivered late to OpenFGA", delivered)


def _lease(delivery: UUID, free: Iterable[UndeliveredTuple]) -> int:
    with write_transaction():
        wanted = free.order_by("id").select_for_update(skip_locked=True)  # type: ignore[attr-defined]  # a QuerySet
        ids = list(wanted.values_list("pk", flat=True)[:MAX_LEASED])
        held_until = now() + timedelta(seconds=LEASE_SECONDS)
        return UndeliveredTuple.objects.filter(pk__in=ids).update(holder=delivery, held_until=held_until) if ids else 0


def _deliver(delivery: UUID, *, until: float | None) -> int:
    """Deliver the tuples that `delivery` has a lease on and return how many.

    Raises `OpenFgaUnavailable` after it has released the leases of tuples that were not sent.
    """
    delivered = 0
    leased = UndeliveredTuple.objects.filter(holder=delivery)
    while rows := list(leased.order_by("id")[:PAGE_SIZE]):
        if until is not None and time.monotonic() > until:
            leased.update(held_until=now())
            return delivered
        if min(row.held_until for row in rows) < now() + timedelta(seconds=MIN_LEASE_SECONDS):
            leased.update(held_until=now() + timedelta(seconds=LEASE_SECONDS))
            continue  # another delivery may have some of them by now
        batch = Batch(openfga_store(), delivery, rows, until=until)
        try:
            batch.run()
        except OpenFgaUnavailable as failure:
            doubtful = [row.pk for row in rows] if failure.is_in_doubt or batch.is_in_doubt else []
            leased.exclude(pk__in=doubtful).update(held_until=now())
            raise
        done = [row for row in rows if _key(row) in batch.delivered]
        if batch.is_in_doubt:
            _leave_in_doubt(delivery, rows, done)
            continue
        delivered += _delete_delivered(delivery, done)
        if batch.rejected:
            # Their result is known, and another try would be rejected too: they wait until the lease expires.
            refused = [row.pk for row in rows if _key(row) in batch.rejected]
            unused = new_id()
            leased.filter(pk__in=refused).update(holder=unused, changed_by=unused)
    return delivered


def _leave_in_doubt(delivery: UUID, rows: Sequence[UndeliveredTuple], done: Sequence[UndeliveredTuple]) -> None:
    """OpenFGA has those of `done`, but an earlier copy may still take effect: deliver all again after that.

    No request waits for it: meanwhile our rows must allow the same.
    """
    logger.warning("a write to OpenFGA was sent twice: its tuples are delivered once more later")
    unused = new_id()
    leased = UndeliveredTuple.objects.filter(pk__in=[row.pk for row in rows], holder=delivery)
    delivered = leased.filter(pk__in=[row.pk for row in done], changed_by__in={row.changed_by for row in done})
    delivered.update(changed_by=unused)
    leased.update(holder=unused, held_until=now() + timedelta(seconds=LEASE_SECONDS))


def _delete_delivered(delivery: UUID, rows: Sequence[UndeliveredTuple]) -> int:
    """Delete the rows that have not changed since they were read; return how many."""
    changes = {row.changed_by for row in rows}
    with write_transaction():
        same = UndeliveredTuple.objects.filter(
            pk__in=[row.pk for row in rows], holder=delivery, changed_by__in=changes
        ).order_by("object", "relation", "subject")
        ids = list(same.select_for_update().values_list("pk", flat=True))
        return UndeliveredTuple.objects.filter(pk__in=ids).delete()[0]


def _key(row: UndeliveredTuple) -> TupleKey:
    return TupleKey(row.object, row.relation, row.subject)
