"""Whether OpenFGA has all that our relation rows say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.ids import new_id
from tenancy.authz.changes import rights_changed, rights_changes
from tenancy.authz.openfga.tuples import TupleKey
from tenancy.models import UndeliveredTuple

_ANY = "SELECT 1 FROM tenancy_undeliveredtuple LIMIT 1"


_EVERYTHING: Final = TupleKey("*", "*", "*")
"""No tuple: stands for all of them where nobody knows which are as they should be."""
_NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


def require_reconciliation() -> None:
    """Rights were changed without OpenFGA being told: until `reconciled`, what it says must be in our rows, too."""
    nobody = new_id()
    everything = _EVERYTHING._asdict()
    rest = {"changed_by": nobody, "holder": nobody, "held_until": _NEVER}
    with write_transaction():
        UndeliveredTuple.objects.get_or_create(**everything, defaults=rest)
        rights_changed()


def reconciled() -> None:
    """OpenFGA has all that our rows say, and nothing else, but for what is noted by itself."""
    UndeliveredTuple.objects.filter(**_EVERYTHING._asdict()).delete()


class Undelivered:
    """That nothing is on its way is remembered until rights change; new objects matter to nobody who asked before."""

    def __init__(self) -> None:
        self._none_at: int | None = None

    def is_none(self) -> bool:
        """Costs no statement while it is remembered."""
        stamp = rights_changes.stamp()
        if self._none_at == stamp and rights_changes.is_watched():
            return True
        is_none = fetch_one("default", _ANY, []) is None
        if is_none:
            self._none_at = stamp
        return is_none

    def forget(self) -> None:
        self._none_at = None
