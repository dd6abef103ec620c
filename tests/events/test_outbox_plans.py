"""PostgreSQL finds the events of one warehouse or project by their index, however many other events there are."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection

from events import outbox
from events.cloud_events import Payload
from events.outbox import EventFilter, read_batch
from icekeeper.kernel.db.sql import Row, fetch_all

pytestmark = pytest.mark.django_db
ROWS = 20_000
FILL = """
INSERT INTO tenancy_outboxevent (event_id, object_key, sequence, type, at, public_id, names, project_id, warehouse_id,
                                 actor, request_id, event_count, event_index)
SELECT gen_random_uuid(), 'table:' || n, 1, 'updateTable', now(), n::text, '[]', 'project ' || n %% 20,
       ('0198e0f4-3f6e-7c31-8c7d-' || lpad((n %% 20)::text, 12, '0'))::uuid, 'internal', '', 1, 0
  FROM generate_series(1, %s) AS n
"""
WAREHOUSE = UUID("0198e0f4-3f6e-7c31-8c7d-000000000007")


@pytest.fixture
def positions() -> tuple[int, int]:
    """The positions before the first and of the last of many events."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, [ROWS])
        cursor.execute("ANALYZE tenancy_outboxevent")
        cursor.execute("SELECT min(position) - 1, max(position) FROM tenancy_outboxevent WHERE type = 'updateTable'")
        first, last = cursor.fetchone()
    return first, last


PLANS = (
    (EventFilter(warehouses=(WAREHOUSE,)), "outbox_event_by_warehouse"),
    (EventFilter(projects=("project 7",)), "outbox_event_by_project"),
    (EventFilter(warehouses=(WAREHOUSE,), types=("dropTable",)), "outbox_event_by_warehouse"),
    (EventFilter(types=("dropTable",)), "tenancy_outboxevent_pkey"),
    (EventFilter(), "tenancy_outboxevent_pkey"),
)


def test_batches_are_found_by_an_index(positions: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by the generic plan that PostgreSQL uses for statements that are frequent."""
    statements: list[tuple[str, list[Any]]] = []

    def keep(alias: str, statement: str, params: list[Any]) -> list[Row]:
        statements.append((statement, params))
        return fetch_all(alias, statement, params)

    monkeypatch.setattr(outbox, "fetch_all", keep)
    first, last = positions
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        for event_filter, index in PLANS:
            statements.clear()
            read_batch("default", after=first, through=last, event_filter=event_filter, payload=Payload.IDS, limit=1000)
            assert statements
            for statement, params in statements:
                plan = plan_of(statement, params)
                assert index in plan, plan
                assert "Seq Scan" not in plan, plan


def plan_of(statement: str, params: list[Any]) -> str:
    """Return the plan of a prepared statement."""
    counted = [f"${position}" for position in range(1, len(params) + 1)]
    prepared = statement.replace("%%", "%").replace("%s", "{}").format(*counted)
    values = psycopg.ClientCursor(connection.connection).mogrify(", ".join(["%s"] * len(params)), params)
    with connection.cursor() as cursor:
        cursor.execute(f"PREPARE batch AS {prepared}")
        cursor.execute(f"EXPLAIN EXECUTE batch ({values})")
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("DEALLOCATE batch")
    return plan
