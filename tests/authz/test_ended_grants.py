"""Audit of grants that end with a drop or a deletion: the row of the drop lists them all."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from catalog.models import Namespace, Tabular
from catalog.services.namespaces.drop import drop_subtree
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import delete_rows_returning
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.authz import securables
from tenancy.authz.securables import EndedGrants, add_securable, remove_securables
from tenancy.models import AuditRecord, Grant, OutboxEvent, Role, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import get_project
from tenancy.services.roles import delete_role
from tenancy.services.users import delete_user
from tests.authz.conftest import user
from tests.authz.grant_change_fixtures import Refs
from tests.authz.tree_fixtures import T, give, role
from tests.harness.audit_rows import rows, the_row
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

ROOT = "oidc~root"
OPEN, DEEP = "/namespaces/open", "/namespaces/closed%1Fdeep"


@pytest.fixture(autouse=True)
def begin(lake: dict[str, ObjectRef]) -> None:
    """Return an empty audit trail after Root has created, and owns, every object."""
    AuditRecord.objects.all().delete()


def owned(*refs: ObjectRef) -> list[str]:
    return sorted(f"ownership on {securable_id(*ref)} to {ROOT}" for ref in refs)


def ended(ref: ObjectRef) -> Any:
    """Return the contents of the one row about the drop of the object."""
    row = the_row(event=f"{ref[0].value}.dropped", object_id=str(ref[1]))
    assert row.object_type == ref[0].value
    assert (row.actor, row.outcome, row.project_id) == (ROOT, "allowed", Warehouse.objects.get().project_id)
    reported = json.loads(row.details)
    assert reported.pop("warehouse") == str(Warehouse.objects.get().pk)
    return reported


def uuid_of(ref: ObjectRef) -> str:
    return str(Tabular.objects.get(pk=ref[1]).uuid)


def generic(root: CallerClient) -> CallerClient:
    return CallerClient(root.base.replace("/catalog", "/lakekeeper"), "root")


# --- dropped ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "v", "g"])
@pytest.mark.parametrize("query", ["", "?force=true", "?purgeRequested=true"])
def test_with_a_table_view_or_generic_table(
    lake: dict[str, ObjectRef], root: CallerClient, name: str, query: str
) -> None:
    ref = lake[f"open.{name}"]
    group, uuid = role("readers"), uuid_of(ref)
    give("select", ref, user("ann"), to=group)
    AuditRecord.objects.all().delete()
    client, noun = {"a": (root, "tables"), "v": (root, "views"), "g": (generic(root), "generic-tables")}[name]
    assert client.delete(f"{OPEN}/{noun}/{name}{query}").status == 204
    on = securable_id(*ref)
    assert ended(ref) == {
        "levels": ["open", name],
        "uuid": uuid,
        "purge": "purge" in query or name == "g",
        "grants": 2,
        "grants_on": {ref[0].value: 2},
        "granted": [f"ownership on {on} to {ROOT}", f"select on {on} to role:{group.pk}"],
    }
    assert not Grant.objects.filter(securable_id=on).exists()
    assert client.delete(f"{OPEN}/{noun}/{name}{query}").status == 404
    assert [row.event for row in rows()] == [f"{ref[0].value}.dropped"]


def test_with_a_table_that_is_unregistered(lake: dict[str, ObjectRef], root: CallerClient) -> None:
    ref, uuid = lake["open.a"], uuid_of(lake["open.a"])
    assert root.post(f"{OPEN}/tables/a/unregister").status == 200
    reported = ended(ref)
    assert (reported["levels"], reported["uuid"], reported["granted"]) == (["open", "a"], uuid, owned(ref))


def test_with_a_table_that_gives_way_to_another(lake: dict[str, ObjectRef], root: CallerClient) -> None:
    ref, uuid = lake["open.a"], uuid_of(lake["open.a"])
    location = Tabular.objects.get(pk=lake["open.b"][1]).metadata_location
    assert root.post(f"{OPEN}/tables/b/unregister").status == 200
    AuditRecord.objects.all().delete()
    body = {"name": "a", "metadata-location": location, "overwrite": True}
    assert root.post(f"{OPEN}/register", body).status == 200
    reported = ended(ref)
    assert (reported["levels"], reported["uuid"], reported["granted"]) == (["open", "a"], uuid, owned(ref))


def test_with_a_soft_deleted_table_only_when_it_expires(
    lake: dict[str, ObjectRef], root: CallerClient, soft_delete: int, do_tasks: Callable[[], int]
) -> None:
    ref, uuid = lake["open.a"], uuid_of(lake["open.a"])
    assert root.delete(f"{OPEN}/tables/a").status == 204
    dropped = json.loads(the_row().details)
    assert (dropped["levels"], dropped["uuid"], dropped["purge"]) == (["open", "a"], uuid, False)
    assert dropped.keys() == {"levels", "uuid", "purge", "warehouse", "expires_at"}
    assert Grant.objects.filter(securable_id=securable_id(*ref)).count() == 1
    assert do_tasks() == 1
    row = the_row(event="table.expired")
    assert (row.actor, row.object_type, row.object_id) == ("internal", "table", str(ref[1]))
    assert row.project_id == Warehouse.objects.get().project_id
    assert json.loads(row.details) == {
        "levels": ["open", "a"], "uuid": uuid, "warehouse": str(Warehouse.objects.get().pk), "purge": False,
        "grants": 1, "grants_on": {"table": 1}, "granted": owned(ref),
    }  # fmt: skip


def test_with_an_empty_namespace(lake: dict[str, ObjectRef], root: CallerClient) -> None:
    assert root.post("/namespaces", {"namespace": ["empty"]}).status == 200
    ref: ObjectRef = ObjectRef(T.NAMESPACE, Namespace.objects.get(path="empty").pk)
    AuditRecord.objects.all().delete()
    assert root.delete("/namespaces/empty").status == 204
    assert ended(ref) == {
        "levels": ["empty"], "grants": 1, "grants_on": {"namespace": 1}, "granted": owned(ref),
    }  # fmt: skip


def test_with_a_namespace_and_all_that_is_in_it(
    lake: dict[str, ObjectRef], root: CallerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soft-deleted ones too, in one row, for every batch size."""
    monkeypatch.setattr("catalog.services.tables.drop.BATCH_SIZE", 3)
    monkeypatch.setattr("catalog.services.namespaces.drop.BATCH_SIZE", 1)
    Tabular.objects.filter(pk=lake["closed.a"][1]).update(deleted_at="2026-01-01T00:00:00Z")
    inside = [ref for name, ref in lake.items() if name.startswith("closed")]
    assert root.delete("/namespaces/closed?recursive=true").status == 204
    assert ended(lake["closed"]) == {
        "levels": ["closed"],
        "grants": 10,
        "grants_on": {"generic-table": 2, "namespace": 2, "table": 4, "view": 2},
        "granted": owned(*inside),
    }
    assert Grant.objects.filter(securable__type__in=["namespace", "table", "view", "generic-table"]).count() == 5
    assert sorted((row.object_type, row.object_id) for row in rows()) == sorted((ref[0], str(ref[1])) for ref in inside)


def test_of_many_the_first_are_named(
    lake: dict[str, ObjectRef], root: CallerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(securables, "MAX_NAMED", 3)
    inside = [ref for name, ref in lake.items() if name.startswith("closed")]
    assert root.delete("/namespaces/closed?recursive=true").status == 204
    reported = ended(lake["closed"])
    assert (reported["grants"], reported["granted"]) == (10, owned(*inside)[:3])


def test_the_row_of_a_large_namespace_is_small(lake: dict[str, ObjectRef], warehouse: Warehouse) -> None:
    """It needs no more statements than a drop without grants, for 2,000 grants on 1,000 tables."""
    namespace = Namespace.objects.get(path="open")
    User.objects.bulk_create(User(id=f"oidc~{name}", name=name) for name in ("ann", "bob"))

    def select_for_both() -> None:
        Grant.objects.bulk_create(
            Grant(securable_id=own_id, path=path, user_id=user, privilege="select")
            for own_id, path in Securable.objects.filter(type="table").values_list("pk", "path")
            for user in ("oidc~ann", "oidc~bob")
        )

    def fill(count: int) -> None:
        ids = [new_id() for _ in range(count)]
        path = Securable.objects.get(pk=f"namespace:{namespace.pk}").path
        Tabular.objects.bulk_create(
            Tabular(
                id=each, warehouse=warehouse, namespace=namespace, kind="table", uuid=each, name=str(each),
                name_key=str(each), location=f"{warehouse.location}/{each}", metadata_location="",
            )
            for each in ids
        )  # fmt: skip
        Securable.objects.bulk_create(
            Securable(
                id=f"table:{each}", type="table", object_id=str(each), path=f"{path}table:{each}/",
                parent_id=f"namespace:{namespace.pk}",
            )
            for each in ids
        )  # fmt: skip
        select_for_both()

    fill(1_000)
    with transaction.atomic():
        with counting() as with_grants:
            drop_subtree(actor=INTERNAL, warehouse_id=warehouse.pk, levels=("open",), purge=False)
        transaction.set_rollback(True)
    Grant.objects.all().delete()
    AuditRecord.objects.all().delete()
    with transaction.atomic():
        with counting() as without:
            drop_subtree(actor=INTERNAL, warehouse_id=warehouse.pk, levels=("open",), purge=False)
        assert json.loads(the_row(event="namespace.dropped").details)["grants"] == 0
        transaction.set_rollback(True)
    assert with_grants["statements"] == without["statements"]
    select_for_both()
    drop_subtree(actor=INTERNAL, warehouse_id=warehouse.pk, levels=("open",), purge=False)
    row = the_row(event="namespace.dropped")
    reported = json.loads(row.details)
    assert (reported["grants"], reported["grants_on"], len(reported["granted"])) == (2_004, {"table": 2_004}, 100)
    assert len(row.details) < 20_000


def test_denied_requests_end_no_grants(lake: dict[str, ObjectRef], root: CallerClient) -> None:
    Tabular.objects.filter(pk=lake["closed.deep.a"][1]).update(protected=True)
    before, events = Grant.objects.count(), OutboxEvent.objects.count()
    assert root.delete("/namespaces/closed?recursive=true").status == 409
    assert root.delete("/namespaces/closed").status == 409
    assert root.delete(f"{DEEP}/tables/a").status == 409
    assert root.delete(f"{DEEP}/tables/none").status == 404
    assert (rows(), Grant.objects.count(), OutboxEvent.objects.count()) == ([], before, events)


def test_where_the_row_cannot_be_written_nothing_is_dropped(
    lake: dict[str, ObjectRef], root: CallerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no space")

    monkeypatch.setattr("tenancy.changes.transaction.write_changes", fail)
    before = Grant.objects.count()
    assert root.delete(f"{OPEN}/tables/a").status == 500
    assert root.delete("/namespaces/closed?recursive=true").status == 500
    assert (Grant.objects.count(), Tabular.objects.count()) == (before, 12)


# --- deleted ---------------------------------------------------------------------------------------------------------


def test_with_a_warehouse(lake: dict[str, ObjectRef], root: CallerClient, warehouse: Warehouse) -> None:
    for name in ("open", "closed"):
        assert root.delete(f"/namespaces/{name}?recursive=true").status == 204
    give("select", ObjectRef(T.WAREHOUSE, warehouse.pk), user("ann"))
    AuditRecord.objects.all().delete()
    assert CallerClient("/management/v1", "root").delete(f"/warehouse/{warehouse.pk}").status == 204
    row = the_row(event="warehouse.deleted")
    assert json.loads(row.details) == {
        "named": warehouse.name, "grants": 1, "grants_on": {"warehouse": 1},
        "granted": [f"select on warehouse:{warehouse.pk} to oidc~ann"],
    }  # fmt: skip


def test_with_a_tag(refs: Refs) -> None:
    ref = refs[T.TAG]
    give("ownership", ref, user("ann"))
    AuditRecord.objects.all().delete()
    assert CallerClient("/management/v1", "root").delete(f"/tag-definition/{ref[1]}").status == 204
    reported = json.loads(the_row(event="tag-definition.deleted").details)
    assert (reported["named"], reported["grants"], reported["grants_on"]) == ("pii", 1, {"tag": 1})
    assert reported["granted"] == [f"ownership on tag:{ref[1]} to oidc~ann"]


def test_with_a_project(refs: Refs) -> None:
    """Grants on the project, on its roles and tags, and memberships of the roles."""
    give("admin", refs[T.SERVER], user("root"))
    manage = CallerClient("/management/v1", "root")
    assert manage.post("/project", {"project-name": "Lab", "project-id": "lab"}).status == 201
    inside = {"x-project-id": "lab"}
    created = [manage.post("/role", {"name": name}, **inside).json()["id"] for name in ("staff", "guests")]
    tag = manage.post("/tag-definition", {"name": "x", "scope": ["table"], "value-kind": "marker"}, **inside).json()
    staff = Role.objects.get(pk=created[0])
    RoleMember.objects.create(role=staff, user_id="oidc~ann")
    RoleMember.objects.create(role=staff, member_role_id=created[1])
    give("select", ObjectRef(T.PROJECT, "lab"), user("ann"), to=staff)
    AuditRecord.objects.all().delete()
    before = Grant.objects.count()
    assert manage.delete("/project/lab").status in {200, 204}
    reported = json.loads(the_row(event="project.deleted").details)
    assert (reported["named"], reported["roles"], reported["grants"]) == ("Lab", 2, 5)
    assert reported["grants_on"] == {"project": 2, "role": 2, "tag": 1}
    assert reported["granted"] == [
        f"project_admin on project:lab to {ROOT}",
        f"select on project:lab to role:{staff.pk}",
        *sorted(f"ownership on role:{each} to {ROOT}" for each in created),
        f"ownership on tag:{tag['id']} to {ROOT}",
    ]
    assert reported["memberships"] == 2
    assert sorted(reported["members"]) == sorted(
        [f"oidc~ann in role:{created[0]}", f"role:{created[1]} in role:{created[0]}"]
    )
    assert Grant.objects.count() == before - 5


# --- what had ended before --------------------------------------------------------------------------------------------


def ends(seconds: float, **of: Any) -> None:
    """Return the expiry of a grant, so many seconds from now."""
    assert Grant.objects.filter(**of).update(expires_at=now() + timedelta(seconds=seconds)) == 1


def test_grants_that_ended_before_the_drop_are_not_reported(lake: dict[str, ObjectRef], root: CallerClient) -> None:
    ref, on = lake["open.a"], securable_id(*lake["open.a"])
    for name, seconds in (("ann", -1), ("bob", 3_600)):
        give("select", ref, user(name))
        ends(seconds, securable_id=on, user_id=f"oidc~{name}")
    AuditRecord.objects.all().delete()
    assert root.delete(f"{OPEN}/tables/a").status == 204
    reported = ended(ref)
    assert (reported["grants"], reported["grants_on"]) == (2, {"table": 2})
    assert reported["granted"] == [f"ownership on {on} to {ROOT}", f"select on {on} to oidc~bob"]
    assert not Grant.objects.filter(securable_id=on).exists()


def test_where_all_had_ended_before_none_is_reported(lake: dict[str, ObjectRef], root: CallerClient) -> None:
    for name, path in (("open.a", f"{OPEN}/tables/a"), ("open.v", f"{OPEN}/views/v")):
        ends(-1, securable_id=securable_id(*lake[name]))
        assert root.delete(path).status == 204
    inside = [name for name in lake if name.startswith("closed")]
    for name in inside:
        ends(-1, securable_id=securable_id(*lake[name]))
    assert root.delete("/namespaces/closed?recursive=true").status == 204
    assert len(rows()) == 2 + len(inside)
    assert all(json.loads(row.details).get("grants", 0) == 0 for row in rows())
    assert not Grant.objects.filter(securable_id__in=[securable_id(*lake[name]) for name in inside]).exists()


def test_privileges_that_a_user_and_a_role_lost_before_are_not_reported(lake: dict[str, ObjectRef]) -> None:
    staff, guests = role("staff"), role("guests")
    on = securable_id(*lake["open.a"])
    for group in (staff, guests):
        give("select", lake["open.a"], user("ann"), through=group, to=group)
        give("select", lake["open.b"], user("ann"), to=group)
        ends(-1, securable_id=securable_id(*lake["open.b"]), role=group)
    give("modify", lake["open.a"], user("ann"))
    give("describe", lake["open.a"], user("ann"))
    ends(-1, privilege="describe", user_id="oidc~ann")
    RoleMember.objects.filter(role=guests).update(expires_at=now() - timedelta(seconds=1))
    AuditRecord.objects.all().delete()
    delete_role(actor=INTERNAL, project=get_project(None), role_id=guests.pk)
    reported = json.loads(the_row(event="role.deleted").details)
    assert (reported["granted"], reported["members"]) == ([f"select on {on} to role:{guests.pk}"], [])
    assert (reported["grants"], reported["grants_on"], reported["memberships"]) == (1, {"table": 1}, 0)
    delete_user(actor=INTERNAL, user_id="oidc~ann")
    reported = json.loads(the_row(event="user.deleted").details)
    assert (reported["granted"], reported["members"]) == (
        [f"modify on {on} to oidc~ann"],
        [f"oidc~ann in role:{staff.pk}"],
    )
    assert (reported["grants"], reported["grants_on"], reported["memberships"]) == (1, {"table": 1}, 1)


# --- how -------------------------------------------------------------------------------------------------------------


def test_what_ended_is_bounded_and_in_order() -> None:
    who = UUID(int=1)
    found, more = EndedGrants(), EndedGrants()
    assert not found
    at = now()
    found.add([(f"table:{number:04d}", "select", "oidc~ann", None, None) for number in range(500, 0, -1)], at=at)
    two = [("namespace:x", "modify", None, who, at + timedelta(seconds=1)), ("namespace:x", "read", None, who, at)]
    more.add([*two, ("namespace:x", "modify", "oidc~'; --", None, None)], at=at)
    found.merge(more)
    reported = found.as_details()
    assert found
    assert (reported["grants"], reported["grants_on"]) == (502, {"namespace": 2, "table": 500})
    assert reported["granted"][:3] == [
        "modify on namespace:x to oidc~'; --",
        f"modify on namespace:x to role:{who}",
        "select on table:0001 to oidc~ann",
    ]
    assert len(reported["granted"]) == 100


def test_long_ids_leave_the_numbers_in_the_row(lake: dict[str, ObjectRef], root: CallerClient) -> None:
    """Each of these characters takes twelve bytes in JSON."""
    ids = [f"oidc~{number:03d}{chr(0x1F600) * 240}" for number in range(150)]
    User.objects.bulk_create(User(id=each, name="n") for each in ids)
    on, staff = securable_id(*lake["open.a"]), role("staff")
    path = Securable.objects.get(pk=on).path
    Grant.objects.bulk_create(Grant(securable_id=on, path=path, user_id=each, privilege="select") for each in ids)
    RoleMember.objects.bulk_create(RoleMember(role=staff, user_id=each) for each in ids)
    AuditRecord.objects.all().delete()
    assert root.delete(f"{OPEN}/tables/a").status == 204
    reported = ended(lake["open.a"])
    assert (reported["grants"], reported["granted"][1]) == (151, f"select on {on} to {ids[0]}")
    assert 30 <= len(reported["granted"]) < 40
    delete_role(actor=INTERNAL, project=get_project(None), role_id=staff.pk)
    reported = json.loads(the_row(event="role.deleted").details)
    assert (reported["memberships"], reported["grants"]) == (150, 0)
    assert 30 <= len(reported["members"]) < 40


def test_rows_that_go_with_others_are_returned(lake: dict[str, ObjectRef]) -> None:
    deleted, kept = (securable_id(*lake[name]) for name in ("open.a", "open.b"))
    found = delete_rows_returning(Securable, [deleted, "table:none"], child=Grant, columns="securable_id, privilege")
    assert [tuple(row) for row in found] == [(deleted, "ownership")]
    assert list(Securable.objects.filter(pk__in=[deleted, kept]).values_list("pk", flat=True)) == [kept]
    assert Grant.objects.filter(securable_id=kept).count() == 1
    assert not Grant.objects.filter(securable_id=deleted).exists()
    connection.check_constraints()


def test_deleting_nothing_ends_no_grant(lake: dict[str, ObjectRef]) -> None:
    before = Grant.objects.count()
    assert not remove_securables([])
    own_id = new_id()
    add_securable(T.TABLE, own_id, parent=lake["open"])
    assert not remove_securables([ObjectRef(T.TABLE, own_id)])
    assert Grant.objects.count() == before
