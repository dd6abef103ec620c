"""The list of direct, unexpired grants on an object: order and pagination."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from icekeeper.kernel.errors.types import InvalidPageToken, NoSuchWarehouse
from icekeeper.kernel.http.paging import Page
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor, Grantee
from tenancy.authz.permissions import WarehouseActionForbidden
from tenancy.models import Grant, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.grants import GrantFilter, ListedGrant, list_grants_for, list_grants_on
from tenancy.selectors.projects import get_project
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tenancy.services.roles import create_role
from tests.authz.conftest import user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]

MISSING = NoSuchWarehouse("there is none")
ALL = GrantFilter()
EVERYTHING = Page("grants", None, None)
LATER = datetime.now(UTC) + timedelta(days=1)


def users(*names: str) -> list[Grantee]:
    for name in names:
        User.objects.get_or_create(id=f"oidc~{name}", defaults={"name": name})
    return [Grantee(user_id=f"oidc~{name}") for name in names]


def give(ref: ObjectRef, *specs: GrantSpec) -> None:
    for each in specs:  # one after the other, so that their order is fixed
        apply_grants(actor=INTERNAL, ref=ref, difference=Difference(writes=[each]), missing=MISSING)


def reported(found: list[ListedGrant]) -> list[tuple[str, Grantee]]:
    return [(each.privilege, each.grantee) for each in found]


@pytest.fixture
def ref(warehouse: Warehouse) -> ObjectRef:
    return ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)


@pytest.fixture
def role(warehouse: Warehouse) -> ObjectRef:
    created = create_role(
        actor=INTERNAL, project=get_project(None), name="analysts", description=None, provider_id=None, source_id=None
    )
    return ObjectRef(Securable.Type.ROLE, created.pk)


def test_grants_are_listed_in_order_and_nothing_else(ref: ObjectRef, role: ObjectRef) -> None:
    anna, bert = users("anna", "bert")
    team = Grantee(role_id=role[1])
    give(ref, GrantSpec("select", bert), GrantSpec("ownership", anna, LATER), GrantSpec("describe", team))
    give(ObjectRef(Securable.Type.PROJECT, get_project(None).pk), GrantSpec("project_admin", anna))
    found, token = list_grants_on(ref=ref, wanted=ALL, page=EVERYTHING)
    assert token is None
    assert reported(found) == [("select", bert), ("ownership", anna), ("describe", team)]
    assert [each.expires_at for each in found] == [None, LATER, None]
    rows = Grant.objects.filter(securable_id=f"warehouse:{ref[1]}").order_by("id")
    assert [each.created_at for each in found] == list(rows.values_list("created_at", flat=True))


def test_what_has_ended_is_left_out(ref: ObjectRef, role: ObjectRef) -> None:
    anna, bert = users("anna", "bert")
    give(ref, GrantSpec("select", anna, LATER), GrantSpec("select", bert, LATER))
    give(role, GrantSpec("assignee", anna, LATER), GrantSpec("assignee", bert, LATER))
    past = datetime.now(UTC) - timedelta(seconds=1)
    Grant.objects.filter(user_id=anna.user_id).update(expires_at=past)
    RoleMember.objects.filter(user_id=anna.user_id).update(expires_at=past)
    assert reported(list_grants_on(ref=ref, wanted=ALL, page=EVERYTHING)[0]) == [("select", bert)]
    assert reported(list_grants_on(ref=role, wanted=ALL, page=EVERYTHING)[0]) == [("assignee", bert)]


def test_members_of_a_role_are_its_assignees_among_its_owners(role: ObjectRef) -> None:
    anna, bert, carl = users("anna", "bert", "carl")
    give(role, GrantSpec("assignee", bert), GrantSpec("ownership", anna), GrantSpec("assignee", carl, LATER))
    expected = [("assignee", bert), ("ownership", anna), ("assignee", carl)]
    found = list_grants_on(ref=role, wanted=ALL, page=EVERYTHING)[0]
    assert reported(found) == expected
    assert [each.expires_at for each in found] == [None, None, LATER]
    for privileges, wanted in (
        ({"ownership"}, expected[1:2]),
        ({"assignee"}, [expected[0], expected[2]]),
        ({"assignee", "ownership"}, expected),
    ):
        narrowed = GrantFilter(privileges=privileges)
        assert reported(list_grants_on(ref=role, wanted=narrowed, page=EVERYTHING)[0]) == wanted


def test_a_listing_is_narrowed_to_privileges_and_to_one_grantee(ref: ObjectRef, role: ObjectRef) -> None:
    anna, bert = users("anna", "bert")
    team = Grantee(role_id=role[1])
    give(ref, GrantSpec("select", anna), GrantSpec("create", anna))
    give(ref, GrantSpec("select", bert), GrantSpec("select", team))
    give(role, GrantSpec("assignee", anna), GrantSpec("ownership", bert))
    for on, wanted, expected in (
        (ref, GrantFilter({"create"}), [("create", anna)]),
        (ref, GrantFilter({"select", "no such"}), [("select", anna), ("select", bert), ("select", team)]),
        (ref, GrantFilter(()), []),
        (ref, GrantFilter({"assignee"}), []),
        (ref, GrantFilter(grantee=anna), [("select", anna), ("create", anna)]),
        (ref, GrantFilter({"select"}, team), [("select", team)]),
        (role, GrantFilter(grantee=anna), [("assignee", anna)]),
        (role, GrantFilter(grantee=bert), [("ownership", bert)]),
        (role, GrantFilter(grantee=team), []),
    ):
        assert reported(list_grants_on(ref=on, wanted=wanted, page=EVERYTHING)[0]) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_pages_hold_each_grant_once_whatever_is_granted_meanwhile(role: ObjectRef, size: int) -> None:
    names = users("anna", "bert", "carl", "dora", "emil")
    for index, each in enumerate(names):
        give(role, GrantSpec("assignee" if index % 2 else "ownership", each))
    seen: list[Grantee] = []
    token = None
    while True:
        found, token = list_grants_on(ref=role, wanted=ALL, page=Page("grants", token, size))
        assert len(found) <= size
        seen += [each.grantee for each in found]
        if len(seen) == size:
            give(role, GrantSpec("ownership", *users("zoe")))
        if token is None:
            break
    assert seen == [*names, *users("zoe")][: len(seen)]
    assert len(seen) == 5 + (size < 5)
    with pytest.raises(InvalidPageToken):
        list_grants_on(ref=role, wanted=ALL, page=Page("grants", "WzEsIm90aGVyIiwieCJd", size))


def test_listing_requires_permission_to_read_grants(ref: ObjectRef) -> None:
    manager, reader = users("manager", "reader")
    give(ref, GrantSpec("manage_grants", manager), GrantSpec("describe", reader))

    def listed(actor: Actor) -> int:
        return len(list_grants_for(actor=actor, ref=ref, missing=MISSING, wanted=ALL, page=EVERYTHING)[0])

    assert listed(user("manager")) == listed(INTERNAL) == 2
    with pytest.raises(WarehouseActionForbidden):
        listed(user("reader"))
    with pytest.raises(NoSuchWarehouse):
        listed(user("stranger"))
