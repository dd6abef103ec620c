"""Audit of implicit grant changes, on creation, move and deletion of an object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from catalog.models import Namespace, Tabular
from tenancy.actor import INTERNAL, Actor
from tenancy.models import AuditRecord, Grant, Role, RoleMember, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project, get_server
from tenancy.services import automatic_grants
from tenancy.services.roles import delete_role
from tenancy.services.users import create_service_account, delete_service_account, delete_user
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give, role
from tests.authz.view_owner_fixtures import VIEW, Lake
from tests.catalog_fixtures import SCHEMA, finishing_updates
from tests.harness.audit_rows import audit_settings, rows, the_row
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = pytest.mark.django_db

T = Securable.Type
MAKER = "oidc~maker"


@pytest.fixture
def maker(world: Lake) -> CallerClient:
    """Create namespaces, then clear the audit trail."""
    world.callers.user("maker")
    give("ownership", ObjectRef(T.WAREHOUSE, world.warehouse.pk), user("maker"))
    AuditRecord.objects.all().delete()
    return CallerClient(f"/catalog/v1/{world.warehouse.pk}", "maker")


def build(maker: CallerClient, *namespaces: str) -> None:
    for name in namespaces:
        assert maker.post("/namespaces", {"namespace": [name]}).status == 200
    AuditRecord.objects.all().delete()


def details(**wanted: Any) -> Any:
    return json.loads(the_row(**wanted).details)


# --- creation
# -----------------------------------------------------------------------------------------------------------


def test_the_creator_of_a_namespace_is_reported_as_owner(world: Lake, maker: CallerClient) -> None:
    assert maker.post("/namespaces", {"namespace": ["aa"]}).status == 200
    created = Namespace.objects.get(path="aa")
    row = the_row()
    assert (row.event, row.object_type, row.object_id) == ("namespace.created", "namespace", str(created.pk))
    assert (row.actor, row.project_id) == (MAKER, world.warehouse.project_id)
    assert json.loads(row.details) == {
        "levels": ["aa"], "warehouse": str(world.warehouse.pk), "privilege": "ownership", "user": MAKER,
    }  # fmt: skip
    assert maker.post("/namespaces", {"namespace": ["aa"]}).status == 409
    assert len(rows()) == 1


def test_the_assumed_role_owns_what_it_creates(world: Lake, maker: CallerClient) -> None:
    group = role("makers")
    give("create", ObjectRef(T.WAREHOUSE, world.warehouse.pk), user("maker"), to=group)
    RoleMember.objects.create(role=group, user_id=MAKER)
    AuditRecord.objects.all().delete()
    assert maker.post("/namespaces", {"namespace": ["aa"]}, **{"x-assume-role": str(group.pk)}).status == 200
    assert details() == {
        "levels": ["aa"], "warehouse": str(world.warehouse.pk), "privilege": "ownership", "role": str(group.pk),
    }  # fmt: skip


CREATED: dict[str, dict[str, Any]] = {
    "table": {"name": "t", "schema": SCHEMA},
    "view": {"name": "t", **VIEW},
    "generic-table": {"name": "t", "format": "lance"},
}


@pytest.fixture
def create_tabular(world: Lake, maker: CallerClient) -> Callable[[str], Response]:
    """Create one in the namespace `aa`, with an empty audit trail."""
    build(maker, "aa")
    generic = CallerClient(maker.base.replace("/catalog", "/lakekeeper"), "maker")

    def send(kind: str, **headers: str) -> Response:
        client = generic if kind == "generic-table" else maker
        return client.post(f"/namespaces/aa/{kind}s", CREATED[kind], **headers)

    return send


@pytest.mark.parametrize("kind", CREATED)
def test_the_creator_of_a_table_or_view_is_reported_as_owner(
    world: Lake, create_tabular: Callable[[str], Response], kind: str
) -> None:
    assert create_tabular(kind).status == 200
    created = Tabular.objects.get(name="t", namespace__path="aa")
    row = the_row()
    assert (row.event, row.object_type, row.object_id) == (f"{kind}.created", kind, str(created.pk))
    assert (row.actor, row.project_id) == (MAKER, world.warehouse.project_id)
    assert json.loads(row.details) == {
        "levels": ["aa", "t"], "uuid": str(created.uuid), "warehouse": str(world.warehouse.pk),
        "privilege": "ownership", "user": MAKER,
    }  # fmt: skip
    assert create_tabular(kind).status == 409
    assert len(rows()) == 1


def test_a_staged_table_gets_its_owner_on_creation(world: Lake, maker: CallerClient) -> None:
    build(maker, "aa")
    staged = maker.post("/namespaces/aa/tables", {**CREATED["table"], "stage-create": True}).json()["metadata"]
    assert rows() == []
    commit = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(staged)}
    response = maker.post("/namespaces/aa/tables/t", commit)
    assert response.status == 200, response.body
    assert details()["uuid"] == staged["table-uuid"]
    assert the_row().event == "table.created"


def test_a_registered_table_is_owned_by_the_user_who_registers_it(
    maker: CallerClient, create_tabular: Callable[[str], Response]
) -> None:
    location = create_tabular("table").json()["metadata-location"]
    assert maker.post("/namespaces/aa/tables/t/unregister").status == 200
    AuditRecord.objects.all().delete()
    assert maker.post("/namespaces/aa/register", {"name": "again", "metadata-location": location}).status == 200
    reported = details(event="table.registered")
    assert (reported["levels"], reported["privilege"], reported["user"]) == (["aa", "again"], "ownership", MAKER)


def test_the_row_of_a_table_without_owner_has_none(world: Lake, maker: CallerClient) -> None:
    build(maker, "aa")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("catalog.services.tables.create.grant_creator", lambda *_: {})
        assert maker.post("/namespaces/aa/tables", CREATED["table"]).status == 200
    assert details(event="table.created").keys() == {"levels", "uuid", "warehouse"}


def test_without_the_audit_row_no_table_is_created(
    world: Lake, create_tabular: Callable[[str], Response], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no space")

    monkeypatch.setattr("tenancy.changes.transaction.write_changes", fail)
    assert create_tabular("table").status == 500
    assert (rows(), Tabular.objects.filter(namespace__path="aa").count()) == ([], 0)


@pytest.mark.parametrize("kind", CREATED)
def test_the_row_of_a_maker_costs_at_most_one_statement(
    create_tabular: Callable[[str], Response], maker: CallerClient, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with counting() as reported:
        assert create_tabular(kind).status == 200
    AuditRecord.objects.all().delete()
    Tabular.objects.filter(namespace__path="aa").delete()
    use_settings(monkeypatch, audit=audit_settings(enabled=False))
    with counting() as untold:
        assert create_tabular(kind).status == 200
    assert rows() == []
    assert reported["statements"] == untold["statements"] + (connection.vendor == "sqlite")


def test_rows_of_created_objects_name_the_owner(world: Lake, maker: CallerClient) -> None:
    give("admin", ObjectRef(T.SERVER, get_server().server_id), user("maker"))
    manage = CallerClient("/management/v1", "maker")
    AuditRecord.objects.all().delete()
    assert manage.post("/project", {"project-name": "Lab", "project-id": "lab"}).status == 201
    assert details(event="project.created") == {"named": "Lab", "privilege": "project_admin", "user": MAKER}
    for path, body, event in (
        ("/role", {"name": "staff"}, "role.created"),
        ("/tag-definition", {"name": "pii", "scope": ["table"], "value-kind": "marker"}, "tag-definition.created"),
    ):
        response = manage.post(path, body, **{"x-project-id": "lab"})
        assert response.status in {200, 201}, response.body
        reported = details(event=event)
        assert (reported["privilege"], reported["user"]) == ("ownership", MAKER)
    assert rows(event="grant.created") == []


# --- by moving -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_move_into_another_namespace_is_reported(world: Lake, maker: CallerClient, kind: str) -> None:
    build(maker, "aa", "bb")
    body = {"name": "t", "schema": SCHEMA} if kind == "table" else {"name": "t", **VIEW}
    assert maker.post(f"/namespaces/aa/{kind}s", body).status == 200
    AuditRecord.objects.all().delete()
    source, same = {"namespace": ["aa"], "name": "t"}, {"namespace": ["aa"], "name": "u"}
    moved = {"namespace": ["bb"], "name": "v"}
    assert maker.post(f"/{kind}s/rename", {"source": source, "destination": same}).status == 204
    assert the_row().event == f"{kind}.renamed"
    AuditRecord.objects.all().delete()
    assert maker.post(f"/{kind}s/rename", {"source": same, "destination": moved}).status == 204
    row = the_row()
    assert (row.event, row.object_type, row.object_id) == (
        f"{kind}.moved",
        kind,
        str(Tabular.objects.get(name="v", namespace__path="bb").pk),
    )
    assert (row.actor, row.project_id) == (MAKER, world.warehouse.project_id)
    assert json.loads(row.details) == {
        "levels": ["bb", "v"], "formerly": ["aa", "u"], "warehouse": str(world.warehouse.pk),
        "uuid": str(Tabular.objects.get(name="v", namespace__path="bb").uuid),
    }  # fmt: skip
    assert maker.post(f"/{kind}s/rename", {"source": same, "destination": moved}).status == 404
    assert len(rows(event=f"{kind}.moved")) == 1


# --- by deleting -----------------------------------------------------------------------------------------------------


def test_a_deleted_user_s_rights_are_named(world: Lake, maker: CallerClient) -> None:
    group = role("staff")
    RoleMember.objects.create(role=group, user_id=MAKER)
    build(maker, "aa")
    owned = f"namespace:{Namespace.objects.get(path='aa').pk}"
    delete_user(actor=INTERNAL, user_id=MAKER)
    assert details(event="user.deleted") == {
        "tokens_revoked": 0,
        "grants": 2,
        "grants_on": {"namespace": 1, "warehouse": 1},
        "granted": [
            f"ownership on {owned} to {MAKER}",
            f"ownership on warehouse:{world.warehouse.pk} to {MAKER}",
        ],
        "memberships": 1,
        "members": [f"{MAKER} in role:{group.pk}"],
    }


def test_of_many_rights_the_first_are_named(world: Lake, maker: CallerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic_grants, "MAX_NAMED", 2)
    build(maker, "aa", "bb")
    for name in "xyz":
        RoleMember.objects.create(role=role(name), user_id=MAKER)
    delete_user(actor=INTERNAL, user_id=MAKER)
    reported = details(event="user.deleted")
    assert (reported["grants"], len(reported["granted"]), reported["memberships"], len(reported["members"])) == (
        3,
        2,
        3,
        2,
    )
    assert not Grant.objects.filter(user_id=MAKER).exists()


def test_a_deleted_role_s_rights_are_named(world: Lake, maker: CallerClient) -> None:
    group, inner = role("staff"), role("inner")
    give("select", ObjectRef(T.WAREHOUSE, world.warehouse.pk), user("maker"), to=group)
    give("ownership", ObjectRef(T.ROLE, group.pk), user("maker"))
    RoleMember.objects.create(role=group, user_id=MAKER)
    RoleMember.objects.create(role=group, member_role=inner)
    delete_role(actor=INTERNAL, project=get_project(None), role_id=group.pk)
    reported = details(event="role.deleted")
    assert (reported["named"], reported["grants"], reported["memberships"]) == ("staff", 2, 2)
    assert reported["granted"] == [
        f"ownership on role:{group.pk} to {MAKER}",
        f"select on warehouse:{world.warehouse.pk} to role:{group.pk}",
    ]
    assert sorted(reported["members"]) == sorted([f"{MAKER} in role:{group.pk}", f"role:{inner.pk} in role:{group.pk}"])
    assert list(Role.objects.filter(pk__in=[group.pk, inner.pk])) == [inner]


def test_a_deleted_service_account_s_rights_are_named(world: Lake) -> None:
    account = create_service_account(actor=INTERNAL, name="robot", description="")
    give("select", ObjectRef(T.WAREHOUSE, world.warehouse.pk), Actor(user_id=account.user_id))
    delete_service_account(actor=INTERNAL, account_id=account.pk)
    reported = details(event="service-account.deleted")
    assert reported["grants"] == 1
    assert reported["granted"] == [f"select on warehouse:{world.warehouse.pk} to {account.user_id}"]
