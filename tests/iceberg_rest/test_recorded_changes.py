"""Each write of the catalog leaves one audit record and one event for each object that it changed, or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.conf import settings

from catalog.models import Namespace, Tabular
from catalog.services.commit import pointer
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.models import AuditRecord, ObjectSequence, OutboxEvent
from tests.authz.view_owner_fixtures import VIEW
from tests.catalog_fixtures import SCHEMA, finishing_updates, snapshot
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
T = "/namespaces/ns/tables/t"
NS_T: dict[str, Any] = {"namespace": ["ns"], "name": "t"}


@pytest.fixture
def generic(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/lakekeeper/v1/{warehouse.pk}")


@pytest.fixture
def manage(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


class Changes:
    """What was recorded since the last call."""

    def __init__(self) -> None:
        self.seen = self._ids()

    def _ids(self) -> set[Any]:
        return {*OutboxEvent.objects.values_list("pk", flat=True), *AuditRecord.objects.values_list("pk", flat=True)}

    def events(self) -> list[OutboxEvent]:
        """Return the new events, after checking what all of them promise."""
        seen, self.seen = self.seen, self._ids()
        found = [each for each in OutboxEvent.objects.order_by("position") if each.pk not in seen]
        for number in ObjectSequence.objects.all():
            numbers = OutboxEvent.objects.filter(object_key=number.object_key).order_by("sequence")
            assert list(numbers.values_list("sequence", flat=True)) == list(range(1, number.number + 1))
        self.records = [each for each in AuditRecord.objects.order_by("at", "id") if each.pk not in seen]
        warehouse = Warehouse.objects.get()
        for each in found:
            assert (each.project_id, each.warehouse_id) == (warehouse.project_id, warehouse.pk)
        return found

    def __call__(self) -> list[tuple[str, str, str]]:
        """Return audit event, type and dotted name of each new change, which all have an audit record.

        An event that a task ended has none, and is not returned.
        """
        recorded = self.events()
        found = [each for each in recorded if not each.object_key.startswith("task:")]
        audited = {(each.object_type, each.object_id): each for each in self.records}
        assert len(audited) == len(self.records) == len(found)
        changes = []
        for each in sorted(found, key=lambda event: event.event_index):
            object_type, _, object_id = each.object_key.partition(":")
            record = audited[object_type, object_id]
            assert (record.project_id, record.at, record.actor) == (each.project_id, each.at, each.actor)
            changes.append((record.event, each.type, ".".join(json.loads(each.names))))
        assert sorted(event.event_index for event in recorded) == list(range(len(recorded)))
        assert {event.event_count for event in recorded} <= {len(recorded)}
        return changes


@pytest.fixture
def changes(namespace: str) -> Changes:
    return Changes()


def good(response: Response) -> Any:
    assert response.status < 300, response.body
    return response.json() if response.body else None


def append(number: int, *, operation: str = "append", at: int, ref: str = "main") -> dict[str, Any]:
    added = snapshot(number, parent=number - 1 or None, sequence_number=number, at=at)
    added["summary"]["operation"] = operation
    return {
        "requirements": [],
        "updates": [
            {"action": "add-snapshot", "snapshot": added},
            {"action": "set-snapshot-ref", "ref-name": ref, "type": "branch", "snapshot-id": number},
        ],
    }


def set_property(**updates: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": updates}]}


# --- namespaces ------------------------------------------------------------------------------------------------------


def test_namespaces(catalog: ApiClient, manage: ApiClient, changes: Changes) -> None:
    good(catalog.post("/namespaces", {"namespace": ["a"], "properties": {"p": "secret value"}}))
    assert changes() == [("namespace.created", "createNamespace", "a")]
    assert catalog.post("/namespaces", {"namespace": ["a"]}).status == 409
    good(catalog.post("/namespaces/a/properties", {"updates": {"p": "other", "q": "x"}, "removals": ["none"]}))
    assert changes() == [("namespace.updated", "updateNamespace", "a")]
    event = OutboxEvent.objects.get(type="updateNamespace")
    assert json.loads(event.data or "")["updated"] == ["p", "q"]
    good(catalog.post("/namespaces/a/properties", {"updates": {"q": "x"}, "removals": ["none"]}))
    assert changes() == [], "it had no effect"
    own_id = Namespace.objects.get(path="a").pk
    good(manage.post(f"/namespace/{own_id}/move", {"destination": ["b"]}))
    assert changes() == [("namespace.moved", "moveNamespace", "b")]
    good(manage.post(f"/namespace/{own_id}/move", {"destination": ["b"]}))
    assert changes() == [], "it is there"
    good(manage.post(f"/namespace/{own_id}/protection", {"protected": True}))
    assert changes() == [("protection.set", "setProtection", "b")]
    assert catalog.delete("/namespaces/b").status == 409
    good(manage.post(f"/namespace/{own_id}/protection", {"protected": True}))
    assert changes() == []
    good(catalog.delete("/namespaces/b?force=true"))
    assert changes() == [("namespace.dropped", "dropNamespace", "b")]


def test_a_recursive_drop(catalog: ApiClient, create_table: CreateTable, generic: ApiClient, changes: Changes) -> None:
    good(catalog.post("/namespaces", {"namespace": ["ns", "in"]}))
    create_table("t")
    good(catalog.post("/namespaces/ns%1Fin/views", {"name": "v", **VIEW}))
    good(generic.post("/namespaces/ns%1Fin/generic-tables", {"name": "g", "format": "lance"}))
    changes.events()
    good(catalog.delete("/namespaces/ns?recursive=true"))
    assert sorted(changes()) == [
        ("generic-table.dropped", "dropGenericTable", "ns.in.g"),
        ("namespace.dropped", "dropNamespace", "ns"),
        ("namespace.dropped", "dropNamespace", "ns.in"),
        ("table.dropped", "dropTable", "ns.t"),
        ("view.dropped", "dropView", "ns.in.v"),
    ]


# --- tables, views, generic tables -----------------------------------------------------------------------------------


def test_tables(catalog: ApiClient, manage: ApiClient, changes: Changes) -> None:
    body = {"name": "t", "schema": SCHEMA, "properties": {"p": "x"}}
    uuid = good(catalog.post("/namespaces/ns/tables", body))["metadata"]["table-uuid"]
    event = OutboxEvent.objects.get(type="createTable")
    assert (event.public_id, json.loads(event.data or "")) == (uuid, {**body, "stage-create": False})
    assert changes() == [("table.created", "createTable", "ns.t")]
    assert catalog.post("/namespaces/ns/tables", body).status == 409
    assert changes() == []
    good(catalog.post(T, set_property(p="y")))
    assert changes() == [("table.updated", "updateTable", "ns.t")]
    good(catalog.post(T, set_property(p="y")))
    assert changes() == [], "it had no effect"
    rename = {"source": NS_T, "destination": {"namespace": ["ns"], "name": "u"}}
    good(catalog.post("/tables/rename", rename))
    assert changes() == [("table.renamed", "renameTable", "ns.u")]
    assert json.loads(OutboxEvent.objects.get(type="renameTable").data or "") == rename
    good(catalog.post("/tables/rename", {"source": rename["destination"], "destination": rename["destination"]}))
    assert changes() == [], "it has that name"
    good(catalog.post("/tables/rename", {"source": rename["destination"], "destination": {**NS_T, "name": "U"}}))
    assert changes() == [("table.renamed", "renameTable", "ns.U")]
    good(catalog.post("/namespaces", {"namespace": ["b"]}))
    changes()
    moved = {"source": {**NS_T, "name": "U"}, "destination": {"namespace": ["b"], "name": "t"}}
    good(catalog.post("/tables/rename", moved))
    assert changes() == [("table.moved", "renameTable", "b.t")]
    good(manage.post(f"/table/{uuid}/protection", {"protected": True}))
    assert changes() == [("protection.set", "setProtection", "b.t")]
    assert catalog.delete("/namespaces/b/tables/t").status == 409
    assert changes() == []
    good(catalog.delete("/namespaces/b/tables/t?force=true"))
    assert changes() == [("table.dropped", "dropTable", "b.t")]
    own_events = OutboxEvent.objects.filter(public_id=uuid, object_key__startswith="table:").order_by("sequence")
    assert [event.type for event in own_events] == [
        "createTable", "updateTable", "renameTable", "renameTable", "renameTable", "setProtection", "dropTable",
    ]  # fmt: skip


def test_registrations(catalog: ApiClient, create_table: CreateTable, changes: Changes) -> None:
    location = create_table("t")["metadata-location"]
    changes.events()
    good(catalog.post(f"{T}/unregister"))
    assert changes() == [("table.dropped", "dropTable", "ns.t")]
    good(catalog.post("/namespaces/ns/register", {"name": "t", "metadata-location": location}))
    event = OutboxEvent.objects.get(type="registerTable")
    assert event.data is None
    assert changes() == [("table.registered", "registerTable", "ns.t")]
    good(catalog.post("/namespaces/ns/register", {"name": "t", "metadata-location": location, "overwrite": True}))
    assert changes() == [("table.dropped", "dropTable", "ns.t"), ("table.registered", "registerTable", "ns.t")]


def test_a_staged_table_is_recorded_when_a_commit_creates_it(catalog: ApiClient, changes: Changes) -> None:
    body = {"name": "t", "schema": SCHEMA, "stage-create": True}
    staged = good(catalog.post("/namespaces/ns/tables", body))["metadata"]
    assert changes() == []
    commit = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(staged)}
    good(catalog.post(T, commit))
    assert changes() == [("table.created", "createTable", "ns.t")]
    data = json.loads(OutboxEvent.objects.get(type="createTable").data or "")
    assert (data["name"], data["schema"], data["stage-create"]) == ("t", staged["schemas"][0], True)


def test_views(catalog: ApiClient, changes: Changes) -> None:
    good(catalog.post("/namespaces/ns/views", {"name": "v", **VIEW}))
    assert json.loads(OutboxEvent.objects.get(type="createView").data or "")["view-version"] == VIEW["view-version"]
    assert changes() == [("view.created", "createView", "ns.v")]
    good(catalog.post("/namespaces/ns/views/v", set_property(p="x")))
    data = json.loads(OutboxEvent.objects.get(type="updateView").data or "")
    assert data == {"identifier": {"namespace": ["ns"], "name": "v"}, **set_property(p="x")}
    assert changes() == [("view.updated", "updateView", "ns.v")]
    names = [{"namespace": ["ns"], "name": name} for name in "vw"]
    good(catalog.post("/views/rename", {"source": names[0], "destination": names[1]}))
    assert OutboxEvent.objects.get(type="renameView").data is None
    assert changes() == [("view.renamed", "renameView", "ns.w")]
    good(catalog.delete("/namespaces/ns/views/w"))
    assert changes() == [("view.dropped", "dropView", "ns.w")]


def test_generic_tables(generic: ApiClient, changes: Changes) -> None:
    body = {"name": "g", "format": "lance", "doc": "d"}
    good(generic.post("/namespaces/ns/generic-tables", body))
    assert json.loads(OutboxEvent.objects.get(type="createGenericTable").data or "") == body
    assert changes() == [("generic-table.created", "createGenericTable", "ns.g")]
    good(generic.delete("/namespaces/ns/generic-tables/g"))
    assert changes() == [("generic-table.dropped", "dropGenericTable", "ns.g")]


def test_soft_deletion(
    catalog: ApiClient, manage: ApiClient, create_table: CreateTable, soft_delete: int, do_tasks: Callable[[], int],
    changes: Changes,
) -> None:  # fmt: skip
    uuids = [create_table(name)["metadata"]["table-uuid"] for name in ("t", "u")]
    changes.events()
    good(catalog.delete(T))
    good(catalog.delete("/namespaces/ns/tables/u"))
    assert [event.type for event in changes.events()] == ["dropTable", "dropTable"]
    undrop = {"targets": [{"type": "table", "id": uuid} for uuid in uuids]}
    good(manage.post("/deleted-tabulars/undrop", undrop))
    assert changes() == [("table.undropped", "undropTabulars", "ns.t"), ("table.undropped", "undropTabulars", "ns.u")]
    good(manage.post("/deleted-tabulars/undrop", undrop))
    assert changes() == [], "they are not dropped"
    good(catalog.delete(T))
    changes.events()
    assert do_tasks() == 1
    assert changes() == [("table.expired", "expireTable", "ns.t")]


def test_a_transaction_over_tables(catalog: ApiClient, create_table: CreateTable, changes: Changes) -> None:
    for name in "abc":
        create_table(name)
    changes.events()
    identifiers = [{"namespace": ["ns"], "name": name} for name in "abc"]
    commits = [{"identifier": each, **set_property(p=each["name"])} for each in identifiers]
    commits[1]["updates"] = []
    good(catalog.post("/transactions/commit", {"table-changes": commits}))
    events = OutboxEvent.objects.filter(type="updateTable").order_by("event_index")
    assert [json.loads(event.data or "") for event in events] == [commits[0], commits[2]]
    assert changes() == [("table.updated", "updateTable", "ns.a"), ("table.updated", "updateTable", "ns.c")]
    commits[0]["requirements"] = [{"type": "assert-table-uuid", "uuid": str(new_id())}]
    commits[2]["updates"] = set_property(p="again")["updates"]
    assert catalog.post("/transactions/commit", {"table-changes": commits}).status == 409
    assert changes() == []


def test_a_replayed_request_is_not_recorded_again(catalog: ApiClient, changes: Changes) -> None:
    key = {"idempotency-key": str(new_id())}
    for _ in range(2):
        good(catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}, **key))
    assert changes() == [("table.created", "createTable", "ns.t")]
    key = {"idempotency-key": str(new_id())}
    for _ in range(2):
        good(catalog.post(T, set_property(p="x"), **key))
    assert changes() == [("table.updated", "updateTable", "ns.t")]


# --- commits ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def audited(
    catalog: ApiClient, create_table: CreateTable, changes: Changes
) -> Callable[[dict[str, Any]], dict[str, Any] | None]:
    """Commit, and return the details of the audit record without names, None without a record."""
    at = create_table("t")["metadata"]["last-updated-ms"]
    changes.events()

    def commit(body: dict[str, Any]) -> dict[str, Any] | None:
        good(catalog.post(T, body))
        [event] = changes.events()
        assert (event.type, json.loads(event.data or "")) == ("updateTable", {"identifier": NS_T, **body})
        if not changes.records:
            return None
        [record] = changes.records
        assert (record.event, record.at) == ("table.updated", event.at)
        details: dict[str, Any] = json.loads(record.details)
        uuid = str(Tabular.objects.get().uuid)
        assert {details.pop("uuid"), details.pop("warehouse")} == {uuid, str(Warehouse.objects.get().pk)}
        assert details.pop("levels") == ["ns", "t"]
        return details

    commit.at = at  # type: ignore[attr-defined]
    return commit


def test_commits_that_only_add_data_have_no_record(audited: Any) -> None:
    assert audited(append(1, at=audited.at)) is None
    assert audited(append(2, at=audited.at, operation="replace")) is None
    path = "file:///s"
    statistics = {
        "snapshot-id": 2, "statistics-path": path, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }  # fmt: skip
    assert audited({"requirements": [], "updates": [{"action": "set-statistics", "statistics": statistics}]}) is None


def test_commits_that_change_more_have_a_record(audited: Any) -> None:
    assert audited(append(1, at=audited.at)) is None
    assert audited(append(2, at=audited.at, operation="delete")) == {
        "actions": {"add-snapshot": 1, "set-snapshot-ref": 1}, "snapshots": ["2 delete"],
    }  # fmt: skip
    assert audited(append(3, at=audited.at, operation="overwrite"))["snapshots"] == ["3 overwrite"]
    tag = {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": 1}
    assert audited({"requirements": [], "updates": [tag]}) == {"actions": {"set-snapshot-ref": 1}}
    back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2}
    assert audited({"requirements": [], "updates": [back]}) == {"actions": {"set-snapshot-ref": 1}}
    removed = {"requirements": [], "updates": [{"action": "remove-snapshot-ref", "ref-name": "v1"}]}
    assert audited(removed) == {"actions": {"remove-snapshot-ref": 1}}
    removed = {"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": [3]}]}
    assert audited(removed) == {"actions": {"remove-snapshots": 1}, "removed_snapshots": ["3"]}
    assert audited(set_property(password="hunter2")) == {"actions": {"set-properties": 1}, "properties": ["password"]}
    both = append(4, at=audited.at)
    both["updates"] += set_property(q="x")["updates"]
    assert audited(both)["properties"] == ["q"]
    field = {"id": 3, "name": "more", "type": "string", "required": False}
    current = {"type": "struct", "schema-id": 1, "fields": [*SCHEMA["fields"], field]}
    fields = [{**each, "id": number} for number, each in enumerate(current["fields"], 1)]
    schema = [
        {"action": "add-schema", "schema": {"type": "struct", "fields": fields}},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    described = audited({"requirements": [], "updates": schema})
    assert described == {"actions": {"add-schema": 1, "set-current-schema": 1}, "schema_id": 1}


def test_the_setting_decides(audited: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.ICEKEEPER.audit, "data_changes", "all")
    assert audited(append(1, at=audited.at))["snapshots"] == ["1 append"]
    monkeypatch.setattr(settings.ICEKEEPER.audit, "data_changes", "off")
    assert audited(append(2, at=audited.at, operation="delete")) is None
    assert audited(set_property(p="x")) is None


def test_descriptions_are_bounded(audited: Any) -> None:
    described = audited(set_property(**{f"{number:03d}{'x' * 200}": "v" * 1000 for number in range(300)}))
    assert (len(described["properties"]), len(described["properties"][0])) == (20, 100)


def test_an_error_or_a_rollback_records_nothing(
    catalog: ApiClient, create_table: CreateTable, changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table("t")
    changes.events()
    wrong = {**set_property(p="x"), "requirements": [{"type": "assert-table-uuid", "uuid": str(new_id())}]}
    assert catalog.post(T, wrong).status == 409
    monkeypatch.setattr(pointer, "response_to_store", lambda *_: {"a": object()})
    monkeypatch.setattr("catalog.services.idempotency.response_to_store", lambda *_: {"a": object()})
    key = {"idempotency-key": str(new_id())}
    assert catalog.post(T, set_property(p="x"), **key).status >= 500
    assert catalog.post("/namespaces", {"namespace": ["z"]}, **key).status >= 500
    assert changes() == []
    assert not Namespace.objects.filter(path="z").exists()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_events_of_concurrent_commits_are_in_the_order_of_the_versions(
    catalog: ApiClient, create_table: CreateTable, changes: Changes
) -> None:
    create_table("t")
    changes.events()

    def commit(writer: int) -> None:
        for number in range(5):
            assert catalog.post(T, set_property(last=f"{writer}-{number}")).status == 200

    at_once(*(partial(commit, writer) for writer in range(4)))
    assert len(changes.events()) == len(changes.records) == 20
    events = OutboxEvent.objects.filter(type="updateTable").order_by("sequence")
    values = [json.loads(event.data or "")["updates"][0]["updates"]["last"] for event in events]
    assert sorted(values) == sorted(f"{writer}-{number}" for writer in range(4) for number in range(5))
    assert list(events.values_list("sequence", flat=True)) == list(range(2, 22))
    assert catalog.get(T).json()["metadata"]["properties"]["last"] == values[-1]
