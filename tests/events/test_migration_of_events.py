"""The migration that gives positions to events: those of an object stay in the order of their sequence."""

from __future__ import annotations

from importlib import import_module
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection

from tenancy.models import OutboxEvent, OutboxState

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]

MIGRATION = import_module("tenancy.migrations.0009_event_positions")


def event(number: int, key: str, sequence: int) -> OutboxEvent:
    """Return an event whose id is the `number`-th in time."""
    return OutboxEvent(
        event_id=UUID(int=number << 80), object_key=key, sequence=sequence, type="updateTable", public_id=key,
        at="2026-01-31T12:00:00Z",
    )  # fmt: skip


def test_existing_events_keep_the_order_of_their_objects() -> None:
    # b 2 has a lower id than b 1: its transaction began earlier and waited for the other one.
    rows = [event(5, "c", 1), event(1, "a", 1), event(4, "b", 1), event(2, "b", 2), event(3, "a", 2)]
    OutboxEvent.objects.bulk_create(rows)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE tenancy_oldoutboxevent AS SELECT event_id AS id, e.* FROM tenancy_outboxevent AS e"
        )
        cursor.execute("DELETE FROM tenancy_outboxevent")
    try:
        with connection.schema_editor() as editor:
            MIGRATION.copy_events(apps, editor)
        OutboxState.objects.all().delete()
        with connection.schema_editor() as editor:
            MIGRATION.create_state(apps, editor)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE tenancy_oldoutboxevent")
    found = OutboxEvent.objects.order_by("position").values_list("object_key", "sequence")
    assert list(found) == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1)]
    state = OutboxState.objects.get()
    newest = OutboxEvent.objects.order_by("-position").values_list("position", flat=True)[0]
    assert (state.published_through, state.deleted_through) == (newest, 0)
