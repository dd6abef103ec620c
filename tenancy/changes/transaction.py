"""`change`: the transaction of a write, with everything that follows from its changes.

    with change(actor, idempotency_key) as tx:
        ...
        tx.record(Change.ROLE_DELETED, subject=role_id, project=project_id, named=role.name)

The table of kinds (`tenancy.changes.kinds`) says what follows from each change. It is written at the end of the
outermost block, in the same transaction: an audit record, an event in the outbox with the next number of its object,
and a new permission epoch. After an error or a rollback nothing of it remains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from django.db import transaction

from icekeeper.kernel.db.transactions import write_transaction
from tenancy.actor import Actor
from tenancy.audit.recording import set_projects
from tenancy.authn.own_tokens.stored_tokens import revocations
from tenancy.authz.permission_epoch import bump_permission_epoch
from tenancy.changes.kinds import Change
from tenancy.changes.rows import RecordedChange, write_changes


class IdempotencyRecord(Protocol):
    """Stores the response of a request in the transaction of its change."""

    def store(self, result: object) -> None: ...


class ChangeTransaction:
    """The changes of one transaction so far. `result` is the response that the idempotency record stores."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.result: object = None
        self._records: list[RecordedChange] = []
        self._changes_permissions = False
        self._after: list[Callable[[], object]] = []

    def record(
        self,
        change: Change,
        *,
        subject: object,
        project: str | None = None,
        object_type: str | None = None,
        data: object = None,
        is_audited: bool = True,
        **details: Any,
    ) -> None:
        """Record a change of the object with the id `subject`, as `RecordedChange` describes it.

        What follows from it is written before the commit, so its order with the change itself does not matter.
        """
        self.add(
            RecordedChange(
                self.actor, change, subject=subject, project=project, object_type=object_type, data=data,
                is_audited=is_audited, details=details,
            )
        )  # fmt: skip

    def add(self, recorded: RecordedChange) -> None:
        """As `record`."""
        self._records.append(recorded)
        self._changes_permissions |= recorded.kind.changes_permissions
        if recorded.kind.revokes_tokens:
            self.call_afterwards(revocations.bump)

    def change_permissions(self) -> None:
        """Invalidate cached decisions, for a change whose kind does not always do so."""
        self._changes_permissions = True

    def call_afterwards(self, function: Callable[[], object]) -> None:
        """Call `function` after the commit, and also after a rollback or an unknown result: to invalidate a cache."""
        self._after.append(function)

    def _absorb(self, inner: ChangeTransaction) -> None:
        self._records += inner._records
        self._changes_permissions |= inner._changes_permissions
        self._after += inner._after

    def _write(self) -> None:
        if self._records:
            set_projects(self._records)
            write_changes(self._records)
            for each in self._records:
                transaction.on_commit(each.log, robust=True)
        if self._changes_permissions:
            bump_permission_epoch()

    def _finish(self) -> None:
        for function in self._after:
            function()


_current: ContextVar[ChangeTransaction | None] = ContextVar("change", default=None)


@contextmanager
def change(actor: Actor, idempotency_record: IdempotencyRecord | None = None) -> Iterator[ChangeTransaction]:
    """Run the block in a `write_transaction` that also writes what follows from the changes that it records.

    A block within a block is a savepoint: its changes are written by the outer one, if it is not rolled back. Raises
    what `write_transaction` raises and what storing the response raises.
    """
    outer, tx = None, ChangeTransaction(actor)
    try:
        with write_transaction():
            outer = _current.get()
            token = _current.set(tx)
            try:
                yield tx
            finally:
                _current.reset(token)
            if idempotency_record is not None:
                idempotency_record.store(tx.result)
            if outer is None:
                tx._write()  # noqa: SLF001
        if outer is not None:
            outer._absorb(tx)  # noqa: SLF001
    finally:
        if outer is None:
            tx._finish()  # noqa: SLF001
