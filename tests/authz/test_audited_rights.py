"""Rights that come and go with something else leave their trace, too: with who made, moved or deleted an object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from catalog.models import Namespace, Tabular
from tenancy.actor import INTERNAL, Actor
from tenancy.models import AuditRecord, Grant, Role, RoleMember, Securable
from tenancy.selectors.projects import get_project
from tenancy.selectors.server import get_server
from tenancy.services import rights_that_end
from tenancy.services.roles import delete_role
from tenancy.services.service_accounts import create_service_account, delete_service_account
from tenancy.services.users import delete_user
from tests.audit_rows import rows, the_row
from tests.authz.conftest import person
from tests.authz.trees import give, role
from tests.authz.view_owners import VIEW, Lake
from tests.catalog_fixtures import SCHEMA
from tests.named_callers import CallerClient

pytestmark = pytest.mark.django_db

T = Securable.Type
MAKER = "oidc~maker"


@pytest.fixture
def maker(house: Lake) -> CallerClient:
    """Of namespaces; with nothing in the trail yet."""
    house.callers.person("maker")
    give("ownership", (T.WAREHOUSE, house.warehouse.pk), person("maker"))
    AuditRecord.objects.all().delete()
    return CallerClient(f"/catalog/v1/{house.warehouse.pk}", "maker")


def make(maker: CallerClient, *namespaces: str) -> None:
    for name in namespaces:
        assert maker.post("/namespaces", {"namespace": [name]}).status == 200
    AuditRecord.objects.all().delete()


def details(**wanted: Any) -> Any:
    return json.loads(the_row(**wanted).details)


# --- by making -------------------------------------------------------------------------------------------------------


def test_who_makes_a_namespace_is_told_to_own_it(house: Lake, maker: CallerClient) -> None:
    assert maker.post("/namespaces", {"namespace": ["aa"]}).status == 200
    made = Namespace.objects.get(path="aa")
    row = the_row()
    assert (row.event, row.object_type, row.object_id) == ("grant.created", "namespace", str(made.pk))
    assert (row.actor, row.project_id) == (MAKER, house.warehouse.project_id)
    assert json.loads(row.details) == {"levels": ["aa"], "privilege": "ownership", "user": MAKER}
    assert maker.post("/namespaces", {"namespace": ["aa"]}).status == 409
    assert len(rows(event="grant.created")) == 1


def test_the_role_that_was_assumed_owns_what_is_made(house: Lake, maker: CallerClient) -> None:
    group = role("makers")
    give("create", (T.WAREHOUSE, house.warehouse.pk), person("maker"), to=group)
    RoleMember.objects.create(role=group, user_id=MAKER)
    AuditRecord.objects.all().delete()
    assert maker.post("/namespaces", {"namespace": ["aa"]}, **{"x-assume-role": str(group.pk)}).status == 200
    assert details() == {"levels": ["aa"], "privilege": "ownership", "role": str(group.pk)}


def test_rows_of_what_is_made_say_who_owns_it(house: Lake, maker: CallerClient) -> None:
    give("admin", (T.SERVER, get_server().server_id), person("maker"))
    manage = CallerClient("/management/v1", "maker")
    AuditRecord.objects.all().delete()
    assert manage.post("/project", {"project-name": "Lab", "project-id": "lab"}).status == 201
    assert details(event="project.created") == {"named": "Lab", "privilege": "project_admin", "user": MAKER}
    for path, body, event in (
        ("/role", {"name": "staff"}, "role.created"),
        ("/tag-definition", {"name": "pii", "scope": ["table"], "value-kind": "marker"}, "tag-definition.created"),
    ):
        answer = manage.post(path, body, **{"x-project-id": "lab"})
        assert answer.status in {200, 201}, answer.body
        told = details(event=event)
        assert (told["privilege"], told["user"]) == ("ownership", MAKER)
    assert rows(event="grant.created") == []


# --- by moving -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["table", "view"])
def test_what_is_moved_into_another_namespace_is_told_of(house: Lake, maker: CallerClient, kind: str) -> None:
    make(maker, "aa", "bb")
    body = {"name": "t", "schema": SCHEMA} if kind == "table" else {"name": "t", **VIEW}
    assert maker.post(f"/namespaces/aa/{kind}s", body).status == 200
    source, same = {"namespace": ["aa"], "name": "t"}, {"namespace": ["aa"], "name": "u"}
    moved = {"namespace": ["bb"], "name": "v"}
    assert maker.post(f"/{kind}s/rename", {"source": source, "destination": same}).status == 204
    assert rows() == [], "nobody's rights change with a name"
    assert maker.post(f"/{kind}s/rename", {"source": same, "destination": moved}).status == 204
    row = the_row()
    assert (row.event, row.object_type, row.object_id) == (
        f"{kind}.moved",
        kind,
        str(Tabular.objects.get(name="v", namespace__path="bb").pk),
    )
    assert (row.actor, row.project_id) == (MAKER, house.warehouse.project_id)
    assert json.loads(row.details) == {
        "levels": ["bb", "v"], "formerly": ["aa", "u"], "warehouse": str(house.warehouse.pk),
    }  # fmt: skip
    assert maker.post(f"/{kind}s/rename", {"source": same, "destination": moved}).status == 404
    assert len(rows(event=f"{kind}.moved")) == 1


# --- by deleting -----------------------------------------------------------------------------------------------------


def test_a_deleted_user_s_rights_are_named(house: Lake, maker: CallerClient) -> None:
    group = role("staff")
    RoleMember.objects.create(role=group, user_id=MAKER)
    make(maker, "aa")
    owned = f"namespace:{Namespace.objects.get(path='aa').pk}"
    delete_user(actor=INTERNAL, user_id=MAKER)
    assert details(event="user.deleted") == {
        "tokens_revoked": 0,
        "grants": 2,
        "grants_on": {"namespace": 1, "warehouse": 1},
        "granted": [
            f"ownership on {owned} to {MAKER}",
            f"ownership on warehouse:{house.warehouse.pk} to {MAKER}",
        ],
        "memberships": 1,
        "members": [f"{MAKER} in role:{group.pk}"],
    }


def test_of_many_rights_the_first_are_named(house: Lake, maker: CallerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights_that_end, "MOST_TOLD", 2)
    make(maker, "aa", "bb")
    for name in "xyz":
        RoleMember.objects.create(role=role(name), user_id=MAKER)
    delete_user(actor=INTERNAL, user_id=MAKER)
    told = details(event="user.deleted")
    assert (told["grants"], len(told["granted"]), told["memberships"], len(told["members"])) == (3, 2, 3, 2)
    assert not Grant.objects.filter(user_id=MAKER).exists()


def test_a_deleted_role_s_rights_are_named(house: Lake, maker: CallerClient) -> None:
    group, inner = role("staff"), role("inner")
    give("select", (T.WAREHOUSE, house.warehouse.pk), person("maker"), to=group)
    give("ownership", (T.ROLE, group.pk), person("maker"))
    RoleMember.objects.create(role=group, user_id=MAKER)
    RoleMember.objects.create(role=group, member_role=inner)
    delete_role(actor=INTERNAL, project=get_project(None), role_id=group.pk)
    told = details(event="role.deleted")
    assert (told["named"], told["grants"], told["memberships"]) == ("staff", 2, 2)
    assert told["granted"] == [
        f"ownership on role:{group.pk} to {MAKER}",
        f"select on warehouse:{house.warehouse.pk} to role:{group.pk}",
    ]
    assert sorted(told["members"]) == sorted([f"{MAKER} in role:{group.pk}", f"role:{inner.pk} in role:{group.pk}"])
    assert list(Role.objects.filter(pk__in=[group.pk, inner.pk])) == [inner]


def test_a_deleted_service_account_s_rights_are_named(house: Lake) -> None:
    account = create_service_account(actor=INTERNAL, name="robot", description="")
    give("select", (T.WAREHOUSE, house.warehouse.pk), Actor(user_id=account.user_id))
    delete_service_account(actor=INTERNAL, account_id=account.pk)
    told = details(event="service-account.deleted")
    assert told["grants"] == 1
    assert told["granted"] == [f"select on warehouse:{house.warehouse.pk} to {account.user_id}"]
