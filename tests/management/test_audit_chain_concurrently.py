"""Writers, sealing and deletion of audit records at the same time keep the chain valid."""

from __future__ import annotations

from threading import Event
from time import sleep

import pytest
from django.db import connection, connections, transaction

from icekeeper.kernel.db.transactions import write_transaction
from tenancy.actor import INTERNAL
from tenancy.audit.chain import delete_old_records, seal_records, verify_chain
from tenancy.audit.recording import Event as AuditEvent
from tenancy.models import AuditRecord
from tests.harness.threads import at_once
from tests.management.audit_chain_fixtures import age, keep, report

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_writers_sealers_and_deleters_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many threads as there are connections."""
    keep(monkeypatch, 30)
    each, ends = 50, (Event(), Event())

    def write(writer: int) -> None:
        try:
            for number in range(each):
                with write_transaction():
                    report(f"{writer}-{number}")
                    if number % 5 == 0:
                        age(31, object_id=f"{writer}-{number}")
                    if number % 5 == 4:
                        transaction.set_rollback(True)
        finally:
            ends[writer].set()

    def are_writing() -> bool:
        sleep(0.005)  # SQLite's writers do not queue: one without pauses keeps the others waiting
        return not all(end.is_set() for end in ends)

    def seal() -> None:
        while are_writing():
            seal_records(actor=INTERNAL, batch=3)

    def seal_and_delete() -> None:
        while are_writing():
            seal_records(actor=INTERNAL, batch=2)
            delete_old_records(actor=INTERNAL, batch=2)
            verify_chain()

    connections.close_all()
    at_once(lambda: write(0), lambda: write(1), seal, seal_and_delete)
    seal_records(actor=INTERNAL)
    found = verify_chain()
    deletions = AuditRecord.objects.filter(event=AuditEvent.AUDIT_RECORDS_DELETED)
    assert found.head.position - 2 * each * 4 // 5 == deletions.count()
    assert found.unsealed == 0
    assert found.count == AuditRecord.objects.count() == found.head.position - found.anchor


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_long_transaction_is_later_in_the_chain() -> None:
    """It does not block sealing: its row is older than rows that were sealed before it."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    is_written, may_commit = Event(), Event()

    def long() -> None:
        with write_transaction():
            report("long")
            is_written.set()
            assert may_commit.wait(30)

    def short() -> None:
        assert is_written.wait(30)
        try:
            report("short")
            assert seal_records(actor=INTERNAL) == 1
        finally:
            may_commit.set()

    at_once(long, short)
    assert seal_records(actor=INTERNAL) == 1
    assert [row.object_id for row in AuditRecord.objects.order_by("position")] == ["short", "long"]
    assert [row.object_id for row in AuditRecord.objects.order_by("at")] == ["long", "short"]
    assert verify_chain().count == 2
