"""Tuples on their way to OpenFGA: written there as our rows have them now, and then no longer undelivered.

One delivery at a time has a tuple to itself (`UndeliveredTuple.holder`), for longer than what it sent can take to come
about. So what fails in doubt is not sent by others before that, and can undo nothing that came later; and no lock is
held while OpenFGA is asked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.periodic_thread import PeriodicThread
from tenancy import maintenance
from tenancy.actor import Actor
from tenancy.authz.openfga.failures import OpenFgaUnavailable
from tenancy.authz.openfga.holding import HELD_SECONDS, is_openfga
from tenancy.authz.openfga.sending import LEAST_HELD, Sending
from tenancy.authz.openfga.store import PAGE, openfga_store
from tenancy.authz.openfga.tuples import TupleKey
from tenancy.models import UndeliveredTuple

EVERY_SECONDS: Final = 2.0
"""How often a server process looks for what was left undelivered."""

PATIENCE: Final = 3.0
"""Seconds that who changed something waits until it is delivered."""
GLANCE: Final = 0.05
"""Seconds between two looks at what somebody else delivers."""
TAKEN_AT_ONCE: Final = 1000

logger = logging.getLogger("icekeeper.authz")


def deliver_before_answer(delivery: UUID) -> None:
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
            time.sleep(GLANCE)
            _take(delivery, UndeliveredTuple.objects.filter(changed_by=delivery, held_until__lte=now()))
            _deliver(delivery, until=until)
    except OpenFgaUnavailable as failure:
        logger.warning("a change is not in OpenFGA yet, and counts only as far as it takes away: %s", failure.reason)


def deliver_left(*, actor: Actor) -> int:
    """What crashes and outages left undelivered (`PERIODIC_TASKS`); how many tuples that were.

    Raises `OpenFgaUnavailable`.
    """
    if not is_openfga() or maintenance.is_read_only():
        return 0
    return deliver_all_left()


def deliver_all_left() -> int:
    """As `deliver_left`, whoever decides. Raises `OpenFgaUnavailable`."""
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
            delivered = deliver_all_left()
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
        held_until = now() + timedelta(seconds=HELD_SECONDS)
        return UndeliveredTuple.objects.filter(pk__in=ids).update(holder=delivery, held_until=held_until) if ids else 0


def _deliver(delivery: UUID, *, until: float | None) -> int:
    """What the delivery holds; how many tuples. Raises `OpenFgaUnavailable`, having let go of what was not sent."""
    delivered = 0
    held = UndeliveredTuple.objects.filter(holder=delivery)
    while rows := list(held.order_by("id")[:PAGE]):
        if until is not None and time.monotonic() > until:
            held.update(held_until=now())
            return delivered
        if min(row.held_until for row in rows) < now() + timedelta(seconds=LEAST_HELD):
            held.update(held_until=now() + timedelta(seconds=HELD_SECONDS))
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
    held.update(holder=nobody, held_until=now() + timedelta(seconds=HELD_SECONDS))


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
