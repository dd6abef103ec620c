"""Concurrent changes of memberships: no cycles, no chains that are too long, no members of deleted roles."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction

from icekeeper.conf.groups import RoleSettings
from icekeeper.kernel.db import transactions
from tenancy.actor import INTERNAL
from tenancy.models import Project, Role, RoleMember
from tenancy.selectors.projects import get_project
from tenancy.services import role_members
from tenancy.services.users import delete_user
from tests.harness.threads import at_once
from tests.management.role_member_fixtures import add, api, members_of, role, user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped")]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_two_edges_that_form_a_cycle_do_not_both_pass() -> None:
    for number in range(15):
        a, b, c = role(f"a{number}"), role(f"b{number}"), role(f"c{number}")
        add(b, c)
        responses = at_once(lambda a=a, b=b: add(a, b), lambda a=a, c=c: add(c, a))
        assert sorted(response.status for response in responses) == [200, 409], [
            response.body for response in responses
        ]
        [lost] = [response for response in responses if response.status == 409]
        assert lost.refused(409, "RoleMembershipCycle")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_two_edges_that_form_a_too_long_chain_do_not_both_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    short = settings.ICEKEEPER.model_copy(update={"role": RoleSettings(max_nesting_depth=1)})
    monkeypatch.setattr(settings, "ICEKEEPER", short)
    for number in range(10):
        a, b, c = role(f"a{number}"), role(f"b{number}"), role(f"c{number}")
        responses = at_once(lambda a=a, b=b: add(a, b), lambda b=b, c=c: add(b, c))
        assert sorted(response.status for response in responses) == [200, 409]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_the_same_member_twice_in_one_moment() -> None:
    staff = role("staff")
    for number in range(10):
        member = user(f"u{number}")
        responses = at_once(*[lambda member=member: add(staff, member)] * 3)
        assert [response.status for response in responses] == [200, 200, 200]
    assert RoleMember.objects.count() == 10


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_concurrently_deleted_member_is_in_no_role() -> None:
    staff = role("staff")
    for number in range(15):
        member = user(f"u{number}")
        results: list[Any] = at_once(
            lambda member=member: add(staff, member),
            lambda member=member: delete_user(actor=INTERNAL, user_id=member["id"]),
        )
        added, _ = results
        assert added.status in {200, 404}, added.body
    assert not RoleMember.objects.exists()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_role_that_is_deleted_meanwhile_has_no_members() -> None:
    for number in range(15):
        outer, inner = role(f"a{number}"), role(f"b{number}")
        added, deleted = at_once(
            lambda outer=outer, inner=inner: add(outer, inner), lambda inner=inner: api.delete(f"/role/{inner['id']}")
        )
        assert (added.status, deleted.status) in {(200, 204), (404, 204)}, (added.body, deleted.body)
    assert not RoleMember.objects.exists()
    assert Role.objects.count() == 15


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_the_wait_for_others_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: SQLite has no row to lock")
    monkeypatch.setattr(transactions, "MAX_LOCK_WAIT_SECONDS", 0.05)
    staff, bob = role("staff"), user("bob")
    with transaction.atomic():
        role_members.lock_memberships(get_project(None))
        results: list[Any] = at_once(
            lambda: add(staff, bob), lambda: api.delete(f"/role/{staff['id']}"), lambda: members_of(staff)
        )
    added, deleted, read = results
    assert added.refused(409, "RoleMembershipLockTimeout")
    assert deleted.refused(409, "RoleMembershipLockTimeout")
    assert read == []
    assert add(staff, bob).status == 200


def test_nothing_is_checked_before_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    staff, inner = role("staff"), role("inner")
    steps: list[str] = []
    lock, check = role_members.lock_memberships, role_members.require_nestable

    def note_lock(project: Project) -> None:
        steps.append("lock")
        lock(project)

    def note_check(*of: Any) -> None:
        steps.append("check")
        check(*of)

    monkeypatch.setattr(role_members, "lock_memberships", note_lock)
    monkeypatch.setattr(role_members, "require_nestable", note_check)
    add(staff, inner)
    assert steps == ["lock", "check"]
