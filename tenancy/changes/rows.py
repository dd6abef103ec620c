"""A change that is recorded, and the rows that it writes: an event of the outbox, numbered, and an audit record.

On PostgreSQL all of them are written by one statement. The parts for one event can also be added to another statement
(`change_ctes`), so that a commit writes them in the statement that moves its pointer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from django.db import connection

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import batches, execute, fetch_all, fetch_one
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.request_context import current_context
from tenancy.actor import Actor
from tenancy.audit.recording import (
    actor_name,
    canonical_text,
    is_audit_enabled,
    log_event,
    record_columns,
    truncate_text,
)
from tenancy.changes.kinds import Change
from tenancy.models.securable import Securable

MAX_DATA_BYTES: Final = 786_432
"""Maximum bytes of an event's data in UTF-8; of longer data only the length is kept. Message brokers accept 1 MiB."""

EventRow = dict[str, Any]
"""An event by column, without its sequence and its position."""

AuditRow = dict[str, Any]
"""An audit record by column, without those that are equal for all changes."""


class RecordedChange:
    """One change of an object: its audit record, its event and its log line.

    `subject` is the internal id of the object and `project` the id of its project, which is looked up for securables if
    it is not given. Of the details, `warehouse` (id), `uuid` (the id that clients see, `subject` without it) and the
    names `levels` (of the namespace, then of the object) or `named` also describe the object in the event. Names of
    details must not be attributes of `logging.LogRecord`, such as `name`. `data` is the request's body (JSON text or
    a document), for kinds whose events have one.
    """

    __slots__ = (
        "_data", "_details", "_given", "actor", "at", "is_audited", "kind", "object_id", "object_type", "project_id",
    )  # fmt: skip

    def __init__(
        self,
        actor: Actor,
        change: Change,
        *,
        subject: object,
        project: str | None,
        object_type: str | None = None,
        data: object = None,
        is_audited: bool = True,
        details: dict[str, Any],
    ) -> None:
        self.kind, self.at = change.value, now()
        self.is_audited = is_audited and is_audit_enabled()
        self.object_type = self.kind.object_type if object_type is None else object_type
        self.object_id, self.project_id = truncate_text(str(subject), 255), project or ""
        self.actor, self._details, self._data = actor, details, data
        self._given = (object_type, project)

    def log(self) -> None:
        """Write the log line, after the commit, if the kind has one."""
        if not self.kind.is_logged or (not self.is_audited and self.kind.has_request_data):
            return
        fields: dict[str, Any] = {"id": self.object_id}
        fields |= {
            name: value for name, value in zip(("type", "project"), self._given, strict=True) if value is not None
        }
        log_event(self.kind.audit_event, self.actor, fields | self._details)

    def build_audit_row(self) -> AuditRow:
        """Return the audit record, in the order of its columns."""
        return {
            "id": new_id(),
            "at": self.at,
            **record_columns(
                self.kind.audit_event, actor=self.actor, object_type=self.object_type, object_id=self.object_id,
                project=self.project_id, details=self._details,
            ),
        }  # fmt: skip

    def build_event(self, *, count: int = 1, index: int = 0) -> EventRow:
        """Return the event, number `index` of `count` of its transaction."""
        actor, details, request_id = self.actor, self._details, current_context().request_id
        caller = actor if actor.delegated_by is None else actor.delegated_by
        names = details.get("levels") or ([details["named"]] if details.get("named") else [])
        return {
            "event_id": new_id(),
            "object_key": truncate_text(f"{self.object_type}:{self.object_id}", 300),
            "type": self.kind.event_type,
            "at": self.at,
            "public_id": truncate_text(str(details.get("uuid", self.object_id)), 255),
            "names": _encode(list(names)),
            "project_id": truncate_text(self.project_id, 128),
            "warehouse_id": self._warehouse_id(),
            "actor": truncate_text(actor_name(caller), 255),
            "assumed_role": caller.assumed_role,
            "request_id": "" if request_id is None else request_id.text,
            "event_count": count,
            "event_index": index,
            "data": self._event_data(),
        }

    def _warehouse_id(self) -> Any:
        """Return the warehouse that the object is in, or that is created, updated or deleted itself; None without."""
        of_warehouse = self.kind.object_type == Securable.Type.WAREHOUSE.value
        return UUID(self.object_id) if of_warehouse else self._details.get("warehouse")

    def _event_data(self) -> str | None:
        if not self.kind.has_request_data:
            text = canonical_text(self._details)
        elif self._data is None:
            return None
        else:
            text = self._data if isinstance(self._data, str) else write_json(self._data).decode()
        # A character has four bytes at most: the bytes of short texts need not be counted.
        is_short = len(text) * 4 <= MAX_DATA_BYTES or len(text.encode()) <= MAX_DATA_BYTES
        return text if is_short else json.dumps({"left_out": f"{len(text)} characters"})


_encode: Final = json.JSONEncoder().encode
"""Also encodes lone surrogates, which a name can contain."""

BATCH_SIZE: Final = 1000
"""Events of one statement."""

_EVENT_COLUMNS: Final = {
    "event_id": "uuid", "object_key": "text", "type": "text", "at": "timestamptz", "public_id": "text", "names": "text",
    "project_id": "text", "warehouse_id": "uuid", "actor": "text", "assumed_role": "uuid", "request_id": "text",
    "event_count": "int", "event_index": "int", "data": "text",
}  # fmt: skip
"""Columns of an event but sequence and position, with their types, in the order of `RecordedChange.build_event`."""

_AUDIT_COLUMNS: Final = {
    "id": "uuid", "at": "timestamptz", "event": "text", "privilege_source": "text", "actor": "text",
    "assumed_role": "uuid", "access_token_id": "uuid", "object_type": "text", "object_id": "text", "project_id": "text",
    "request_id": "uuid", "address": "text", "forwarded_for": "text", "user_agent": "text", "details": "text",
}  # fmt: skip
"""Columns of an audit record with their types, in the order of `RecordedChange.build_audit_row`."""

_AUDIT_CONSTANTS: Final = {
    "count": "1", "outcome": "'allowed'", "action": "''", "reason": "''", "previous_hash": "''", "hash": "''",
}  # fmt: skip
"""Columns that are equal for all changes, with their values in SQL."""

_ONE_CHANGE: Final = """numbered AS (
  INSERT INTO tenancy_objectsequence AS s (object_key, number) SELECT %s, 1 FROM {guard}
      ON CONFLICT (object_key) DO UPDATE SET number = s.number + 1
  RETURNING s.number
), published AS (
  INSERT INTO tenancy_outboxevent ({event_columns}, sequence) SELECT {event_params}, number FROM numbered
)"""

_ONE_AUDIT_RECORD: Final = """, audited AS (
  INSERT INTO tenancy_auditrecord ({audit_columns}, {constant_columns})
  SELECT {audit_params}, {constants} FROM {guard}
)"""

_CHANGES: Final = """WITH events AS (
  SELECT * FROM json_to_recordset(%s::json) AS e({event_types}, remaining int)
), numbered AS (
  INSERT INTO tenancy_objectsequence AS s (object_key, number)
  SELECT object_key, count(*) FROM events GROUP BY object_key ORDER BY object_key
      ON CONFLICT (object_key) DO UPDATE SET number = s.number + excluded.number
  RETURNING s.object_key, s.number
), published AS (
  INSERT INTO tenancy_outboxevent ({event_columns}, sequence)
  SELECT {event_values}, n.number - e.remaining
    FROM events AS e JOIN numbered AS n ON n.object_key = e.object_key ORDER BY e.event_index
)"""

_AUDIT_RECORDS: Final = """, audited AS (
  INSERT INTO tenancy_auditrecord ({audit_columns}, {constant_columns})
  SELECT {audit_columns}, {constants} FROM json_to_recordset(%s::json) AS a({audit_types})
)"""

# WHERE before ON CONFLICT is needed by SQLite, which would parse the latter as a join condition otherwise.
_NEXT_NUMBERS: Final = """
INSERT INTO tenancy_objectsequence (object_key, number) SELECT key, value FROM json_each(%s) WHERE true
    ON CONFLICT (object_key) DO UPDATE SET number = tenancy_objectsequence.number + excluded.number
RETURNING object_key, number
"""


@cache
def change_ctes(*, is_audited: bool, guard: str) -> str:
    """Return CTEs that write one event and, with `is_audited`, an audit record; their parameters are `change_params`.

    `guard` is an earlier CTE, or another item for FROM, of at most one row: without a row nothing is written.
    """
    return _filled(_ONE_CHANGE + (_ONE_AUDIT_RECORD if is_audited else ""), guard)


def change_params(change: RecordedChange) -> list[Any]:
    """Return the parameters of `change_ctes`, with an audit record if the change is audited."""
    event = change.build_event()
    params = [event["object_key"], *event.values()]
    if change.is_audited:
        params += change.build_audit_row().values()
    return params


def write_changes(changes: Sequence[RecordedChange]) -> None:
    """Write the rows in the caller's transaction, as its last locks. On PostgreSQL a statement for `BATCH_SIZE`."""
    is_postgres = connection.vendor == "postgresql"
    if is_postgres and len(changes) == 1:
        fetch_one("default", _write_one(is_audited=changes[0].is_audited), change_params(changes[0]))
        return
    events = [each.build_event(count=len(changes), index=index) for index, each in enumerate(changes)]
    audit_rows = [each.build_audit_row() for each in changes if each.is_audited]
    if not is_postgres:
        _write_step_by_step(events, audit_rows)
        return
    for index, batch in enumerate(batches(events, BATCH_SIZE)):
        records = audit_rows[index * BATCH_SIZE : (index + 1) * BATCH_SIZE]  # at most one for each event
        rows = [event | {"remaining": left} for event, left in zip(batch, _remaining(batch), strict=True)]
        params = [write_json(rows).decode()]
        if records:
            params.append(write_json(records).decode())
        fetch_one("default", _write_many(is_audited=bool(records)), params)


@cache
def _write_one(*, is_audited: bool) -> str:
    return f"WITH {change_ctes(is_audited=is_audited, guard='(SELECT 1) AS one')} SELECT 1"


@cache
def _write_many(*, is_audited: bool) -> str:
    return _filled(_CHANGES + (_AUDIT_RECORDS if is_audited else ""), "") + " SELECT 1"


def _filled(text: str, guard: str) -> str:
    return text.format(
        event_columns=", ".join(_EVENT_COLUMNS),
        event_params=_params(_EVENT_COLUMNS),
        event_types=_with_types(_EVENT_COLUMNS),
        event_values=", ".join(f"e.{column}" for column in _EVENT_COLUMNS),
        audit_columns=", ".join(_AUDIT_COLUMNS),
        audit_params=_params(_AUDIT_COLUMNS),
        audit_types=_with_types(_AUDIT_COLUMNS),
        constant_columns=", ".join(_AUDIT_CONSTANTS),
        constants=", ".join(_AUDIT_CONSTANTS.values()),
        guard=guard,
    )


def _params(columns: dict[str, str]) -> str:
    return ", ".join(f"%s::{kind}" for kind in columns.values())


def _with_types(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _write_step_by_step(events: Sequence[EventRow], audit_rows: Sequence[AuditRow]) -> None:
    """On SQLite: three statements, whatever the number of rows."""
    counts = Counter(event["object_key"] for event in events)
    numbers: dict[str, int] = dict(fetch_all("default", _NEXT_NUMBERS, [write_json(counts).decode()]))
    _insert(
        "tenancy_outboxevent",
        [*_EVENT_COLUMNS, "sequence"],
        [
            [*event.values(), numbers[event["object_key"]] - remaining]
            for event, remaining in zip(events, _remaining(events), strict=True)
        ],
    )
    if audit_rows:
        values = [list(each.values()) for each in audit_rows]
        _insert("tenancy_auditrecord", list(_AUDIT_COLUMNS), values, _AUDIT_CONSTANTS)


def _insert(
    table: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    constants: Mapping[str, str] = MappingProxyType({}),
) -> None:
    values = ", ".join([*(f"json_extract(value, '$[{index}]')" for index in range(len(columns))), *constants.values()])
    names = ", ".join([*columns, *constants])
    statement = f"INSERT INTO {table} ({names}) SELECT {values} FROM json_each(%s)"  # noqa: S608
    execute(statement, [write_json([[_as_stored(value) for value in row] for row in rows]).decode()])


def _as_stored(value: Any) -> Any:
    """Return a value as Django stores it in SQLite."""
    if isinstance(value, UUID):
        return value.hex
    return connection.ops.adapt_datetimefield_value(value) if isinstance(value, datetime) else value


def _remaining(events: Sequence[EventRow]) -> Iterator[int]:
    """Yield for each event how many later ones are of the same object."""
    left = Counter(event["object_key"] for event in events)
    for event in events:
        left[event["object_key"]] -= 1
        yield left[event["object_key"]]
