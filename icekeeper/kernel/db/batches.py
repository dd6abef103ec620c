"""Deleting many rows beside others who use the table."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from icekeeper.kernel.db.write_transaction import write_transaction

BATCH = 500
"""Rows of one delete: SQLite takes a bounded number of parameters, and nobody waits long for the locks."""


def delete_in_batches(old: QuerySet[Any], *, batch: int = BATCH) -> int:
    """Delete what `old` finds; how many rows that were.

    Each batch is a transaction of its own and leaves out rows that others hold, so this may be stopped at any time
    and run beside requests and beside itself.
    """
    deleted = 0
    while True:
        with write_transaction():
            ids = list(old.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True)[:batch])
            old.model._default_manager.filter(pk__in=ids).delete()  # noqa: SLF001 - Django's own name for it
        deleted += len(ids)
        if len(ids) < batch:
            return deleted
