"""The pointer of a table or view: moved by compare-and-set, with all dependent rows in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import IntegrityError, connection, transaction

from catalog.iceberg.column_names import ColumnNames
from catalog.iceberg.totals import MAX_ENGINE_LENGTH, Totals, read_engine
from catalog.models import Snapshot, Tabular, TabularMetadata
from catalog.services.idempotency import DuplicateRequest, IdempotencyKey, response_to_store
from icekeeper.kernel.db.sql import batches, execute, fetch_one
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.request_context import current_context
from tenancy.actor import Actor
from tenancy.changes.rows import RecordedChange, change_ctes, change_params, write_changes

MAX_USER_LENGTH: Final = 255


class CommitFacts(NamedTuple):
    """The values of the columns `committed_at`, `committed_by` and `engine` of a tabular."""

    at: datetime
    by: str
    engine: str


@dataclass(frozen=True, slots=True)
class PointerUpdate:
    """One change of a pointer. `document` is None when it is too large for the database.

    `totals` and `columns` are None if they stay.

    `namespace_id` is the tabular's namespace: its permissions were checked, so the tabular must still be in it.
    """

    tabular_id: UUID
    namespace_id: UUID
    seen: str
    metadata_location: str
    location: str
    document: bytes | None
    added_snapshots: Sequence[dict[str, Any]]
    removed_snapshot_ids: Sequence[int]
    facts: CommitFacts
    totals: Totals | None
    columns: ColumnNames | None


def commit_facts(actor: Actor, added_snapshots: Sequence[Mapping[str, Any]], at: datetime) -> CommitFacts:
    """Return the facts of a commit by `actor`.

    The engine is that which the last added snapshot names, else the client that its `User-Agent` names.
    """
    return CommitFacts(at, committer(actor), _engine(added_snapshots))


def committer(actor: Actor) -> str:
    """Return the user id of `actor`, or the name of a part of the server without one."""
    return (actor.user_id or actor.name)[:MAX_USER_LENGTH]


def _engine(added_snapshots: Sequence[Mapping[str, Any]]) -> str:
    if added_snapshots:
        named = read_engine(added_snapshots[-1].get("summary") or {})
        if named:
            return named
    user_agent = current_context().origin.user_agent or ""
    return user_agent.replace("\0", "\ufffd").partition(" ")[0][:MAX_ENGINE_LENGTH]


# On PostgreSQL one statement, whose parts all depend on the compare-and-set of the pointer: one round trip, and no lock
# held between statements.
_POINTER = """
WITH moved AS (
  UPDATE catalog_tabular SET metadata_location = %s, location = %s, updated_at = %s, committed_at = %s,
         committed_by = %s, engine = %s
   WHERE id = %s AND namespace_id = %s AND metadata_location = %s AND deleted_at IS NULL
  RETURNING id
), stored AS (
  UPDATE catalog_tabularmetadata SET document = %s WHERE tabular_id IN (SELECT id FROM moved)
)"""

_TOTALS_COLUMNS = Totals._fields

_REPLACE_TOTALS = "ON CONFLICT (tabular_id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in _TOTALS_COLUMNS
)

_NUMBERS = ", ".join(f"n[{number}]" for number in range(1, len(_TOTALS_COLUMNS) + 1))

# The numbers are one parameter: psycopg chooses the type of a number by its size, and each combination of types would
# be another prepared statement.
_TOTALS = f""", counted AS (
  INSERT INTO catalog_tabletotals (tabular_id, {", ".join(_TOTALS_COLUMNS)})
  SELECT moved.id, {_NUMBERS} FROM moved, (SELECT %s::bigint[] AS n) AS totals
  {_REPLACE_TOTALS}
)"""  # noqa: S608 - constants

_REPLACE_COLUMNS = "ON CONFLICT (tabular_id) DO UPDATE SET names = excluded.names, keys = excluded.keys"

_COLUMNS = f""", named AS (
  INSERT INTO catalog_tabularcolumns (tabular_id, names, keys)
  SELECT moved.id, %s, %s FROM moved
  {_REPLACE_COLUMNS}
)"""  # noqa: S608 - constants

_SNAPSHOTS = """, removed AS (
  DELETE FROM catalog_snapshot WHERE tabular_id IN (SELECT id FROM moved) AND snapshot_id = ANY(%s)
), added AS (
  INSERT INTO catalog_snapshot
         (tabular_id, snapshot_id, parent_snapshot_id, sequence_number, schema_id, timestamp_ms, summary, engine,
          committed_by)
  SELECT moved.id, s.snapshot_id, s.parent_snapshot_id, s.sequence_number, s.schema_id, s.timestamp_ms, s.summary,
         s.engine, %s
    FROM moved, jsonb_to_recordset(%s::jsonb) AS s(snapshot_id bigint, parent_snapshot_id bigint,
         sequence_number bigint, schema_id bigint, timestamp_ms bigint, summary jsonb, engine text)
  ON CONFLICT (tabular_id, snapshot_id) DO UPDATE SET
         parent_snapshot_id = excluded.parent_snapshot_id, sequence_number = excluded.sequence_number,
         schema_id = excluded.schema_id, timestamp_ms = excluded.timestamp_ms, summary = excluded.summary,
         engine = excluded.engine, committed_by = excluded.committed_by
)"""

_IDEMPOTENCY_RECORD = """, recorded AS (
  INSERT INTO catalog_idempotencyrecord (warehouse_id, key, fingerprint, status, response, created_at)
  SELECT %s, %s, %s, 200, %s, %s FROM moved
)"""

_COUNT = "\nSELECT count(*) FROM moved"

_CHANGE = {
    is_audited: f", {change_ctes(is_audited=is_audited, guard='moved')}" for is_audited in (False, True)
} | {None: ""}  # fmt: skip

_STATEMENTS: Final = {
    (with_totals, with_columns, with_snapshots, with_record, is_audited): _POINTER
    + (_TOTALS if with_totals else "")
    + (_COLUMNS if with_columns else "")
    + (_SNAPSHOTS if with_snapshots else "")
    + (_IDEMPOTENCY_RECORD if with_record else "")
    + change
    + _COUNT
    for with_totals in (False, True)
    for with_columns in (False, True)
    for with_snapshots in (False, True)
    for with_record in (False, True)
    for is_audited, change in _CHANGE.items()
}


def move_pointer(
    move: PointerUpdate,
    recorded: RecordedChange | None = None,
    *,
    idempotency_key: IdempotencyKey | None = None,
    result: object = None,
) -> bool:
    """Move the pointer if it is still at `seen`, in its namespace; otherwise change nothing and return False.

    Snapshots, the document, what follows from the `recorded` change (None: the caller records it) and the idempotency
    record with `result` change in the same transaction. Raises `DuplicateRequest`, and changes nothing, when the same
    request was committed first.
    """
    if connection.vendor != "postgresql":
        return _move_step_by_step(move, recorded, idempotency_key, result)
    try:
        return _move_in_one_statement(move, recorded, idempotency_key, result)
    except IntegrityError:
        if idempotency_key is None:
            raise
        raise DuplicateRequest("The same request was executed already") from None


def snapshot_row(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a snapshot. U+0000 is replaced: it is legal in JSON but not in a jsonb column."""
    summary = {key.replace("\0", "\ufffd"): _printable(value) for key, value in (snapshot.get("summary") or {}).items()}
    return {
        "snapshot_id": snapshot["snapshot-id"],
        "parent_snapshot_id": snapshot.get("parent-snapshot-id"),
        "sequence_number": snapshot.get("sequence-number"),
        "schema_id": snapshot.get("schema-id"),
        "timestamp_ms": snapshot["timestamp-ms"],
        "summary": summary,
        "engine": read_engine(summary) or None,
    }


def insert_version(tabular_id: UUID, document: bytes | None, columns: ColumnNames, totals: Totals | None) -> None:
    """Insert document and columns of a new table or view, and the totals of a table, in the caller's transaction."""
    if connection.vendor == "postgresql":
        params = [tabular_id, document, tabular_id, *columns]
        if totals is None:
            execute(_INSERT_VIEW, params)
        else:
            execute(_INSERT_TABLE, [*params, tabular_id, _as_array(totals)])
        return
    execute(_INSERT_DOCUMENT, [tabular_id, document])
    execute(_STORE_COLUMNS, [tabular_id, *columns])
    if totals is not None:
        execute(_STORE_TOTALS_ON_SQLITE, [tabular_id, *totals])


_INSERT_DOCUMENT = "INSERT INTO catalog_tabularmetadata (tabular_id, document) VALUES (%s, %s)"

_STORE_COLUMNS = f"""
INSERT INTO catalog_tabularcolumns (tabular_id, names, keys) VALUES (%s, %s, %s)
{_REPLACE_COLUMNS}
"""  # noqa: S608 - constants

_INSERT_VIEW = f"WITH stored AS ({_INSERT_DOCUMENT}) {_STORE_COLUMNS}"

_INSERT_TABLE = f"""
WITH stored AS ({_INSERT_DOCUMENT}), named AS ({_STORE_COLUMNS})
INSERT INTO catalog_tabletotals (tabular_id, {", ".join(_TOTALS_COLUMNS)})
SELECT %s, {_NUMBERS} FROM (SELECT %s::bigint[] AS n) AS totals
"""  # noqa: S608 - constants

_STORE_TOTALS_ON_SQLITE = f"""
INSERT INTO catalog_tabletotals (tabular_id, {", ".join(_TOTALS_COLUMNS)})
VALUES (%s, {", ".join(["%s"] * len(_TOTALS_COLUMNS))})
{_REPLACE_TOTALS}
"""  # noqa: S608 - constants


def _as_array(totals: Totals) -> str:
    return "{" + ",".join(["NULL" if number is None else str(number) for number in totals]) + "}"


def _printable(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else str(value)


def _move_in_one_statement(
    move: PointerUpdate, recorded: RecordedChange | None, idempotency_key: IdempotencyKey | None, result: object
) -> bool:
    params: list[Any] = [move.metadata_location, move.location, move.facts.at, *move.facts]
    params += [move.tabular_id, move.namespace_id, move.seen, move.document]
    if move.totals is not None:
        params.append(_as_array(move.totals))
    if move.columns is not None:
        params += move.columns
    with_snapshots = bool(move.added_snapshots or move.removed_snapshot_ids)
    if with_snapshots:
        rows = [snapshot_row(snapshot) for snapshot in move.added_snapshots]
        # All parts of the statement see the rows as they were before it: a replaced row is updated, not deleted first.
        replaced = {row["snapshot_id"] for row in rows}
        removed = [snapshot_id for snapshot_id in move.removed_snapshot_ids if snapshot_id not in replaced]
        params += [removed, move.facts.by, write_json(rows).decode()]
    if idempotency_key is not None:
        response = write_json(response_to_store(idempotency_key, result)).decode()
        params += [idempotency_key.warehouse_id, idempotency_key.key, idempotency_key.fingerprint]
        params += [response, move.facts.at]
    is_audited = None
    if recorded is not None:
        is_audited = recorded.is_audited
        params += change_params(recorded)
    form = (move.totals is not None, move.columns is not None, with_snapshots, idempotency_key is not None, is_audited)
    row = fetch_one("default", _STATEMENTS[form], params)
    return row is not None and row[0] == 1


def _move_step_by_step(
    move: PointerUpdate, recorded: RecordedChange | None, idempotency_key: IdempotencyKey | None, result: object
) -> bool:
    with transaction.atomic():
        seen = Tabular.objects.filter(
            deleted_at__isnull=True, pk=move.tabular_id, namespace_id=move.namespace_id, metadata_location=move.seen
        )
        at, by, engine = move.facts
        moved = seen.update(
            metadata_location=move.metadata_location, location=move.location, updated_at=at, committed_at=at,
            committed_by=by, engine=engine,
        )  # fmt: skip
        if not moved:
            return False
        TabularMetadata.objects.filter(pk=move.tabular_id).update(document=move.document)
        if move.totals is not None:
            execute(_STORE_TOTALS_ON_SQLITE, [move.tabular_id, *move.totals])
        if move.columns is not None:
            execute(_STORE_COLUMNS, [move.tabular_id, *move.columns])
        if move.removed_snapshot_ids:
            for batch in batches(move.removed_snapshot_ids, 500):
                Snapshot.objects.filter(tabular_id=move.tabular_id, snapshot_id__in=batch).delete()
        Snapshot.objects.bulk_create(
            [
                Snapshot(tabular_id=move.tabular_id, committed_by=by, **snapshot_row(each))
                for each in move.added_snapshots
            ],
            batch_size=500,
        )
        if idempotency_key is not None:
            idempotency_key.store(result)
        if recorded is not None:
            write_changes([recorded])
    return True
