"""Managed access: set with `manage_grants`, reported with its inheritance, effective immediately."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from tenancy.models import RightsVersion, Securable
from tenancy.models.securable import ObjectRef
from tests.authz.permission_fixtures import FORBIDDEN, MISSING, NO_ONE, SHOWS, Everything, Things, to_user
from tests.harness.log_lines import log_lines
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

T = Securable.Type
BOTH = [T.WAREHOUSE, T.NAMESPACE]


def reported(client: CallerClient, path: str) -> tuple[Any, ...]:
    response = client.get(path)
    assert response.status == 200, response.body
    return tuple(response.json().values())


def put(client: CallerClient, path: str, is_managed: bool) -> None:
    response = client.post(f"{path}/managed-access", {"managed-access": is_managed})
    assert (response.status, response.body) == (200, b""), response.body


def test_it_is_set_and_inherited_and_taken_back(things: Things, lake: dict[str, ObjectRef]) -> None:
    manager = things.manager(T.WAREHOUSE)
    warehouse, deep = things.path(T.WAREHOUSE), things.path(T.NAMESPACE)
    closed, sibling = (f"/namespace/{lake[name][1]}" for name in ("closed", "open"))
    assert manager.get(warehouse).json() == {"managed-access": False}
    assert manager.get(deep).json() == {"managed-access": False, "managed-access-inherited": False}
    put(manager, closed, True)
    assert [reported(manager, each) for each in (warehouse, closed, deep, sibling)] == [
        (False,), (True, True), (False, True), (False, False),
    ]  # fmt: skip
    put(manager, warehouse, True)
    put(manager, closed, False)
    assert [reported(manager, each) for each in (warehouse, closed, deep, sibling)] == [
        (True,), (False, True), (False, True), (False, True),
    ]  # fmt: skip
    put(manager, warehouse, False)
    assert [reported(manager, each) for each in (warehouse, closed, deep, sibling)] == [
        (False,), (False, False), (False, False), (False, False),
    ]  # fmt: skip


def test_owners_of_what_lies_in_it_may_grant_no_more_and_then_again(things: Things) -> None:
    manager, namespace, table = things.manager(T.WAREHOUSE), things.path(T.NAMESPACE), things.path(T.TABLE)
    owner = things.with_right("owner", ("ownership", T.TABLE))
    things.client("dana")
    body = {"writes": [to_user("select", "dana")]}
    put(manager, namespace, True)
    assert owner.post(f"{table}/assignments", body).refused(403, "GrantActionForbidden")
    put(manager, namespace, False)
    assert owner.post(f"{table}/assignments", body).status == 204


def _changes_of_rights() -> int:
    return RightsVersion.objects.values_list("number", flat=True).first() or 0


def test_setting_the_current_value_changes_nothing_and_each_change_is_reported_once(
    things: Things, everything: Everything, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    manager, path = things.manager(T.NAMESPACE), things.path(T.NAMESPACE)
    before, version = everything(), _changes_of_rights()
    with log_lines("icekeeper.audit") as written, django_capture_on_commit_callbacks(execute=True):
        put(manager, path, False)
        assert everything() == before
        put(manager, path, True)
        set_once = everything()
        put(manager, path, True)
        assert everything() == set_once
        put(manager, path, False)
    assert _changes_of_rights() == version + 2
    reported = [(each["message"], each["type"], each["id"], each["managed_access"]) for each in written.read()]
    own_id = str(things.refs[T.NAMESPACE][1])
    assert reported == [("managed-access.set", "namespace", own_id, is_managed) for is_managed in (True, False)]


@pytest.mark.parametrize("kind", BOTH)
def test_who_may_not(things: Things, kind: Securable.Type, everything: Everything) -> None:
    stranger, viewer = things.client("stranger"), things.with_right("viewer", SHOWS[kind])
    reader = things.with_right("reader", ("pass_grants", kind))
    things.with_right("reader", ("select", kind))
    blind = things.with_right("blind", ("manage_grants", kind))
    before = everything()
    path = things.path(kind)
    body = {"managed-access": True}
    messages = []
    for target, named in ((path, things.public_id(kind)), (things.path(kind, NO_ONE), NO_ONE)):
        responses = [stranger.get(target), stranger.post(f"{target}/managed-access", body)]
        assert all(each.refused(404, MISSING[kind]) for each in responses)
        messages.append([each.error["message"].replace(named, "ID") for each in responses])
    assert messages[0] == messages[1]
    for client in (viewer, reader):
        assert client.get(path).status == 200
        assert client.post(f"{path}/managed-access", body).refused(403, FORBIDDEN[kind])
    assert everything() == before
    assert blind.get(path).status == 200
    put(blind, path, True)


def test_the_owner_of_a_namespace_sets_it_there_and_not_where_it_is_managed_above(
    things: Things, everything: Everything
) -> None:
    owner, path = things.with_right("owner", ("ownership", T.NAMESPACE)), things.path(T.NAMESPACE)
    put(owner, path, True)
    put(things.manager(T.WAREHOUSE), things.path(T.WAREHOUSE), True)
    before = everything()
    response = owner.post(f"{path}/managed-access", {"managed-access": False})
    assert response.refused(403, "NamespaceActionForbidden")
    assert everything() == before


@pytest.mark.parametrize("kind", BOTH)
def test_hostile_addresses_and_bodies(things: Things, kind: Securable.Type, everything: Everything) -> None:
    manager, path = things.manager(kind), things.path(kind)
    before = everything()
    own_id, (other,) = things.public_id(kind), (things.public_id(each) for each in BOTH if each is not kind)
    for named in ("no", "%7B" + own_id + "%7D", own_id.replace("-", ""), "..%2F" + own_id, other, "a" * 3000):
        target = things.path(kind, named)
        assert manager.get(target).refused(404, MISSING[kind])
        assert manager.post(f"{target}/managed-access", {"managed-access": True}).refused(404, MISSING[kind])
    bodies: list[Any] = [None, [], {}, {"managed-access": None}, {"managed-access": "true"}, {"managed-access": 1},
                         {"managed_access": True}, {"managed-access": [True]}]  # fmt: skip
    for body in bodies:
        assert manager.post(f"{path}/managed-access", body).refused(400, "BadRequestException"), body
    assert everything() == before
