"""A reader of the feed gets each event once, in the order of its object, while transactions commit and roll back."""

from __future__ import annotations

import random
import time
from functools import partial
from threading import Event

import pytest
from django.db import transaction

from events.publication import Publisher
from tenancy.actor import INTERNAL
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import OutboxEvent
from tenancy.services.server import bootstrap
from tests.events.event_fixtures import newest_position
from tests.events.feed_fixtures import page
from tests.harness.threads import at_once

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]
WRITERS, TRANSACTIONS = 3, 25


def write(writer: int, done: Event) -> int:
    """Write transactions of one to three events of shared and own objects; return the number of committed events."""
    chance, committed = random.Random(writer), 0
    for _ in range(TRANSACTIONS):
        subjects = chance.sample(["a", "b", f"own {writer}", f"other {writer}"], chance.randint(1, 3))
        rolls_back = chance.random() < 0.3
        with change(INTERNAL) as tx:
            for subject in sorted(subjects):
                tx.record(Change.TABLE_UPDATED, subject=subject, project="p", data={"writer": writer})
            tx._write()  # the rows are there before the transaction ends
            tx._records.clear()
            time.sleep(chance.random() / 200)
            transaction.set_rollback(rolls_back)
        committed += 0 if rolls_back else len(subjects)
    done.set()
    return committed


def publish_until(done: list[Event]) -> int:
    publisher = Publisher()
    while not all(each.is_set() for each in done):
        publisher.publish()
        time.sleep(0.005)
    while publisher.publish().published < newest_position():
        time.sleep(0.005)
    return 0


def read_until(done: Event, after: int, found: list[dict[str, str]]) -> int:
    """Read pages of seven until the last event is published."""
    cursor = str(after)
    while True:
        is_last = done.is_set()
        read = page(f"after={cursor}&limit=7&projectId=p")
        found += read["events"]
        cursor = read["next"]
        if is_last and not read["has-more"]:
            return 0
        if not read["has-more"]:
            time.sleep(0.003)


def test_no_event_is_lost_or_repeated() -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    start = Publisher().publish().published
    assert start == newest_position()
    written, published = [Event() for _ in range(WRITERS)], Event()
    found: list[dict[str, str]] = []

    def publish() -> int:
        publish_until(written)
        published.set()
        return 0

    writers = [partial(write, number, done) for number, done in enumerate(written)]
    committed = sum(at_once(*writers, publish, partial(read_until, published, start, found)))
    rows = OutboxEvent.objects.filter(position__gt=start).order_by("position").values_list("position", flat=True)
    assert len(rows) == committed
    assert [int(each["position"]) for each in found] == list(rows)
    assert len({each["id"] for each in found}) == committed
    for subject in {each["subject"] for each in found}:
        numbers = [int(each["objectsequence"]) for each in found if each["subject"] == subject]
        assert numbers == list(range(1, len(numbers) + 1)), subject
