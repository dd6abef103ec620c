"""What follows from a change is written with it or not at all; the events of an object are numbered without gaps."""

from __future__ import annotations

import json
from functools import partial

import pytest
from django.conf import settings
from django.db import transaction

from icekeeper.kernel.ids import new_id
from tenancy.actor import INTERNAL, Actor
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import AuditRecord, ObjectSequence, OutboxEvent, Securable
from tests.harness.threads import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def events() -> list[tuple[str, int, str]]:
    return list(OutboxEvent.objects.order_by("object_key", "sequence").values_list("object_key", "sequence", "type"))


def record_and_fail(recorded: Change) -> None:
    with change(INTERNAL) as tx:
        tx.record(recorded, subject="a", project="p")
        raise ZeroDivisionError


def test_a_change_writes_its_audit_record_and_its_event() -> None:
    role_id, alice = new_id(), Actor(user_id="oidc~alice")
    with change(alice) as tx:
        tx.record(Change.ROLE_CREATED, subject=role_id, project="p", named="writers")
    record, event = AuditRecord.objects.get(), OutboxEvent.objects.get()
    assert (record.event, record.actor, record.object_id, record.project_id) == (
        "role.created", "oidc~alice", str(role_id), "p",
    )  # fmt: skip
    assert record.outcome == "allowed"
    assert (event.type, event.object_key, event.sequence) == ("createRole", f"role:{role_id}", 1)
    assert (event.actor, event.project_id, event.public_id) == ("oidc~alice", "p", str(role_id))
    assert (json.loads(event.names), json.loads(event.data or "")) == (["writers"], {"named": "writers"})
    assert (event.event_index, event.event_count, event.at) == (0, 1, record.at)


def test_events_of_an_object_are_numbered_across_transactions() -> None:
    with change(INTERNAL) as tx:
        tx.record(Change.ROLE_CREATED, subject="b", project="p")
        tx.record(Change.ROLE_CREATED, subject="a", project="p")
        tx.record(Change.ROLE_UPDATED, subject="b", project="p")
    with change(INTERNAL) as tx:
        tx.record(Change.ROLE_DELETED, subject="b", project="p")
    assert events() == [
        ("role:a", 1, "createRole"),
        ("role:b", 1, "createRole"),
        ("role:b", 2, "updateRole"),
        ("role:b", 3, "deleteRole"),
    ]
    positions = OutboxEvent.objects.order_by("position").values_list("event_index", "event_count")
    assert list(positions) == [(0, 3), (1, 3), (2, 3), (0, 1)]


def test_a_rollback_leaves_nothing() -> None:
    epoch = permission_epoch.current()
    with pytest.raises(ZeroDivisionError):
        record_and_fail(Change.ROLE_DELETED)
    assert not OutboxEvent.objects.exists()
    assert not ObjectSequence.objects.exists()
    assert not AuditRecord.objects.exists()
    assert permission_epoch.current() == epoch


def test_a_block_within_a_block_is_written_by_the_outer_one_unless_it_is_rolled_back() -> None:
    with change(INTERNAL) as outer:
        outer.record(Change.ROLE_CREATED, subject="a", project="p")
        with pytest.raises(ZeroDivisionError):
            record_and_fail(Change.ROLE_UPDATED)
        with change(INTERNAL) as inner:
            inner.record(Change.ROLE_DELETED, subject="a", project="p")
        assert not OutboxEvent.objects.exists()
    assert events() == [("role:a", 1, "createRole"), ("role:a", 2, "deleteRole")]
    assert AuditRecord.objects.count() == 2


def test_only_kinds_that_change_permissions_invalidate_decisions() -> None:
    epoch = permission_epoch.current()
    with change(INTERNAL) as tx:
        tx.record(Change.PROJECT_RENAMED, subject="p")
    assert permission_epoch.current() == epoch
    with change(INTERNAL) as tx:
        tx.record(Change.GRANT_CREATED, subject="p", object_type="project")
    assert permission_epoch.current() != epoch


def test_without_an_audit_trail_events_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.ICEKEEPER.audit, "enabled", False)
    Securable.objects.create(id="project:p", type="project", object_id="p", path="project:p/")
    Securable.objects.create(id="role:r", type="role", object_id="r", parent_id="project:p", path="project:p/role:r/")
    with change(INTERNAL) as tx:
        tx.record(Change.ROLE_UPDATED, subject="r")
    assert OutboxEvent.objects.get().project_id == "p"
    assert not AuditRecord.objects.exists()


def test_the_response_is_stored_with_the_change() -> None:
    stored: list[object] = []

    class Record:
        def store(self, result: object) -> None:
            assert transaction.get_connection().in_atomic_block
            stored.append(result)

    with change(INTERNAL, Record()) as tx:
        tx.result = {"a": 1}
    assert stored == [{"a": 1}]


def test_caches_are_invalidated_after_a_commit_and_after_a_rollback() -> None:
    called: list[int] = []

    def run(divisor: int) -> None:
        with change(INTERNAL) as tx:
            tx.call_afterwards(lambda: called.append(divisor))
            assert divisor not in called
            _ = 1 // divisor

    run(1)
    with pytest.raises(ZeroDivisionError):
        run(0)
    assert called == [1, 0]


def test_hostile_names_and_long_data_are_stored() -> None:
    names = ["a\0b", "\ud800", "quote\"'", "\uff46ull", "${x}%2F..*"]
    with change(INTERNAL) as tx:
        tx.record(Change.TABLE_CREATED, subject="t", project="p", levels=names, data={"schema": "x" * 1_000_000})
    event = OutboxEvent.objects.get()
    assert json.loads(event.names) == names
    assert json.loads(event.data or "") == {"left_out": "1000013 characters"}
    assert json.loads(AuditRecord.objects.get().details) == {"levels": names}


@pytest.mark.parametrize(("character", "number"), [("x", 786_400), ("\u6f22", 262_100)])
def test_the_length_of_data_counts_in_bytes(character: str, number: int) -> None:
    with change(INTERNAL) as tx:
        for subject, count in (("fits", number), ("too long", number + 100)):
            tx.record(Change.TABLE_CREATED, subject=subject, project="p", data={"text": character * count})
    fits, too_long = OutboxEvent.objects.order_by("position").values_list("data", flat=True)
    assert json.loads(fits or "") == {"text": character * number}
    assert list(json.loads(too_long or "")) == ["left_out"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_concurrent_changes_of_an_object_get_consecutive_numbers() -> None:
    def write(number: int) -> None:
        for _ in range(5):
            with change(INTERNAL) as tx:
                tx.record(Change.ROLE_UPDATED, subject=f"own-{number}", project="p")
                tx.record(Change.ROLE_UPDATED, subject="shared", project="p")

    at_once(*(partial(write, number) for number in range(4)))
    shared = OutboxEvent.objects.filter(object_key="role:shared").order_by("sequence")
    assert list(shared.values_list("sequence", flat=True)) == list(range(1, 21))
