"""A veto of each write: the error, nothing written but the audit record, and success without the rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import Context
from typing import Any
from uuid import UUID, uuid4

import pytest

from catalog.models import ChangeRule, ChangeRulesVersion, IdempotencyRecord, Tabular
from catalog.services.approval.port import ContractVerifier, ProposedChange
from catalog.services.approval.rule_set import (
    VerifierNotUsable,
    configured_verifiers,
    require_configured_verifiers,
)
from catalog.services.change_rules import delete_change_rule
from catalog.services.commit import revisions, service
from catalog.services.tables import create_view
from icekeeper.kernel.errors.types import NoSuchWarehouse, RequestTimeout
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.models import AuditRecord
from tests.approval.conftest import CreateRule
from tests.approval.writes import NS_T, NS_U, SET, WRITES, Lake, T
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]


class RejectEverything(ContractVerifier):
    """Rejects all changes while it is switched on, and records them."""

    name = "reject everything"
    is_on = False
    asked: list[ProposedChange] = []

    def find_violations(self, change: ProposedChange) -> list[str]:
        self.asked.append(change)
        return ["not today"] if RejectEverything.is_on else []


@pytest.fixture(autouse=True)
def verifier(monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Any:
    use_settings(monkeypatch, contract_verifiers=[f"{__name__}.RejectEverything"])
    monkeypatch.setattr(RejectEverything, "is_on", False)
    RejectEverything.asked.clear()
    configured_verifiers.cache_clear()
    yield
    configured_verifiers.cache_clear()


@pytest.fixture
def lake(
    warehouse: Warehouse, generic: ApiClient, manage: ApiClient, create_table: CreateTable, soft_delete: int
) -> Lake:
    return Lake(warehouse, generic, manage, create_table)


@pytest.mark.parametrize("write", WRITES)
def test_a_veto_leaves_nothing_but_its_audit_record(
    write: str, lake: Lake, everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = WRITES[write]
    RejectEverything.asked.clear()
    monkeypatch.setattr(RejectEverything, "is_on", True)
    AuditRecord.objects.all().delete()
    before = everything()
    assert lake.send(sent).refused(409, "ContractViolation", "Rule 'reject everything' rejects the change of ")
    assert everything() == before
    first = RejectEverything.asked[0]
    assert (first.action, first.object_type.value) == (sent.action, sent.object_type)
    records = list(AuditRecord.objects.filter(event="change.vetoed"))
    assert {(row.action, row.outcome, row.reason) for row in records} == {(sent.action, "denied", "ContractViolation")}
    assert len(records) == len(RejectEverything.asked)
    assert AuditRecord.objects.exclude(event="change.vetoed").count() == 0
    details = json.loads(records[0].details)
    assert (details["named"], details["violation"]) == ("reject everything", "not today")
    monkeypatch.setattr(RejectEverything, "is_on", False)
    assert lake.send(sent).status < 300
    assert everything() != before


def test_a_verifier_sees_registered_metadata(lake: Lake) -> None:
    RejectEverything.asked.clear()
    assert lake.send(WRITES["register a table"]).status == 200
    assert lake.send(WRITES["register a view"]).status == 200
    table, view = RejectEverything.asked
    assert (table.current, table.object_id, view.current, view.object_id) == (None, None, None, None)
    registered = lake.catalog.get("/namespaces/ns/tables/n").json()["metadata"]
    assert table.proposed is not None
    assert table.proposed["table-uuid"] == registered["table-uuid"] != lake.table["table-uuid"]
    assert view.proposed is not None
    assert view.proposed["view-uuid"] == lake.catalog.get("/namespaces/ns/views/w").json()["metadata"]["view-uuid"]


def test_a_verifier_sees_what_a_registration_replaces(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    RejectEverything.asked.clear()
    monkeypatch.setattr(RejectEverything, "is_on", True)  # what is replaced is read on demand: it has to stay
    assert lake.send(WRITES["replace a table by registration"]).refused(409, "ContractViolation", "table ns.t: not")
    (asked,) = RejectEverything.asked
    assert asked.object_id is not None
    assert asked.current is not None
    assert asked.proposed is not None
    assert asked.current["table-uuid"] == lake.table["table-uuid"] != asked.proposed["table-uuid"]


def test_a_verifier_sees_both_versions_and_their_difference(lake: Lake) -> None:
    RejectEverything.asked.clear()
    fields = [*SCHEMA["fields"], {"id": 9, "name": "more", "type": "int", "required": False}]
    updates = [
        {"action": "add-schema", "schema": {"type": "struct", "fields": [
            {**field, "id": number} for number, field in enumerate(fields, 1)]}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-properties", "updates": {"owner": "sales", "s3.secret-access-key": "very secret"}},
    ]  # fmt: skip
    assert lake.catalog.post(T, {"requirements": [], "updates": updates}).status == 200
    (asked,) = RejectEverything.asked
    assert asked.updates == updates
    assert asked.uuid == UUID(lake.table["table-uuid"])
    assert asked.current is not None
    assert asked.proposed is not None
    assert (asked.current["current-schema-id"], asked.proposed["current-schema-id"]) == (0, 1)
    assert asked.diff == {
        "schema": {
            "changes": [
                {"field-id": 3, "kinds": ["added"], "old": None,
                 "new": {"name": "more", "type": "int", "required": False}},
            ],
            "count": 1,
        },
        "properties": {"set": {"owner": "sales", "s3.secret-access-key": "********"}, "removed": [], "count": 2},
    }  # fmt: skip


def test_a_commit_without_an_effect_is_not_asked_about(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lake.catalog.post(T, SET).status == 200
    monkeypatch.setattr(RejectEverything, "is_on", True)
    assert lake.catalog.post(T, SET).status == 200


def test_each_retry_on_a_new_base_is_asked_about(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    write, lost = revisions.write_revisions, []

    def lose_once(*args: Any, **options: Any) -> bool:
        if not lost:
            lost.append(1)
            return False
        return write(*args, **options)

    monkeypatch.setattr(service, "write_revisions", lose_once)
    RejectEverything.asked.clear()
    assert lake.catalog.post(T, SET).status == 200
    assert len(RejectEverything.asked) == 2


@pytest.mark.parametrize("write", ["table", "view"])
def test_a_retry_after_a_change_of_rules_needs_only_the_new_ones(
    write: str, lake: Lake, create_rule: CreateRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_rule("naming", {"column": [".*"]})
    module = {"table": service, "view": create_view}[write]
    original, lost = revisions.write_revisions, []

    def lose_once(*args: Any, **options: Any) -> bool:
        if not lost:
            lost.append(1)
            Context().run(create_rule, "naming", {"table": [".*"]}, name="other")  # as another request does
            return False
        return original(*args, **options)

    monkeypatch.setattr(module, "write_revisions", lose_once)
    path = {"table": T, "view": "/namespaces/ns/views/v"}[write]
    assert lake.catalog.post(path, SET).status == 200
    assert lost


def test_tables_of_a_transaction_are_asked_about_together(
    catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule
) -> None:
    """Nothing is recorded as overridden, or asked of another server, for one table if another one is rejected."""
    for name in ("t", "u"):
        create_table(name, properties={"owner": "a"})
    create_rule("required-properties", {"properties": {"owner": None}}, name="owners")
    removal = {"requirements": [], "updates": [{"action": "remove-properties", "removals": ["owner"]}]}
    changes = [{"identifier": each, **removal} for each in (NS_T, NS_U)]
    AuditRecord.objects.all().delete()
    assert catalog.post("/transactions/commit", {"table-changes": changes}).error["message"] == (
        "Rule 'owners' rejects the change of table ns.t: the property 'owner' is required; "
        "rule 'owners' rejects the change of table ns.u: the property 'owner' is required"
    )
    assert list(AuditRecord.objects.values_list("event", flat=True)) == ["change.vetoed"] * 2


def test_a_veto_is_not_the_stored_response_of_a_request(
    catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule
) -> None:
    create_table("t")
    rule = create_rule("naming", {"table": ["[a-z]+_v[0-9]+"]})
    headers = {"idempotency-key": str(uuid4())}
    body = {"name": "plain", "schema": SCHEMA}
    refused = catalog.post("/namespaces/ns/tables", body, **headers)
    assert refused.refused(409, "ContractViolation", "the name 'plain' must match [a-z]+_v[0-9]+")
    assert IdempotencyRecord.objects.count() == 0
    delete_change_rule(actor=INTERNAL, rule_id=rule.pk)
    assert catalog.post("/namespaces/ns/tables", body, **headers).status == 200
    assert catalog.post("/namespaces/ns/tables", body, **headers).status == 200
    assert Tabular.objects.filter(name="plain").count() == 1


def test_violations_of_all_rules_are_shown_together(
    catalog: ApiClient, namespace: str, create_rule: CreateRule
) -> None:
    create_rule("naming", {"table": ["x.*"], "column": ["y.*"]}, name="names")
    create_rule("required-properties", {"properties": {"owner": None}}, name="owners")
    error = catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}).error
    assert error["message"] == (
        "Rule 'names' rejects the change of table ns.t: the name 't' must match x.*; "
        "rule 'names' rejects the change of table ns.t: the name of column 'id' must match y.*; "
        "rule 'names' rejects the change of table ns.t: the name of column 'name' must match y.*; "
        "rule 'owners' rejects the change of table ns.t: the property 'owner' is required"
    )


def test_what_is_dropped_with_a_namespace_is_asked_about(lake: Lake) -> None:
    RejectEverything.asked.clear()
    assert lake.catalog.delete("/namespaces/ns?recursive=true&force=true").status == 204
    assert [str(each) for each in RejectEverything.asked[:2]] == ["namespace ns", "namespace ns.empty"]
    assert sorted(map(str, RejectEverything.asked[2:])) == [
        "generic table ns.g", "table ns.dropped", "table ns.t", "view ns.v",
    ]  # fmt: skip
    assert [each.is_nested for each in RejectEverything.asked] == [False, *[True] * 5]
    assert RejectEverything.asked[0].content_count == 4


def test_a_cancelled_expiration_is_an_undrop(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = lake.manage.post("/task/list", {"queue-name": ["tabular_expiration"]}).json()["tasks"]
    body = {"action": {"action-type": "cancel"}, "task-ids": [each["task-id"] for each in listed]}
    monkeypatch.setattr(RejectEverything, "is_on", True)
    RejectEverything.asked.clear()
    assert lake.manage.post("/task/control", body).refused(409, "ContractViolation", "table ns.dropped")
    assert [each.action for each in RejectEverything.asked] == ["undrop"]
    assert Tabular.objects.get(name="dropped").deleted_at is not None
    monkeypatch.setattr(RejectEverything, "is_on", False)
    assert lake.manage.post("/task/control", body).status == 204
    assert Tabular.objects.get(name="dropped").deleted_at is None


def test_a_broken_rule_is_decided_by_its_on_failure(
    catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule, caplog: pytest.LogCaptureFixture
) -> None:
    create_table("t")
    rule = create_rule("naming", {"table": [".*"]})
    ChangeRule.objects.filter(pk=rule.pk).update(configuration={"table": ["("]}, version=2)
    _count_change()
    assert catalog.post(T, SET).refused(409, "ContractViolation", "the rule could not be checked")
    ChangeRule.objects.filter(pk=rule.pk).update(on_failure="allow")
    _count_change()
    assert catalog.post(T, SET).status == 200
    assert any("cannot be used" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("error", [NoSuchWarehouse("deleted"), RuntimeError("broken")])
def test_any_error_of_a_rule_is_its_failure(
    error: Exception, catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    create_table("t")
    rule = create_rule("naming", {"table": [".*"]}, mode="dry-run")
    raised = [error]

    def fail(*_: Any) -> list[str]:
        raise raised[0]

    monkeypatch.setattr("catalog.services.approval.kinds.naming.Naming.find_violations", fail)
    assert catalog.post(T, SET).status == 200
    ChangeRule.objects.filter(pk=rule.pk).update(mode="enforce")
    _count_change()
    assert catalog.delete(T).refused(409, "ContractViolation", f"the rule could not be checked: {error}")
    raised[0] = RequestTimeout("late")
    assert catalog.delete(T).refused(408, "RequestTimeoutException", "late")


def _count_change() -> None:
    row = ChangeRulesVersion.objects.get()
    ChangeRulesVersion.objects.update(number=row.number + 1)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such.Class", "no.such.Class cannot be created: ModuleNotFoundError"),
        ("catalog.services.approval.port.NoSuchClass", "cannot be created: ImportError"),
        ("catalog.services.approval.port.ContractVerifier", "cannot be created: TypeError"),
        ("builtins.dict", "builtins.dict is not a subclass of ContractVerifier"),
    ],
)
def test_a_server_does_not_start_with_an_unusable_verifier(
    path: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_configured_verifiers()
    use_settings(monkeypatch, contract_verifiers=[path])
    with pytest.raises(VerifierNotUsable, match=f"ICEKEEPER__CONTRACT_VERIFIERS: .*{message}"):
        require_configured_verifiers()
