"""What is done for a task of each queue. Each is a service that ends the task in the transaction of its last step."""

from __future__ import annotations

from collections.abc import Callable

from catalog.services.locations.purge import purge
from catalog.services.tables.drop import expire_tabular
from tasks.queue.leases import Lease
from tasks.queue.models import Task
from tenancy.actor import INTERNAL

Work = Callable[[Lease, Callable[[], object]], None]
"""Called with the lease and with what must be called before each step of long work."""

WORK: dict[str, Work] = {
    Task.Queue.SOFT_DELETION.value: lambda lease, _: expire_tabular(actor=INTERNAL, lease=lease),
    Task.Queue.TABULAR_PURGE.value: purge,
}
