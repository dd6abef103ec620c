"""Tables, views and generic tables in the audit trail are filtered and reported by the UUID that clients know."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Tabular
from catalog.objects import own_ids_of
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.audit.chain import seal_records
from tenancy.changes.kinds import Change
from tenancy.models import AuditRecord, Project, Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import good, user
from tests.authz.object_path_fixtures import path_of
from tests.authz.tree_fixtures import T, give
from tests.catalog_fixtures import SCHEMA
from tests.harness.audit_rows import BOB, rows, the_row
from tests.harness.named_callers import CallerClient
from tests.harness.recorded_changes import record
from tests.harness.statement_counts import counting

pytestmark = pytest.mark.django_db

Client = Callable[[str], CallerClient]
Refs = dict[Securable.Type, ObjectRef]
KINDS = [T.TABLE, T.VIEW, T.GENERIC_TABLE]


def row_of(ref: ObjectRef) -> Tabular:
    return Tabular.objects.get(pk=str(ref[1]))


def listed(client: CallerClient, query: str) -> list[dict[str, Any]]:
    response = client.get(f"/audit?{query}")
    assert response.status == 200, response.body
    found: list[dict[str, Any]] = response.json()["records"]
    return found


def exported(client: CallerClient, query: str) -> list[dict[str, Any]]:
    seal_records(actor=INTERNAL)
    response = client.get(f"/audit/export?{query}")
    assert response.status == 200, response.body
    return [json.loads(line) for line in response.body.splitlines()]


def reported(found: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(row["event"], row["object-id"], row["object-uuid"]) for row in found]


@pytest.mark.parametrize("kind", KINDS)
def test_grants_and_denials_are_found_by_the_uuid(
    refs: Refs, chief: CallerClient, manage: Client, kind: Securable.Type
) -> None:
    ref = refs[kind]
    Tabular.objects.filter(pk=str(ref[1])).update(uuid=new_id())  # generic tables are created with one id for both
    path = path_of(ref)
    uuid, own_id = str(row_of(ref).uuid), str(ref[1])
    AuditRecord.objects.all().delete()
    change = {"writes": [{"privilege": "describe", "principal": {"user": "oidc~bob"}}]}
    good(manage("root").post(f"{path}/grants", change))
    assert manage("bob").post(f"{path}/protection", {"protected": True}).status == 403
    expected = [("access.denied", own_id, uuid), ("grant.created", own_id, uuid)]
    assert reported(listed(chief, f"objectId={uuid}")) == expected
    assert reported(listed(chief, f"objectId={uuid.upper()}")) == expected
    assert reported(listed(chief, f"objectId={own_id}&objectType={kind.value}")) == expected
    assert reported(listed(chief, f"objectId={uuid}&objectType=warehouse")) == []
    assert reported(exported(chief, f"objectId={uuid}&event=grant.created")) == expected[1:]
    [page] = [json.loads(each.details) for each in rows(event="audit.listed")[:1]]
    assert page == {"object_id": uuid}


def test_what_has_the_given_id_itself_is_found_with_it(refs: Refs, chief: CallerClient) -> None:
    uuid = str(row_of(refs[T.TABLE]).uuid)
    AuditRecord.objects.all().delete()
    record(Change.ROLE_CREATED, actor=BOB, subject=uuid, named="r")
    record(Change.GRANT_CREATED, actor=BOB, subject=refs[T.TABLE][1], object_type="table")
    assert reported(listed(chief, f"objectId={uuid}")) == [
        ("grant.created", str(refs[T.TABLE][1]), uuid),
        ("role.created", uuid, None),
    ]


def test_pages_continue_after_the_object_is_dropped(refs: Refs, chief: CallerClient) -> None:
    row = row_of(refs[T.TABLE])
    AuditRecord.objects.all().delete()
    for name in ("old", "new"):
        record(Change.ROLE_CREATED, actor=BOB, subject=row.uuid, named=name)
        record(Change.GRANT_CREATED, actor=BOB, subject=row.pk, object_type="table")
    query, found = f"objectId={row.uuid}&pageSize=1", list[str]()
    token: str | None = ""
    while token is not None:
        page = chief.get(f"/audit?{query}&pageToken={token}").json()
        found += [each["event"] for each in page["records"]]
        token = page.get("next-page-token")
        if len(found) == 3:
            row.delete()
    assert found == ["grant.created", "role.created", "grant.created", "role.created"]


def test_a_dropped_table_keeps_its_uuid_and_a_purged_one_has_it_in_the_details(
    refs: Refs, root: CallerClient, client: Client, chief: CallerClient
) -> None:
    give("ownership", refs[T.NAMESPACE], user("maker"))
    maker = client("maker")
    AuditRecord.objects.all().delete()
    good(maker.post("/namespaces/open/tables", {"name": "t", "schema": SCHEMA}))
    row = Tabular.objects.get(name="t")
    own_id, uuid = str(row.pk), str(row.uuid)
    Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 600})
    good(maker.delete("/namespaces/open/tables/t"))
    assert reported(listed(chief, f"objectId={uuid}")) == [
        ("table.dropped", own_id, uuid), ("table.created", own_id, uuid),
    ]  # fmt: skip
    Warehouse.objects.update(delete_profile={"type": "hard"})
    good(maker.post("/namespaces/open/tables", {"name": "u", "schema": SCHEMA}))
    row = Tabular.objects.get(name="u")
    own_id, uuid = str(row.pk), str(row.uuid)
    good(maker.delete("/namespaces/open/tables/u?purgeRequested=true"))
    assert reported(listed(chief, f"objectId={uuid}")) == []
    found = listed(chief, f"objectId={own_id}")
    assert reported(found) == [("table.dropped", own_id, None), ("table.created", own_id, None)]
    assert [each["details"]["uuid"] for each in found] == [uuid, uuid]


def test_nothing_is_learnt_of_other_projects(
    refs: Refs, chief: CallerClient, manage: Client, client: Client, elsewhere: Warehouse
) -> None:
    far = CallerClient(f"/catalog/v1/{elsewhere.pk}", "chief")
    good(far.post("/namespaces", {"namespace": ["ns"]}))
    good(far.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}))
    here, there = row_of(refs[T.TABLE]), Tabular.objects.get(warehouse=elsewhere)
    Tabular.objects.filter(pk=there.pk).update(uuid=here.uuid)
    AuditRecord.objects.all().delete()
    for row in (here, there):
        record(Change.GRANT_CREATED, actor=BOB, subject=row.pk, object_type="table")
    give("project_admin", ObjectRef(T.PROJECT, "other"), user("far"))
    default = Project.objects.exclude(pk="other").get().pk
    query = f"objectId={here.uuid}&event=grant.created"
    assert {row["object-id"] for row in listed(chief, query)} == {str(here.pk), str(there.pk)}
    for project, row in ((default, here), ("other", there)):
        found = listed(chief, f"{query}&projectId={project}")
        assert reported(found) == [("grant.created", str(row.pk), str(here.uuid))]
    assert [row["object-id"] for row in listed(manage("far"), f"{query}&projectId=other")] == [str(there.pk)]
    Tabular.objects.filter(pk=there.pk).update(uuid=new_id())
    assert listed(manage("far"), f"{query}&projectId=other") == []
    assert manage("far").get(f"/audit?{query}").refused(403, "ServerActionForbidden")
    assert own_ids_of(here.uuid, project_id="other") == []
    assert own_ids_of(here.uuid, project_id="none") == []


@pytest.mark.parametrize("own_id", ["", "no id", "\u202e", "0198e0f4-3f6e-7c31-8c7d-000000000000"])
def test_rows_of_unknown_objects_have_none(refs: Refs, chief: CallerClient, own_id: str) -> None:
    AuditRecord.objects.all().delete()
    for kind in ("table", "warehouse", "endpoint"):
        record(Change.GRANT_CREATED, actor=BOB, subject=own_id, object_type=kind)
    assert [row["object-uuid"] for row in listed(chief, "event=grant.created")] == [None] * 3


def test_a_page_takes_one_statement_more_and_one_more_to_be_looked_for(refs: Refs, chief: CallerClient) -> None:
    AuditRecord.objects.all().delete()
    for kind in (*KINDS, *KINDS):
        record(Change.GRANT_CREATED, actor=BOB, subject=refs[kind][1], object_type=kind.value)
    record(Change.ROLE_CREATED, actor=BOB, subject="r", named="r")
    counts = []
    listed(chief, "actor=unknown")
    for query in ("event=role.created", "event=grant.created", f"objectId={row_of(refs[T.TABLE]).uuid}"):
        with counting() as seen:
            listed(chief, query)
        counts.append(seen["statements"])
    assert counts == [counts[0], counts[0] + 1, counts[0] + 2]


def test_the_uuid_is_looked_for_in_the_index_of_each_warehouse(refs: Refs) -> None:
    one = row_of(refs[T.TABLE])
    Tabular.objects.bulk_create(
        Tabular(
            warehouse_id=one.warehouse_id, namespace_id=one.namespace_id, kind=one.kind, uuid=new_id(),
            name=f"many{number}", name_key=f"many{number}", location=f"{one.location}-{number}",
        )
        for number in range(3_000)
    )  # fmt: skip
    with CaptureQueriesContext(connection) as captured:
        own_ids_of(new_id(), project_id=None)
    [statement] = [each["sql"] for each in captured]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ANALYZE")
            cursor.execute(f"EXPLAIN {statement}")
        else:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        plan = str(cursor.fetchall())
    assert "tabular_uuid_once_per_warehouse" in plan or "(warehouse_id=? AND uuid=?)" in plan, plan


def test_the_export_command_writes_the_id_next_to_the_sealed_rows(refs: Refs) -> None:
    AuditRecord.objects.all().delete()
    record(Change.GRANT_CREATED, actor=BOB, subject=refs[T.TABLE][1], object_type="table")
    out = StringIO()
    call_command("export_audit", stdout=out, stderr=StringIO())
    line = json.loads(out.getvalue().splitlines()[-1])
    assert line.pop("object-uuid") == str(row_of(refs[T.TABLE]).uuid)
    claimed, before = line.pop("hash"), line.pop("previous-hash")
    text = json.dumps(line, sort_keys=True, separators=(",", ":"))
    assert claimed == sha256(f"{before}\n{text}".encode()).hexdigest() == the_row(event="grant.created").hash
