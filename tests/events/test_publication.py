"""Events are published without gaps: readers never pass an event that can still appear."""

from __future__ import annotations

import pytest

from events.publication import Publisher, read_state
from tenancy.models import OutboxEvent, OutboxState
from tests.events.event_fixtures import newest_position, update

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_events_are_published() -> None:
    publisher = Publisher()
    before = publisher.publish().published
    update("a", "b")
    assert read_state().published == before
    assert publisher.publish() == read_state() == (newest_position(), 0, newest_position())


def test_positions_of_an_object_are_in_the_order_of_its_events() -> None:
    update("a", "b", "a", "c", "b", "a")
    update("b", "a")
    rows = OutboxEvent.objects.order_by("position").values_list("public_id", "sequence", "event_index")
    assert list(rows) == [
        ("a", 1, 0), ("b", 1, 1), ("a", 2, 2), ("c", 1, 3), ("b", 2, 4), ("a", 3, 5), ("b", 3, 0), ("a", 4, 1),
    ]  # fmt: skip


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_lost_row_of_the_state_is_created_again() -> None:
    OutboxState.objects.all().delete()
    update("a")
    assert Publisher().publish().published == newest_position()
