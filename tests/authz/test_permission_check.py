"""The permission check of the older API, on objects by id and by name."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.models import Tabular
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tenancy.authz.actions import LEGACY_ACTION_NAMES
from tenancy.models import Securable
from tests.authz.permission_check_fixtures import A_WORD, KINDS, NAMES, TABULARS, asked, by_id, by_name
from tests.authz.permission_fixtures import MISSING, SHOWS, Things, other_project
from tests.harness.named_callers import CallerClient

pytestmark = pytest.mark.django_db

T = Securable.Type


def check(client: CallerClient, *question: Any, **headers: str) -> bool:
    response = client.post("/check", asked(*question), **headers)
    assert response.status == 200, response.body
    assert response.json().keys() == {"allowed"}
    is_allowed: bool = response.json()["allowed"]
    return is_allowed


@pytest.mark.parametrize("kind", KINDS)
def test_each_action_is_checked_for_oneself_and_for_others(things: Things, kind: Securable.Type) -> None:
    manager, location = things.manager(kind), by_id(things, kind)
    viewer = things.with_right("viewer", SHOWS[kind]) if kind in SHOWS else things.client("viewer")
    route = "authorizer-actions" if kind is T.GENERIC_TABLE else "access"
    reported = set(viewer.get(f"{things.path(kind)}/{route}").json()["allowed-actions"])
    for word in LEGACY_ACTION_NAMES[kind]:
        own = check(viewer, kind, word, location)
        assert check(manager, kind, word, location, {"user": "oidc~viewer"}) is own
        assert check(viewer, kind, word, location, {"user": "oidc~viewer"}) is own
        if kind is not T.GENERIC_TABLE:
            assert own is (word in reported)
    assert check(manager, kind, A_WORD[kind], location)
    assert not check(viewer, kind, A_WORD[kind], location)


@pytest.mark.parametrize("kind", [T.NAMESPACE, *TABULARS])
def test_objects_are_found_by_their_names_whatever_the_case(things: Things, kind: Securable.Type) -> None:
    client = things.with_right("viewer", SHOWS[kind])
    location = by_name(things, kind)
    upper = {
        key: [each.upper() for each in value] if isinstance(value, list) else value for key, value in location.items()
    }
    for each in (location, upper):
        assert check(client, kind, "get_metadata", each)
        assert not check(client, kind, A_WORD[kind], each)
    other = location | ({"namespace": ["open"]})
    assert client.post("/check", asked(kind, "get_metadata", other)).refused(404, MISSING[kind])


@pytest.mark.parametrize("kind", TABULARS)
def test_the_names_of_members_that_other_clients_use(things: Things, kind: Securable.Type) -> None:
    client = things.with_right("viewer", SHOWS[kind])
    own_id, here = things.public_id(kind), {"warehouse-id": str(things.warehouse.pk)}
    for name in ("table-id", "table_id", "view_id", "view-id", "generic_table_id", "generic-table-id"):
        assert check(client, kind, "get_metadata", here | {name: own_id})
    levels = here | {"namespace": ["closed", "deep"]}
    for name in ("table", "view", "generic_table", "generic-table"):
        assert check(client, kind, "get_metadata", levels | {name: NAMES[kind]})
    both = asked(kind, "get_metadata", here | {"table-id": own_id, "view_id": own_id})
    assert client.post("/check", both).refused(400, "BadRequestException", "different names")
    with_name = here | {"table-id": own_id, "namespace": ["open"], "table": "b"}
    assert check(client, kind, "get_metadata", with_name)  # the id counts


def test_grant_managers_without_access_to_the_object_may_check(things: Things) -> None:
    blind = things.with_right("blind", ("manage_grants", T.TABLE))
    location = by_id(things, T.TABLE)
    assert check(blind, T.TABLE, "grant_select", location)
    assert not check(blind, T.TABLE, "get_metadata", location)
    assert check(blind, T.TABLE, "read_data", location, {"user": "oidc~root"})


def test_a_project_is_named_in_the_question_or_by_header_and_must_be_seen(things: Things) -> None:
    project = other_project()
    member = things.with_right("member", ("create", T.PROJECT))
    own = str(things.refs[T.PROJECT][1])
    for location in ({}, {"project-id": own}, {"project-id": None}):
        assert check(member, T.PROJECT, "create_warehouse", location)
    assert check(member, T.PROJECT, "create_warehouse", {"project-id": own}, **{"x-project-id": project.pk})
    for headers, location in (({"x-project-id": project.pk}, {}), ({}, {"project-id": project.pk})):
        response = member.post("/check", asked(T.PROJECT, "create_warehouse", location), **headers)
        assert response.refused(403, "ProjectActionForbidden", "get_metadata")
    response = member.post("/check", asked(T.PROJECT, "create_warehouse", {"project-id": "no"}))
    assert response.refused(404, "ProjectNotFound")


def test_dropped_and_inactive_objects_are_found_by_id(things: Things) -> None:
    client = things.with_right("viewer", SHOWS[T.TABLE])
    Tabular.objects.filter(pk=things.refs[T.TABLE][1]).update(deleted_at=now())
    Warehouse.objects.filter(pk=things.warehouse.pk).update(status="inactive")
    assert check(client, T.TABLE, "read_data", by_id(things, T.TABLE))
    response = client.post("/check", asked(T.TABLE, "read_data", by_name(things, T.TABLE)))
    assert response.refused(404, "NoSuchTableException", "closed.deep.a")
