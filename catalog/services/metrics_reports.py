"""Metrics reports: kept whole for a while, and added up for each table and UTC day.

On PostgreSQL one statement looks the table up by its name, adds to the day and keeps the report; on SQLite the same
steps run one by one in an immediate transaction. Concurrent reports of one table wait for each other at the row of the
day, which is locked last: the lock on the table comes first, as in a drop.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import F, Value
from django.db.models.functions import Least

from catalog.errors import no_such_tabular
from catalog.iceberg.metrics_reports import FIGURES, MAX_FIGURE, ParsedReport, read_metrics_report
from catalog.identifiers import Identifier
from catalog.models import MetricsDay, MetricsReport, Tabular
from catalog.selectors.tables.load import require_tabular_exists
from catalog.selectors.tables.metadata_cache import metadata_cache
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.json.strict import read_stored_json, write_json
from icekeeper.kernel.names import lookup_key, path_key
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.models import Securable

ATTEMPTS = 3
"""How often the name is looked up again when another table has got it in between."""

_RECORD = f"""
WITH target AS (
  SELECT t.id
    FROM storage_warehouse w
    JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
    JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = %s
   WHERE w.id = %s AND w.status = 'active' AND t.kind = 'table' AND t.id = %s AND t.deleted_at IS NULL
     FOR KEY SHARE OF t
), counted AS (
  INSERT INTO catalog_metricsday AS d (tabular_id, day, {", ".join(FIGURES)})
  SELECT target.id, %s, {", ".join(f"coalesce(f.{name}, 0)" for name in FIGURES)}
    FROM target, jsonb_to_record(%s::jsonb) AS f({", ".join(f"{name} bigint" for name in FIGURES)})
  ON CONFLICT (tabular_id, day) DO UPDATE SET
         {", ".join(f"{name} = least(d.{name} + excluded.{name}, {MAX_FIGURE})" for name in FIGURES)}
  RETURNING d.tabular_id, d.scans + d.commits AS reports
), kept AS (
  INSERT INTO catalog_metricsreport (tabular_id, kind, snapshot_id, received_at, document)
  SELECT counted.tabular_id, %s, %s::bigint, %s, %s::jsonb FROM counted WHERE counted.reports <= %s::bigint
)
SELECT count(*) FROM counted
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class _Received:
    warehouse_id: UUID
    table: Identifier
    report: ParsedReport
    text: bytes
    """The report as the database takes it."""
    at: datetime


def report_metrics(*, actor: Actor, warehouse_id: UUID, table: Identifier, document: dict[str, Any]) -> None:
    """Store an engine's report about a scan of the table or a commit to it, which needs the permission to see it.

    Raises `NoSuchTable`, or `BadRequest` with the invalid field.
    """
    report = read_metrics_report(document)
    received = _Received(warehouse_id, table, report, _storable(report.text), now())
    table_id = _last_seen_table(actor, warehouse_id, table)
    for _ in range(ATTEMPTS):
        if table_id is None:
            table_id = require_tabular_exists(
                actor=actor, warehouse_id=warehouse_id, identifier=table, kind=Tabular.Kind.TABLE
            )
        if _record(table_id, received):
            return
        table_id = None
    raise no_such_tabular(Tabular.Kind.TABLE, table)


def delete_old_reports(*, actor: Actor, batch: int = BATCH) -> tuple[int, int]:
    """Delete the reports and daily sums that are older than their retention; return the number of each."""
    at, kept = now(), settings.ICEKEEPER
    reports = MetricsReport.objects.filter(received_at__lt=at - timedelta(seconds=kept.metrics_report_retention))
    days = MetricsDay.objects.filter(day__lt=(at - timedelta(seconds=kept.metrics_day_retention)).date())
    return delete_in_batches(reports, batch=batch), delete_in_batches(days, batch=batch)


def _last_seen_table(actor: Actor, warehouse_id: UUID, table: Identifier) -> UUID | None:
    """Return the table that had the name when it was last loaded in this process, as engines load what they report on.

    None when it was not loaded, or when it is hidden from `actor`.
    """
    seen, _ = metadata_cache.last_seen((warehouse_id, path_key(table.levels), lookup_key(table.name)))
    if seen is None or not is_allowed(actor, Can.GET_METADATA, Securable.Type.TABLE, seen.tabular_id):
        return None
    return seen.tabular_id


def _record(table_id: UUID, received: _Received) -> bool:
    """Whether the table still has its name and the report was counted; False changes nothing."""
    if connection.vendor == "postgresql":
        return _record_in_one_statement(table_id, received)
    return _record_step_by_step(table_id, received)


def _record_in_one_statement(table_id: UUID, received: _Received) -> bool:
    table, report = received.table, received.report
    target = [path_key(table.levels), lookup_key(table.name), received.warehouse_id, table_id]
    day = [received.at.date(), write_json(report.figures).decode()]
    kept = [report.kind, report.snapshot_id, received.at, received.text.decode()]
    limit = settings.ICEKEEPER.metrics_reports_per_day
    row = fetch_one("default", _RECORD, [*target, *day, *kept, limit])
    return row is not None and row[0] == 1


def _record_step_by_step(table_id: UUID, received: _Received) -> bool:
    table, report = received.table, received.report
    named = Tabular.objects.live().filter(
        pk=table_id,
        kind=Tabular.Kind.TABLE,
        name_key=lookup_key(table.name),
        namespace__path_key=path_key(table.levels),
        namespace__warehouse_id=received.warehouse_id,
        namespace__warehouse__status=Warehouse.Status.ACTIVE,
    )
    with write_transaction():
        if not named.exists():
            return False
        day, is_new = MetricsDay.objects.get_or_create(
            tabular_id=table_id, day=received.at.date(), defaults=report.figures
        )
        if not is_new:
            sums = {name: Least(F(name) + value, Value(MAX_FIGURE)) for name, value in report.figures.items()}
            MetricsDay.objects.filter(pk=day.pk).update(**sums)
        # `day` is as it was before this report, unless the report began it.
        if day.scans + day.commits < settings.ICEKEEPER.metrics_reports_per_day + is_new:
            MetricsReport.objects.create(
                tabular_id=table_id,
                kind=report.kind,
                snapshot_id=report.snapshot_id,
                received_at=received.at,
                document=read_stored_json(received.text),
            )
    return True


def _storable(text: bytes) -> bytes:
    """U+0000 is legal in JSON but not in a jsonb column."""
    return write_json(_printable(read_stored_json(text))) if b"\\u0000" in text else text


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value
