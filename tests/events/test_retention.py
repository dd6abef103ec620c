"""Retention of events: by age and by size, always the oldest ones, and readers see what is missing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings

from events.outbox import position_at
from events.publication import read_state
from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL
from tenancy.changes import retention
from tenancy.changes.kinds import Change
from tenancy.changes.retention import ROW_BYTES, delete_old_events
from tenancy.changes.transaction import change
from tenancy.models import ObjectSequence, OutboxEvent, Securable
from tests.events.event_fixtures import newest_position, update

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_retention_deletes_events_and_the_numbers_of_deleted_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    Securable.objects.create(id="role:kept", type="role", object_id="kept", path="role:kept/")
    with change(INTERNAL) as tx:
        for subject in ("kept", "deleted"):
            tx.record(Change.ROLE_CREATED, subject=subject, project="p")
        tx.record(Change.USER_DELETED, subject="oidc~alice")
    assert delete_old_events(actor=INTERNAL) == 0
    later = now()
    monkeypatch.setattr(settings.ICEKEEPER.events, "retention", 0)
    assert delete_old_events(actor=INTERNAL) == 0
    monkeypatch.setattr(settings.ICEKEEPER.events, "retention", 60)
    monkeypatch.setattr("tenancy.changes.retention.now", lambda: later.replace(year=later.year + 1))
    assert delete_old_events(actor=INTERNAL, batch=2) == 3
    assert not OutboxEvent.objects.exists()
    numbers = ObjectSequence.objects.order_by("object_key").values_list("object_key", "number")
    assert list(numbers) == [("role:kept", 1), ("user:oidc~alice", 1)]
    assert read_state().deleted == read_state().published > 0


def test_only_events_before_the_first_kept_one_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that took long can have an old time and a late position: its event stays with the later ones."""
    update("old", "old", "new", "late")
    old, _, new, late = OutboxEvent.objects.order_by("position").values_list("position", flat=True)
    OutboxEvent.objects.filter(position__in=(old, old + 1, late)).update(at=now() - timedelta(days=2))
    monkeypatch.setattr(settings.ICEKEEPER.events, "retention", 86_400)
    assert delete_old_events(actor=INTERNAL) == 2
    assert list(OutboxEvent.objects.order_by("position").values_list("position", flat=True)) == [new, late]
    assert read_state().deleted == new - 1


@pytest.mark.parametrize("sample", [3, 500])
def test_the_oldest_events_are_deleted_above_the_size(monkeypatch: pytest.MonkeyPatch, sample: int) -> None:
    with change(INTERNAL) as tx:
        for number in range(6):
            tx.record(Change.TABLE_UPDATED, subject=f"{number}", project="p", data={"text": "x" * 10_000})
    one = 10_000 + len('{"text":""}') + ROW_BYTES
    monkeypatch.setattr(retention, "SAMPLE_SIZE", sample)
    monkeypatch.setattr(settings.ICEKEEPER.events, "max_bytes", 4 * one)
    assert delete_old_events(actor=INTERNAL, batch=1) == 2
    assert list(OutboxEvent.objects.order_by("position").values_list("public_id", flat=True)) == ["2", "3", "4", "5"]
    assert delete_old_events(actor=INTERNAL) == 0
    monkeypatch.setattr(settings.ICEKEEPER.events, "max_bytes", 4 * one - 1)
    assert delete_old_events(actor=INTERNAL) == 1
    monkeypatch.setattr(settings.ICEKEEPER.events, "max_bytes", 0)
    assert delete_old_events(actor=INTERNAL) == 0, "unlimited"
    assert read_state().deleted == newest_position() - 3


def test_a_position_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    update(*[f"{number}" for number in range(20)])
    first, start = newest_position() - 19, now() - timedelta(hours=1)
    for number in range(20):
        OutboxEvent.objects.filter(position=first + number).update(at=start + timedelta(minutes=number))

    def found(minutes: float) -> int:
        at = start + timedelta(minutes=minutes)
        return position_at("default", at, after=first - 1, through=newest_position()) - first

    assert [found(minutes) for minutes in (-5, 0, 7, 7.1, 7.5, 19, 60)] == [-1, -1, 5, 6, 6, 17, 19]
