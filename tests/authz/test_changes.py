"""Caches of permissions in a process and the epoch that invalidates them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from django.db import DatabaseError, connection, transaction

from icekeeper.kernel.db.sql import fetch_one
from tasks.runtime.runs import run_job
from tenancy.authz import permission_epoch as epoch_module
from tenancy.authz import permissions
from tenancy.authz.actions import Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.permission_epoch import (
    MAX_AGE_SECONDS,
    NO_EXPIRY,
    DecisionCache,
    PermissionEpoch,
    bump_permission_epoch,
    permission_epoch,
)
from tenancy.models import RightsVersion
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
from tests.harness.statement_counts import counting

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

BOB = user("bob")


class Clock:
    """A clock that advances only on demand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace `time.monotonic`."""
    created = Clock()
    monkeypatch.setattr(time, "monotonic", created)
    return created


@pytest.fixture
def watched(clock: Clock) -> Iterator[PermissionEpoch]:
    """The state of a server whose process has just read the epoch."""
    permission_epoch.poll()
    yield permission_epoch
    permission_epoch.invalidate()


def epoch_after_a_look(one: PermissionEpoch) -> int:
    one.poll()
    return one.current()


def without_a_word(statement: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


# --- looking -----------------------------------------------------------------------------------------------------


def test_a_check_renews_the_epoch_when_the_number_changed() -> None:
    RightsVersion.objects.all().delete()
    one = PermissionEpoch()
    epochs = [one.current()]
    for number in (None, None, 1, 1, 2, 2, 2, 1, None, None, 2):
        RightsVersion.objects.all().delete()
        if number is not None:
            RightsVersion.objects.create(singleton=1, number=number)
        epochs.append(epoch_after_a_look(one))
    is_new = [before != after for before, after in pairwise(epochs)]
    assert is_new == [False, False, True, False, True, False, False, True, True, False, True]


def test_an_epoch_reported_anywhere_is_seen_by_the_next_check() -> None:
    """`elsewhere` is a process of another server, with its own copy of the epoch."""
    elsewhere = PermissionEpoch()
    before = epoch_after_a_look(elsewhere)
    own = permission_epoch.current()
    bump_permission_epoch()
    assert permission_epoch.current() != own
    assert elsewhere.current() == before
    assert epoch_after_a_look(elsewhere) != before
    before = elsewhere.current()
    assert epoch_after_a_look(elsewhere) == before


def test_a_change_that_is_undone_is_not_seen_elsewhere() -> None:
    bump_permission_epoch()
    elsewhere = PermissionEpoch()
    before = epoch_after_a_look(elsewhere)
    with transaction.atomic():
        bump_permission_epoch()
        transaction.set_rollback(True)
    assert epoch_after_a_look(elsewhere) == before


def test_the_epoch_is_renewed_immediately_and_on_commit(django_capture_on_commit_callbacks: object) -> None:
    """Immediately for transactions that wait for a lock; on commit for those that read the old rows in between."""
    before = permission_epoch.current()
    with django_capture_on_commit_callbacks() as at_the_end:  # type: ignore[operator]
        bump_permission_epoch()
    meanwhile = permission_epoch.current()
    assert meanwhile != before
    assert len(at_the_end) == 1
    at_the_end[0]()
    assert permission_epoch.current() not in {before, meanwhile}


def test_nothing_is_watched_before_the_first_look_or_long_after_the_last(clock: Clock) -> None:
    one = PermissionEpoch()
    assert not one.is_fresh()
    one.poll()
    assert one.is_fresh()
    clock.now += MAX_AGE_SECONDS - 0.25
    assert one.is_fresh()
    clock.now += 0.25
    assert not one.is_fresh()
    one.poll()
    assert one.is_fresh()
    one.invalidate()
    assert not one.is_fresh()


def test_a_look_counts_from_when_it_began(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The read time counts from before the query, because its result may miss later changes."""
    one, ask = PermissionEpoch(), fetch_one

    def slowly(*args: object) -> object:
        clock.now += MAX_AGE_SECONDS
        return ask(*args)

    monkeypatch.setattr(epoch_module, "fetch_one", slowly)
    one.poll()
    assert not one.is_fresh()


def test_a_look_that_fails_is_none(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = PermissionEpoch()
    before = epoch_after_a_look(one)
    clock.now += MAX_AGE_SECONDS - 0.25
    monkeypatch.setattr(epoch_module, "permission_epoch", one)
    with unreadable(monkeypatch), caplog.at_level(logging.WARNING, "icekeeper.jobs"):
        for _ in range(2):
            run_job("permission-epoch", epoch_module.poll_permission_epoch)
        assert one.is_fresh()
        clock.now += 0.25
        assert not one.is_fresh()
    assert [record.getMessage() for record in caplog.records] == [
        "job permission-epoch failed: DatabaseError: the database is away"
    ]
    run_job("permission-epoch", epoch_module.poll_permission_epoch)
    assert (one.is_fresh(), one.current()) == (True, before)


@contextmanager
def unreadable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(*_: object) -> None:
        raise DatabaseError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(epoch_module, "fetch_one", fail)
        yield


# --- caching
# ------------------------------------------------------------------------------------------------------------


def test_a_memory_is_believed_while_it_is_watched_and_nothing_changed(watched: PermissionEpoch, clock: Clock) -> None:
    memory: DecisionCache[str] = DecisionCache(10)
    memory.put("key", "value", epoch=watched.current(), ends_at=NO_EXPIRY)

    def known() -> str | None:
        found = memory.get("key")
        return None if found is None else found.value

    assert known() == "value"
    clock.now += MAX_AGE_SECONDS
    assert known() is None
    watched.poll()
    assert known() == "value"
    watched.invalidate()
    assert known() is None
    watched.poll()
    assert known() == "value"
    watched.bump()
    assert known() is None


def test_reads_before_a_change_are_not_cached_after_it(watched: PermissionEpoch) -> None:
    memory: DecisionCache[str] = DecisionCache(10)
    epoch_ = watched.current()
    bump_permission_epoch()
    memory.put("key", "value", epoch=epoch_, ends_at=NO_EXPIRY)
    assert memory.get("key") is None


def test_what_ends_is_not_believed_longer(watched: PermissionEpoch, monkeypatch: pytest.MonkeyPatch) -> None:
    memory: DecisionCache[str] = DecisionCache(10)
    memory.put("key", "value", epoch=watched.current(), ends_at=100.0)
    monkeypatch.setattr(time, "time", lambda: 99.5)
    assert memory.get("key") is not None
    monkeypatch.setattr(time, "time", lambda: 100.0)
    assert memory.get("key") is None


def may_read(table: ObjectRef) -> bool:
    return permissions.check_permissions(BOB, [(Can.READ_DATA, table)]) == [True]


def test_an_unannounced_revocation_is_seen_where_no_watcher_runs(
    builtin: BuiltinAuthorizer, tree: dict[str, ObjectRef]
) -> None:
    """As in a command or a worker, which read no epoch."""
    give("select", tree["table"], BOB)
    assert not permission_epoch.is_fresh()
    assert may_read(tree["table"])
    without_a_word("DELETE FROM tenancy_grant WHERE user_id = %s", BOB.user_id)
    assert not may_read(tree["table"])


def test_an_unannounced_revocation_is_seen_after_the_epoch_was_unreadable(
    builtin: BuiltinAuthorizer, tree: dict[str, ObjectRef], watched: PermissionEpoch, clock: Clock
) -> None:
    give("select", tree["table"], BOB)
    assert may_read(tree["table"])
    without_a_word("DELETE FROM tenancy_grant WHERE user_id = %s", BOB.user_id)
    with counting() as costs:
        assert may_read(tree["table"]), "it is cached"
    assert dict(costs) == {}
    clock.now += MAX_AGE_SECONDS
    assert not may_read(tree["table"])


def test_a_revocation_by_another_server_is_seen_with_the_next_look(
    builtin: BuiltinAuthorizer, tree: dict[str, ObjectRef], watched: PermissionEpoch
) -> None:
    give("select", tree["table"], BOB)
    assert may_read(tree["table"])
    without_a_word("DELETE FROM tenancy_grant WHERE user_id = %s", BOB.user_id)
    without_a_word("UPDATE tenancy_rightsversion SET number = number + 1")
    assert may_read(tree["table"])
    watched.poll()
    assert not may_read(tree["table"])
