"""Grants by `pass_grants` alone expire no later than the giver's own privilege, however it is derived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from unittest import mock
from uuid import UUID

import pytest

from catalog.models import Tabular
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import NotFound
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor, Grantee
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.openfga.backend import OpenFgaAuthorizer
from tenancy.authz.openfga.store import openfga_store
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import GrantActionForbidden
from tenancy.models import Grant, RoleMember, User
from tenancy.models.securable import ObjectRef
from tenancy.services import grants as service
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give, role
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.openfga_fixtures import deliver_as_recorded

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

BOB, CAROL = user("bob"), user("carol")
NOT_FOUND = NotFound("there is no such thing")


@pytest.fixture
def here(tree: dict[str, ObjectRef], builtin: BuiltinAuthorizer) -> dict[str, ObjectRef]:
    """Bob and Carol are registered, without grants."""
    User.objects.bulk_create(User(id=each.user_id, name="n") for each in (BOB, CAROL))
    return tree


def put(privilege: str, on: ObjectRef, who: Actor | UUID, until: datetime | None = None) -> None:
    _write(INTERNAL, privilege, on, who, until)


def passing(on: ObjectRef, until: datetime | None = None, *, to: Actor = CAROL, actor: Actor = BOB) -> None:
    _write(actor, "select", on, to, until)


def _write(actor: Actor, privilege: str, on: ObjectRef, who: Actor | UUID, until: datetime | None) -> None:
    grantee = Grantee(role_id=who) if isinstance(who, UUID) else Grantee(user_id=who.user_id)
    difference = Difference(writes=[GrantSpec(privilege, grantee, until)])
    apply_grants(actor=actor, ref=on, difference=difference, missing=NOT_FOUND)


def ends(on: ObjectRef, who: Actor = CAROL) -> list[datetime | None]:
    rows = Grant.objects.filter(securable__object_id=str(on[1]), user=who.user_id, privilege="select")
    return list(rows.values_list("expires_at", flat=True))


def in_hours(hours: float) -> datetime:
    return now() + timedelta(hours=hours)


@pytest.mark.parametrize("ending", ["select", "pass_grants", "both", "select above"])
def test_no_later_end_than_ones_own(here: dict[str, ObjectRef], ending: str) -> None:
    table, until = here["table"], in_hours(1)
    above = "wh" if ending == "select above" else "table"
    put("select", here[above], BOB, None if ending == "pass_grants" else until)
    put("pass_grants", table, BOB, until if ending in {"pass_grants", "both"} else None)
    for later in (None, until + timedelta(microseconds=1)):
        for to in (CAROL, BOB):
            with pytest.raises(GrantActionForbidden, match="select for longer than they have it themselves"):
                passing(table, later, to=to)
    assert ends(table) == []
    for earlier in (until - timedelta(minutes=1), until):
        passing(table, earlier)
        assert ends(table) == [earlier]


def test_the_way_that_lasts_longest_counts(here: dict[str, ObjectRef]) -> None:
    table, team, until = here["table"], role("team"), in_hours(2)
    put("select", table, BOB, in_hours(1))
    put("modify", here["outer"], team.pk)
    put("assignee", ObjectRef(T.ROLE, team.pk), BOB, until)
    put("pass_grants", table, BOB)
    passing(table, until)
    with pytest.raises(GrantActionForbidden):
        passing(table)
    RoleMember.objects.update(expires_at=None)
    passing(table)
    assert ends(table) == [None]


@pytest.mark.parametrize("entry", ["assignee", "ownership", "of a role in it"])
@pytest.mark.parametrize("assumed", [False, True])
def test_temporary_members_of_a_role(here: dict[str, ObjectRef], entry: str, assumed: bool) -> None:
    table, team, until = here["table"], role("team"), in_hours(1)
    for privilege in ("select", "pass_grants"):
        put(privilege, table, team.pk)
    if entry == "of a role in it":
        inner = role("inner")
        put("assignee", ObjectRef(T.ROLE, team.pk), inner.pk)
        put("assignee", ObjectRef(T.ROLE, inner.pk), BOB, until)
    else:
        put(entry, ObjectRef(T.ROLE, team.pk), BOB, until)
    actor = replace(BOB, assumed_role=team.pk) if assumed else BOB
    for later in (None, until + timedelta(seconds=1)):
        with pytest.raises(GrantActionForbidden):
            passing(table, later, actor=actor)
    passing(table, until, actor=actor)
    assert ends(table) == [until]


def test_a_role_of_a_token_has_no_end(here: dict[str, ObjectRef]) -> None:
    table, team = here["table"], role("team", source="those")
    for privilege in ("select", "pass_grants"):
        put(privilege, table, team.pk)
    bob = user("bob", "those")
    passing(table, actor=bob)
    passing(table, in_hours(1), actor=replace(bob, assumed_role=team.pk))
    passing(table, actor=replace(bob, assumed_role=team.pk))
    assert ends(table) == [None]


@pytest.mark.parametrize("managing", ["manage_grants", "ownership"])
def test_a_temporary_grant_manager_may_create_lasting_grants(here: dict[str, ObjectRef], managing: str) -> None:
    put(managing, here["table"], BOB, in_hours(1))
    passing(here["table"])
    assert ends(here["table"]) == [None]


def test_each_grant_of_one_call_is_checked(here: dict[str, ObjectRef], everything: Callable[[], Fingerprint]) -> None:
    table, until = here["table"], in_hours(1)
    put("modify", table, BOB, until)
    put("select", table, BOB)
    put("pass_grants", table, BOB)
    to, before = Grantee(user_id=CAROL.user_id), everything()
    for bad in (
        [GrantSpec("select", to), GrantSpec("modify", to)],
        [GrantSpec("modify", to, until), GrantSpec("modify", Grantee(user_id=BOB.user_id))],
    ):
        with pytest.raises(GrantActionForbidden, match="modify for longer"):
            apply_grants(actor=BOB, ref=table, difference=Difference(writes=bad), missing=NOT_FOUND)
    assert everything() == before
    good = Difference(writes=[GrantSpec("select", to), GrantSpec("modify", to, until)])
    apply_grants(actor=BOB, ref=table, difference=good, missing=NOT_FOUND)
    taken = Difference(deletes=[GrantSpec("modify", to), GrantSpec("select", to)])
    apply_grants(actor=BOB, ref=table, difference=taken, missing=NOT_FOUND)


def test_an_end_that_comes_meanwhile_counts(here: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch) -> None:
    """The grant expires between the check and the lock."""
    table, lock = here["table"], service._lock
    put("pass_grants", table, BOB)
    put("select", table, BOB)

    def lock_later(*args: object) -> object:
        monkeypatch.setattr(service, "_lock", lock)
        put("select", table, BOB, in_hours(1))
        return lock(*args)

    monkeypatch.setattr(service, "_lock", lock_later)
    with pytest.raises(GrantActionForbidden):
        passing(table)
    assert ends(table) == []


def test_by_the_api(
    lake: dict[str, ObjectRef], manage: Callable[[str], CallerClient], warehouse: Warehouse, builtin: BuiltinAuthorizer
) -> None:
    table, until = lake["closed.a"], in_hours(1)
    bob, row = manage("bob"), Tabular.objects.get(pk=lake["closed.a"][1])
    User.objects.bulk_create(User(id=each.user_id, name="n") for each in (BOB, CAROL))
    for privilege in ("select", "pass_grants"):
        put(privilege, table, BOB, until)
    grants = f"/warehouse/{warehouse.pk}/table/{row.uuid}/grants"
    assignments = f"/permissions/warehouse/{warehouse.pk}/table/{row.uuid}/assignments"
    for name in ("bob", "carol"):
        write = {"privilege": "select", "principal": {"user": f"oidc~{name}"}}
        assert bob.post(grants, {"writes": [write]}).refused(403, "GrantActionForbidden", "an earlier expires-at")
        response = bob.post(assignments, {"writes": [{"type": "select", "user": f"oidc~{name}"}]})
        assert response.refused(403, "GrantActionForbidden", "an earlier expires-at")
    assert (ends(table, BOB), ends(table)) == ([until], [])
    write = {"privilege": "select", "principal": {"user": "oidc~carol"}, "expires-at": until.isoformat()}
    assert bob.post(grants, {"writes": [write]}).status == 204
    assert ends(table) == [until]


def test_manage_grants_revoked_before_the_write(
    lake: dict[str, ObjectRef], manage: Callable[[str], CallerClient], warehouse: Warehouse, builtin: BuiltinAuthorizer
) -> None:
    table, bob = lake["closed.a"], manage("bob")
    User.objects.bulk_create(User(id=each.user_id, name="n") for each in (BOB, CAROL))
    for privilege in ("select", "pass_grants"):
        put(privilege, table, BOB, in_hours(1))
    put("manage_grants", table, BOB)
    begin_write, managing = (
        request_context.begin_write,
        Grant.objects.filter(user=BOB.user_id, privilege="manage_grants"),
    )

    def lose() -> None:
        managing.delete()
        permission_epoch.bump()
        begin_write()

    row = Tabular.objects.get(pk=table[1])
    write = {"privilege": "select", "principal": {"user": "oidc~carol"}}
    with mock.patch.object(request_context, "begin_write", lose):
        response = bob.post(f"/warehouse/{warehouse.pk}/table/{row.uuid}/grants", {"writes": [write]})
    assert response.refused(403, "TableActionForbidden", "may not grant_manage_grants")
    assert ends(table) == []


@pytest.mark.part("openfga")
@pytest.mark.parametrize("in_role", [False, True])
def test_by_openfga(tree: dict[str, ObjectRef], by_openfga: OpenFgaAuthorizer, in_role: bool) -> None:
    User.objects.bulk_create(User(id=each.user_id, name="n") for each in (BOB, CAROL))
    table, until = tree["table"], in_hours(1)
    for privilege in ("select", "pass_grants"):
        if in_role:
            team = role(f"with {privilege}")
            put(privilege, table, team.pk)
            put("assignee", ObjectRef(T.ROLE, team.pk), BOB, until)
        else:
            put(privilege, table, BOB, until)
    deliver_as_recorded(openfga_store())
    with pytest.raises(GrantActionForbidden):
        passing(table)
    passing(table, until)
    assert ends(table) == [until]
    give("manage_grants", table, BOB)
    deliver_as_recorded(openfga_store())
    passing(table)
    assert ends(table) == [None]
