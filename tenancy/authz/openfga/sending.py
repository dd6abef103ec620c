"""A page of tuples on its way to OpenFGA, as long as its delivery has them for itself.

What our rows say is read again before each write, and what somebody else holds by then is left to them: so nothing is
written that was read before a newer change was delivered, however slowly OpenFGA answers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.request.deadline import deadline
from tenancy.authz.openfga.failures import OpenFgaRefused, OpenFgaUnavailable
from tenancy.authz.openfga.holding import HELD_SECONDS
from tenancy.authz.openfga.recorded import Recorded, recorded_among
from tenancy.authz.openfga.store import OpenFgaStore
from tenancy.authz.openfga.tuples import Condition, TupleKey, end_of
from tenancy.models import UndeliveredTuple

LONGEST_WRITE: Final = HELD_SECONDS / 3
"""Seconds for one write with all that belongs to it, as a token or the search for the store."""
LEAST_HELD: Final = HELD_SECONDS / 2
"""Seconds for which a tuple must be held yet when what is to be written is read: so much longer than a write, that what
is still on the wire at its end does not come about later."""
MOST_READ: Final = 10
"""Objects whose tuples are looked at; of others everything counts as differing."""

_CONFLICT: Final = 409
_BAD_REQUEST: Final = 400

logger = logging.getLogger("icekeeper.authz")


class Sending:
    """Rows that `delivery` holds for `LEAST_HELD` or more from now on, no more than one write takes.

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
        fine = self._already_there(recorded_among(keys))
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
        return mine, recorded_among(mine)

    def _hold_on(self) -> None:
        """Hold what is still ours for another while, and forget the rest."""
        begun = time.monotonic()
        held = UndeliveredTuple.objects.filter(pk__in=[row.pk for row in self._rows.values()], holder=self._delivery)
        held.update(held_until=now() + timedelta(seconds=HELD_SECONDS))
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
