"""Compare the error responses for hidden and for missing objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tenancy.audit.collector import collector
from tenancy.models import AuditRecord
from tests.harness.wsgi_client import Response


class Reported(NamedTuple):
    """What the caller can observe: the error, and whether the server wrote audit rows before the response."""

    status: int
    wire_type: str
    message: str
    rows_written: int


def reported(act: Callable[[], Response], name: str) -> Reported:
    """Return what `act` shows its caller, with X for `name`.

    Earlier denials are cleared first, because the limits of the collector would otherwise drop the rows of this one.
    """
    collector.clear()
    before = AuditRecord.objects.count()
    response = act()
    error = response.error
    rows = AuditRecord.objects.count() - before
    return Reported(response.status, error["type"], error["message"].replace(name, "X"), rows)
