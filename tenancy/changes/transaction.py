"""`change`: the transaction of a write, with everything that follows from its changes.

    with change(actor, idempotency_key) as tx:
        ...
        tx.record(Change.ROLE_DELETED, subject=role_id, project=project_id, named=role.name)

The table of kinds (`tenancy.changes.kinds`) says what follows from each change. It is written at the end of the
outermost block, in the same transaction: an audit record, an event in the outbox with the next number of its object,
and a new permission epoch. After an error or a rollback nothing of it remains.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from django.db import transaction

from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.request_context import current_context
from tenancy.actor import Actor
from tenancy.audit.recording import (
    build_record,
    canonical_text,
    is_audit_enabled,
    log_event,
    set_projects,
    truncate_text,
)
from tenancy.authz.permission_epoch import bump_permission_epoch
from tenancy.changes.kinds import Change
from tenancy.changes.rows import write_change_rows
from tenancy.models import OutboxEvent

MAX_DATA_LENGTH: Final = 786_432
"""Maximum bytes of an event's data; of longer data only the length is kept. Message brokers accept 1 MiB."""


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
        self._records.append(
            RecordedChange(
                self.actor, change, subject=subject, project=project, object_type=object_type, data=data,
                is_audited=is_audited, details=details,
            )
        )  # fmt: skip
        self._changes_permissions |= change.value.changes_permissions

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
            set_projects([each.audit_record for each in self._records])
            audited = [each.audit_record for each in self._records if each.is_audited]
            write_change_rows(build_events(self._records), audited)
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
    outer, tx = _current.get(), ChangeTransaction(actor)
    token = _current.set(tx)
    try:
        with write_transaction():
            yield tx
            if idempotency_record is not None:
                idempotency_record.store(tx.result)
            if outer is None:
                tx._write()  # noqa: SLF001
        if outer is not None:
            outer._absorb(tx)  # noqa: SLF001
    finally:
        _current.reset(token)
        if outer is None:
            tx._finish()  # noqa: SLF001


class RecordedChange:
    """One change of an object: its audit record, its event and its log line.

    `subject` is the internal id of the object and `project` the id of its project, which is looked up for securables if
    it is not given. Of the details, `warehouse` (id), `uuid` (the id that clients see, `subject` without it) and the
    names `levels` (of the namespace, then of the object) or `named` also describe the object in the event. Names of
    details must not be attributes of `logging.LogRecord`, such as `name`. `data` is the request's body (JSON text or
    a document), for kinds whose events have one.
    """

    __slots__ = ("_actor", "_change", "_data", "_details", "_log_fields", "audit_record", "is_audited")

    def __init__(
        self,
        actor: Actor,
        change: Change,
        *,
        subject: object,
        project: str | None,
        object_type: str | None,
        data: object,
        is_audited: bool,
        details: dict[str, Any],
    ) -> None:
        kind = change.value
        self._actor, self._change, self._details, self._data = actor, change, details, data
        self.is_audited = is_audited and is_audit_enabled()
        self.audit_record = build_record(
            kind.audit_event, actor=actor, object_type=kind.object_type if object_type is None else object_type,
            object_id=subject, project=project, details=details if self.is_audited else None,
        )  # fmt: skip
        self._log_fields: dict[str, Any] = {"id": str(subject)}
        if object_type is not None:
            self._log_fields["type"] = object_type
        if project is not None:
            self._log_fields["project"] = project

    def log(self) -> None:
        """Write the log line, after the commit."""
        if self.is_audited or not self._change.value.has_request_data:
            log_event(self._change.value.audit_event, self._actor, self._log_fields | self._details)

    def build_event(self, *, count: int, index: int) -> OutboxEvent:
        """Return the unsaved event, number `index` of `count` of its transaction."""
        record, details, request_id = self.audit_record, self._details, current_context().request_id
        names = details.get("levels") or ([details["named"]] if details.get("named") else [])
        return OutboxEvent(
            object_key=f"{record.object_type}:{record.object_id}",
            type=self._change.value.event_type,
            at=record.at,
            public_id=truncate_text(str(details.get("uuid", record.object_id)), 255),
            names=json.dumps(list(names)),
            project_id=record.project_id,
            warehouse_id=details.get("warehouse"),
            actor=record.actor,
            assumed_role=record.assumed_role,
            request_id="" if request_id is None else request_id.text,
            event_count=count,
            event_index=index,
            data=self._event_data(),
        )

    def _event_data(self) -> str | None:
        if not self._change.value.has_request_data:
            text = canonical_text(self._details)
        elif self._data is None:
            return None
        else:
            text = self._data if isinstance(self._data, str) else write_json(self._data).decode()
        return text if len(text) <= MAX_DATA_LENGTH else json.dumps({"left_out": f"{len(text)} characters"})


def build_events(changes: Sequence[RecordedChange]) -> list[OutboxEvent]:
    """Return the events of the changes of one transaction."""
    return [each.build_event(count=len(changes), index=index) for index, each in enumerate(changes)]
