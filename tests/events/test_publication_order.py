"""On PostgreSQL transactions commit in another order than that of their positions, and some never do."""

from __future__ import annotations

from threading import Event, Thread

import pytest
from django.db import connections, transaction

from events.publication import Publisher
from tenancy.actor import INTERNAL
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import OutboxEvent
from tests.events.event_fixtures import newest_position, update

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


class OtherTransaction(Thread):
    """A transaction of another connection, which has written an event and waits before it ends."""

    def __init__(self, subject: str, *, commits: bool) -> None:
        super().__init__(daemon=True)
        self._subject, self._commits = subject, commits
        self._has_written, self._may_end = Event(), Event()
        self.start()
        assert self._has_written.wait(10)

    def run(self) -> None:
        try:
            with change(INTERNAL) as tx:
                tx.record(Change.TABLE_UPDATED, subject=self._subject, project="p")
                tx._write()
                tx._records.clear()
                self._has_written.set()
                self._may_end.wait(30)
                if not self._commits:
                    transaction.set_rollback(True)
        finally:
            connections.close_all()

    def end(self) -> None:
        self._may_end.set()
        self.join(10)


@pytest.mark.parametrize("commits", [True, False])
def test_an_event_of_a_running_transaction_is_waited_for(commits: bool) -> None:
    update("before")
    publisher = Publisher()
    start = publisher.publish().published
    other = OtherTransaction("slow", commits=commits)
    update("after")
    for _ in range(3):
        assert publisher.publish().published == start, "the slow event would be lost"
    other.end()
    assert publisher.publish().published == newest_position()
    assert OutboxEvent.objects.filter(position__gt=start).count() == (2 if commits else 1)


def test_a_transaction_that_began_later_does_not_delay_a_gap() -> None:
    publisher = Publisher()
    start = publisher.publish().published
    rolled_back = OtherTransaction("rolled back", commits=False)
    update("after")
    assert publisher.publish().published == start
    later = OtherTransaction("later", commits=True)
    rolled_back.end()
    assert publisher.publish().published == newest_position() > start, "only transactions from before the gap count"
    later.end()
    assert publisher.publish().published == newest_position()
