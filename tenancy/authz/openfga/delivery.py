"""Tuples on their way to OpenFGA: written there as our rows have them now, and then no longer undelivered.

One delivery at a time has a tuple to itself (`UndeliveredTuple.holder`), for longer than what it sent can take to come
about. So what fails in doubt is not sent by others before that, and can undo nothing that came later; and no lock is
held while OpenFGA is asked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.periodic_thread import PeriodicThread
from icekeeper.kernel.request.deadline import deadline
from tenancy import maintenance
from tenancy.actor import Actor
from tenancy.authz.openfga.client import OpenFgaRefused, OpenFgaUnavailable
from tenancy.authz.openfga.store import PAGE, OpenFgaStore, openfga_store
from tenancy.authz.openfga.tuples import Condition, Recorded, TupleKey, desired_tuples, end_of
from tenancy.models import UndeliveredTuple

LEASE_SECONDS: Final = 30.0
"""For how long a delivery has a tuple for itself: longer than anything it sent can take to come about."""


def is_openfga() -> bool:
    """Whether there is anybody to tell."""
    return bool(settings.ICEKEEPER.effective_authz_backend == "openfga")


LONGEST_WRITE: Final = LEASE_SECONDS / 3
"""Seconds for one write with all that belongs to it, as a token or the search for the store."""


MIN_LEASE_SECONDS: Final = LEASE_SECONDS / 2
"""Seconds for which a tuple must be held yet when what is to be written is read: so much longer than a write, that what
is still on the wire at its end does not come about later."""


MOST_READ: Final = 10
"""Objects whose tuples are looked at; of others everything counts as differing."""


_CONFLICT: Final = 409


_BAD_REQUEST: Final = 400


logger = logging.getLogger("icekeeper.authz")


class Sending:
    """Rows that `delivery` holds for `MIN_LEASE_SECONDS` or more from now on, no more than one write takes.

    `until`, on the monotonic clock, is when nothing more is begun; what was taken away to be written anew is written.
    """

    def __init__(
        self, store: OpenFgaStore, delivery: UUID, rows: Sequence[UndeliveredTuple], *, until: float | None
    ) -> None:
        self._store, self._delivery, self._until = store, delivery, until
        self._rows = {TupleKey(row.object, row.relation, row.subject): row for row in rows}
        self._write_until = time.monotonic() + LONGEST_WRITE
        self._is_fresh = True
        self.delivered: set[TupleKey] = set()
        """What OpenFGA has as our rows say."""
        self.refused: set[TupleKey] = set()
        """What it does not take."""
        self.is_in_doubt = False
        """Whether something that was sent before may still come about, though what was sent last did."""

    def run(self) -> None:
        """As far as `until` goes. Raises `OpenFgaUnavailable`."""
        waiting = [list(self._rows)]
        while waiting:
            part = waiting.pop()
            try:
                self.delivered |= self._write(part)
            except OpenFgaRefused as refusal:
                self.is_in_doubt |= refusal.is_in_doubt
                if refusal.answered == _CONFLICT:
                    self.delivered |= self._write_over(part)
                elif refusal.answered != _BAD_REQUEST:
                    raise
                elif len(part) > 1:  # one of them is refused: the others are found by halves
                    waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
                else:
                    self.refused |= set(part)
                    logger.error(  # noqa: TRY400 - what it says is the reason
                        "OpenFGA does not take a tuple, which stays undelivered: %s: %s", part[0], refusal.reason
                    )
            if self._is_over():
                return

    def _write(self, keys: Sequence[TupleKey]) -> set[TupleKey]:
        """Those that were still ours and are now in OpenFGA as the rows say."""
        mine, wanted = self._current(keys)
        self._put(wanted, [key for key in mine if key not in wanted])
        return set(mine)

    def _write_over(self, keys: Sequence[TupleKey]) -> set[TupleKey]:
        """As `_write`, where OpenFGA has some of them with another end: these are taken away first, all at once."""
        fine = self._already_there(desired_tuples(keys))
        if self._is_over():
            return set()
        mine, wanted = self._current(keys)
        self._put({}, [key for key in mine if key not in wanted or (key, end_of(wanted[key])) not in fine])
        return self._write(mine)

    def _already_there(self, wanted: Recorded) -> set[tuple[TupleKey, str | None]]:
        """What OpenFGA has with the very end that is wanted, as far as one look at each of a few objects shows."""
        found: set[tuple[TupleKey, str | None]] = set()
        for own_id in list(dict.fromkeys(key.object for key in wanted))[:MOST_READ]:
            if self._is_over():
                break
            page, _ = self._store.read(on=own_id)
            found |= {(each.key, each.expires_at) for each in page}
        return found

    def _current(self, keys: Sequence[TupleKey]) -> tuple[list[TupleKey], Recorded]:
        """Those of `keys` that are still ours, and what the rows say of them: to be written before `_write_until`."""
        if not self._is_fresh:
            self._hold_on()
        self._is_fresh = False
        mine = [key for key in keys if key in self._rows]
        return mine, desired_tuples(mine)

    def _hold_on(self) -> None:
        """Hold what is still ours for another while, and forget the rest."""
        begun = time.monotonic()
        held = UndeliveredTuple.objects.filter(pk__in=[row.pk for row in self._rows.values()], holder=self._delivery)
        held.update(held_until=now() + timedelta(seconds=LEASE_SECONDS))
        ours = set(held.values_list("pk", flat=True))
        self._rows = {key: row for key, row in self._rows.items() if row.pk in ours}
        self._write_until = begun + LONGEST_WRITE

    def _put(self, written: Mapping[TupleKey, Condition | None], deleted: Sequence[TupleKey]) -> None:
        try:
            with deadline(self._write_until):
                self.is_in_doubt |= self._store.write(written, deleted)
        except RequestTimeout:
            raise OpenFgaUnavailable("a write took longer than its tuples are held", is_in_doubt=True) from None

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() > self._until


EVERY_SECONDS: Final = 2.0
"""How often a server process looks for what was left undelivered."""


PATIENCE: Final = 3.0
"""Seconds that who changed something waits until it is delivered."""


POLL_SECONDS: Final = 0.05
"""Seconds between two looks at what somebody else delivers."""


TAKEN_AT_ONCE: Final = 1000


def deliver_before_response(delivery: UUID) -> None:
    """All that the transaction of this delivery noted, as far as that goes in `PATIENCE`. Raises nothing of OpenFGA's.

    What others hold is theirs to deliver; it is waited for.
    """
    until = time.monotonic() + PATIENCE
    try:
        _deliver(delivery, until=until)
        while UndeliveredTuple.objects.filter(changed_by=delivery).exists():
            if time.monotonic() > until:
                logger.warning("OpenFGA will have a change later: somebody else is delivering it, or there is too much")
                return
            time.sleep(POLL_SECONDS)
            _take(delivery, UndeliveredTuple.objects.filter(changed_by=delivery, held_until__lte=now()))
            _deliver(delivery, until=until)
    except OpenFgaUnavailable as failure:
        logger.warning("a change is not in OpenFGA yet, and counts only as far as it takes away: %s", failure.reason)


def deliver_pending(*, actor: Actor) -> int:
    """What crashes and outages left undelivered (`PERIODIC_TASKS`); how many tuples that were.

    Raises `OpenFgaUnavailable`.
    """
    if not is_openfga() or maintenance.is_read_only():
        return 0
    return deliver_all_pending()


def deliver_all_pending() -> int:
    """As `deliver_pending`, whoever decides. Raises `OpenFgaUnavailable`."""
    delivered = 0
    while True:
        delivery = new_id()
        taken = _take(delivery, UndeliveredTuple.objects.filter(held_until__lte=now()))
        if not taken:
            return delivered
        delivered += _deliver(delivery, until=None)


def deliver_now(delivery: UUID) -> None:
    """What was marked for this delivery, but for what others are delivering. Raises `OpenFgaUnavailable`."""
    _deliver(delivery, until=None)


def start_delivering() -> Callable[[], None]:
    """Begin, in a process that serves (`BACKGROUND_JOBS`); what is returned ends it."""
    if not is_openfga():
        return lambda: None
    thread = PeriodicThread("openfga", _look, interval=EVERY_SECONDS)
    thread.start()
    return thread.stop


def _look() -> None:
    try:
        if not maintenance.is_read_only():
            delivered = deliver_all_pending()
            if delivered:
                logger.info("%s tuples were delivered late to OpenFGA", delivered)
    except OpenFgaUnavailable as failure:
        logger.warning("changes are not in OpenFGA yet: %s", failure.reason)
    except Exception as error:  # noqa: BLE001 - a thread that ends at the first error would never look again
        logger.warning("what is undelivered cannot be looked at: %s", error)


def _take(delivery: UUID, free: Iterable[UndeliveredTuple]) -> int:
    with write_transaction():
        wanted = free.order_by("id").select_for_update(skip_locked=True)  # type: ignore[attr-defined]  # a QuerySet
        ids = list(wanted.values_list("pk", flat=True)[:TAKEN_AT_ONCE])
        held_until = now() + timedelta(seconds=LEASE_SECONDS)
        return UndeliveredTuple.objects.filter(pk__in=ids).update(holder=delivery, held_until=held_until) if ids else 0


def _deliver(delivery: UUID, *, until: float | None) -> int:
    """What the delivery holds; how many tuples. Raises `OpenFgaUnavailable`, having let go of what was not sent."""
    delivered = 0
    held = UndeliveredTuple.objects.filter(holder=delivery)
    while rows := list(held.order_by("id")[:PAGE]):
        if until is not None and time.monotonic() > until:
            held.update(held_until=now())
            return delivered
        if min(row.held_until for row in rows) < now() + timedelta(seconds=MIN_LEASE_SECONDS):
            held.update(held_until=now() + timedelta(seconds=LEASE_SECONDS))
            continue  # of these some may be somebody else's by now
        sending = Sending(openfga_store(), delivery, rows, until=until)
        try:
            sending.run()
        except OpenFgaUnavailable as failure:
            doubtful = [row.pk for row in rows] if failure.is_in_doubt or sending.is_in_doubt else []
            held.exclude(pk__in=doubtful).update(held_until=now())
            raise
        done = [row for row in rows if _key(row) in sending.delivered]
        if sending.is_in_doubt:
            _leave_in_doubt(delivery, rows, done)
            continue
        delivered += _settle(delivery, done)
        if sending.refused:
            # Nothing is in doubt about them, and they would be refused again: they wait for their time.
            refused = [row.pk for row in rows if _key(row) in sending.refused]
            nobody = new_id()
            held.filter(pk__in=refused).update(holder=nobody, changed_by=nobody)
    return delivered


def _leave_in_doubt(delivery: UUID, rows: Sequence[UndeliveredTuple], done: Sequence[UndeliveredTuple]) -> None:
    """OpenFGA has those of `done`, but a copy that was sent before may come about: all are delivered anew after that.

    Nobody need wait for it: meanwhile our rows must say the same.
    """
    logger.warning("a write to OpenFGA had to be sent twice: its tuples are delivered once more later")
    nobody = new_id()
    held = UndeliveredTuple.objects.filter(pk__in=[row.pk for row in rows], holder=delivery)
    delivered = held.filter(pk__in=[row.pk for row in done], changed_by__in={row.changed_by for row in done})
    delivered.update(changed_by=nobody)
    held.update(holder=nobody, held_until=now() + timedelta(seconds=LEASE_SECONDS))


def _settle(delivery: UUID, rows: Sequence[UndeliveredTuple]) -> int:
    """Those are delivered that nobody has changed since they were read."""
    changes = {row.changed_by for row in rows}
    with write_transaction():
        same = UndeliveredTuple.objects.filter(
            pk__in=[row.pk for row in rows], holder=delivery, changed_by__in=changes
        ).order_by("object", "relation", "subject")
        ids = list(same.select_for_update().values_list("pk", flat=True))
        return UndeliveredTuple.objects.filter(pk__in=ids).delete()[0]


def _key(row: UndeliveredTuple) -> TupleKey:
    return TupleKey(row.object, row.relation, row.subject)
