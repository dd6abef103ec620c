"""Overrides with and without the right, dry run, and the findings that both leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from catalog.models import Namespace
from catalog.selectors.change_rules import RuleScope
from catalog.services.approval.approve import ContractViolation, override_rules
from catalog.services.namespaces.create import create_namespace
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor
from tenancy.authz import port
from tenancy.models import AuditRecord, OutboxEvent, Project, Securable
from tenancy.models.securable import ObjectRef
from tests.approval.conftest import CreateRule
from tests.authz.tree_fixtures import give
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

TYPES = Securable.Type
OVERRIDE = "x-icekeeper-override-rules"
NEW: dict[str, Any] = {"name": "t", "schema": SCHEMA}
NAMING = {"table": ["x.*"]}


@pytest.fixture
def builtin(monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Iterator[None]:
    use_settings(monkeypatch, authz_backend="builtin")
    port.authorizer.cache_clear()
    yield
    port.authorizer.cache_clear()


@pytest.fixture
def alice(
    namespace: str, builtin: None, callers: NamedCallers, catalog: ApiClient, warehouse: Warehouse
) -> CallerClient:
    """A user who owns the warehouse, and therefore may create tables, but not override rules."""
    give("ownership", ObjectRef(TYPES.WAREHOUSE, warehouse.pk), Actor(user_id=callers.user("alice")))
    return CallerClient(catalog.base, "alice")


def create(client: ApiClient, reason: str | None = None, **changed: Any) -> Response:
    headers = {} if reason is None else {OVERRIDE: reason}
    return client.post("/namespaces/ns/tables", NEW | changed, **headers)


def found(event: str) -> list[dict[str, Any]]:
    return [json.loads(row.details) for row in AuditRecord.objects.filter(event=event).order_by("id")]


def test_ownership_is_not_the_right_to_override(
    alice: CallerClient, create_rule: CreateRule, everything: Callable[[], Fingerprint]
) -> None:
    create_rule("naming", NAMING)
    before = everything()
    assert create(alice).refused(409, "ContractViolation")
    refused = create(alice, "urgent fix")
    hint = "You may not override this: it requires the privilege override_rules on the object that each rule is"
    assert refused.refused(409, "ContractViolation", hint)
    assert everything() == before
    assert found("change.overridden") == []
    assert len(found("change.vetoed")) == 1, "equal ones are aggregated"


@pytest.mark.parametrize("where", ["warehouse", "namespace", "project"])
def test_a_caller_with_the_right_overrides_and_is_audited(
    where: str, alice: CallerClient, create_rule: CreateRule, warehouse: Warehouse
) -> None:
    namespace_id = Namespace.objects.get().pk
    scope = {
        "project": RuleScope(TYPES.PROJECT, warehouse.project_id),
        "warehouse": RuleScope(TYPES.WAREHOUSE, str(warehouse.pk)),
        "namespace": RuleScope(TYPES.NAMESPACE, str(namespace_id), warehouse.pk),
    }[where]
    rule = create_rule("naming", NAMING, scope=scope)
    other = {"warehouse": TYPES.PROJECT, "namespace": TYPES.PROJECT, "project": None}[where]
    if other is None:  # the right on the warehouse is not sufficient for a rule of the project
        give("override_rules", ObjectRef(TYPES.WAREHOUSE, warehouse.pk), Actor(user_id="oidc~alice"))
        assert create(alice, "urgent fix").refused(409, "ContractViolation", "You may not override this")
        give("override_rules", ObjectRef(TYPES.PROJECT, warehouse.project_id), Actor(user_id="oidc~alice"))
    else:
        give("override_rules", ObjectRef(TYPES.WAREHOUSE, warehouse.pk), Actor(user_id="oidc~alice"))
    assert create(alice).refused(409, "ContractViolation")
    assert create(alice, "  urgent fix ").status == 200
    (overridden,) = found("change.overridden")
    assert (overridden["rule"], overridden["override"]) == (str(rule.pk), "urgent fix")
    assert (overridden["named"], overridden["violation"]) == (rule.name, "the name 't' must match x.*")
    record = AuditRecord.objects.get(event="change.overridden")
    assert (record.actor, record.outcome, record.action) == ("oidc~alice", "allowed", "create")
    assert OutboxEvent.objects.filter(type="createTable").count() == 1


def test_all_violated_rules_must_be_overridden(
    alice: CallerClient, create_rule: CreateRule, warehouse: Warehouse
) -> None:
    create_rule("naming", NAMING)
    create_rule("required-properties", {"properties": {"owner": None}}, scope=RuleScope(TYPES.SERVER))
    give("override_rules", ObjectRef(TYPES.WAREHOUSE, warehouse.pk), Actor(user_id="oidc~alice"))
    assert create(alice, "urgent").refused(409, "ContractViolation", "Rule 'the required-properties rule'")
    assert create(alice, "urgent", properties={"owner": "a"}).status == 200


@pytest.mark.parametrize("reason", ["", "   ", "x" * 201, "a\x07b"])
def test_invalid_reasons(reason: str, catalog: ApiClient, namespace: str, create_rule: CreateRule) -> None:
    create_rule("naming", NAMING)
    assert create(catalog, reason).refused(
        400, "InvalidRuleOverride", "must be 1 to 200 characters, none of them invisible"
    )
    assert create(catalog, "x" * 200).status == 200


def test_a_reason_has_any_letters(catalog: ApiClient, namespace: str, create_rule: CreateRule) -> None:
    create_rule("naming", NAMING)
    assert create(catalog, "für die Prüfung".encode().decode("latin-1")).status == 200
    (overridden,) = found("change.overridden")
    assert overridden["override"] == "für die Prüfung"


def test_forms_override_without_a_header(catalog: ApiClient, namespace: str, create_rule: CreateRule) -> None:
    create_rule("naming", {"namespace": ["x.*"]})
    warehouse_id = Warehouse.objects.get().pk
    with pytest.raises(ContractViolation):
        create_namespace(actor=INTERNAL, warehouse_id=warehouse_id, levels=["n"], properties=None)
    with override_rules("für die Prüfung"):
        create_namespace(actor=INTERNAL, warehouse_id=warehouse_id, levels=["n"], properties=None)
    assert [each["override"] for each in found("change.overridden")] == ["für die Prüfung"]
    with pytest.raises(ContractViolation):
        create_namespace(actor=INTERNAL, warehouse_id=warehouse_id, levels=["m"], properties=None)


def test_an_override_that_is_not_needed_is_not_recorded(
    catalog: ApiClient, namespace: str, create_rule: CreateRule
) -> None:
    create_rule("naming", {"table": [".*"]})
    assert create(catalog, "just in case").status == 200
    assert found("change.overridden") == []


def test_the_override_of_a_request_ends_with_it(catalog: ApiClient, namespace: str, create_rule: CreateRule) -> None:
    create_rule("naming", NAMING)
    assert create(catalog, "urgent").status == 200
    assert create(catalog, name="u").refused(409, "ContractViolation")


def test_dry_run_reports_and_allows(
    catalog: ApiClient, namespace: str, create_rule: CreateRule, rules: ApiClient, warehouse: Warehouse
) -> None:
    reporting = create_rule("naming", NAMING, mode="dry-run", name="reports")
    enforcing = create_rule("required-properties", {"properties": {"owner": None}}, name="enforces")
    assert create(catalog).refused(409, "ContractViolation", "Rule 'enforces'")
    assert create(catalog, properties={"owner": "a"}).status == 200
    listed = rules.get(f"/findings?ruleId={reporting.pk}").json()["findings"]
    assert [(each["result"], each["reason"]) for each in listed] == [("reported", "the name 't' must match x.*")]
    (first,) = rules.get(f"/findings?ruleId={enforcing.pk}").json()["findings"]
    assert first == {
        "id": first["id"], "at": first["at"], "count": 1, "result": "vetoed", "rule-id": str(enforcing.pk),
        "rule": "enforces", "kind": "required-properties", "actor": "anonymous", "action": "create",
        "object-type": "namespace", "object-id": str(Namespace.objects.get().pk), "warehouse-id": str(warehouse.pk),
        "names": ["ns", "t"], "reason": "the property 'owner' is required",
    }  # fmt: skip
    everywhere = rules.get("/findings").json()["findings"]
    in_warehouse = rules.get(f"/findings?scopeType=warehouse&scopeId={warehouse.pk}").json()["findings"]
    assert everywhere == in_warehouse
    assert sorted(each["result"] for each in everywhere) == ["reported", "vetoed"]
    assert len(rules.get("/findings?result=reported").json()["findings"]) == 1
    assert rules.get("/findings?result=overridden").json()["findings"] == []


def test_findings_of_a_namespace_are_those_of_everything_in_it(
    catalog: ApiClient, namespace: str, create_rule: CreateRule, rules: ApiClient, warehouse: Warehouse
) -> None:
    for levels in (["ns", "inner"], ["other"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    outer, inner, other = Namespace.objects.order_by("created_at")
    create_rule("naming", NAMING | {"namespace": ["x.*"]}, mode="dry-run")
    assert catalog.post("/namespaces/ns%1Finner/tables", NEW | {"name": "deep"}).status == 200
    assert catalog.post("/namespaces/other/tables", NEW | {"name": str(inner.pk)}).status == 200
    assert catalog.post("/namespaces", {"namespace": ["ns", "late"]}).status == 200
    for scope, names in ((outer, ["late", "deep"]), (inner, ["deep"]), (other, [str(inner.pk)])):
        query = f"scopeType=namespace&scopeId={scope.pk}&warehouseId={warehouse.pk}"
        found = rules.get(f"/findings?{query}").json()["findings"]
        assert [each["names"][-1] for each in found] == names


def test_findings_of_a_rename_are_also_those_of_the_destination(
    catalog: ApiClient, namespace: str, create_rule: CreateRule, rules: ApiClient, warehouse: Warehouse
) -> None:
    for levels in (["other"], ["other", "inner"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    assert create(catalog).status == 200
    create_rule("naming", NAMING)
    moved = {
        "source": {"namespace": ["ns"], "name": "t"},
        "destination": {"namespace": ["other", "inner"], "name": "u"},
    }
    assert catalog.post("/tables/rename", moved).status == 409
    for scope in Namespace.objects.all():
        query = f"scopeType=namespace&scopeId={scope.pk}&warehouseId={warehouse.pk}"
        assert len(rules.get(f"/findings?{query}").json()["findings"]) == 1, scope


def test_findings_of_an_earlier_project_with_the_same_id_are_not_shown(
    catalog: ApiClient, namespace: str, create_rule: CreateRule, rules: ApiClient
) -> None:
    create_rule("naming", NAMING)
    assert create(catalog).status == 409
    assert len(rules.get("/findings").json()["findings"]) == 1
    Project.objects.update(created_at=now() + timedelta(hours=1))
    assert rules.get("/findings").json()["findings"] == []


def test_findings_have_pages(catalog: ApiClient, namespace: str, create_rule: CreateRule, rules: ApiClient) -> None:
    create_rule("naming", NAMING)
    for number in range(5):
        assert create(catalog, name=f"t{number}").status == 409
    names, token = [], ""
    for _ in range(3):
        page = rules.get(f"/findings?pageSize=2&pageToken={token}").json()
        names += [each["reason"] for each in page["findings"]]
        token = page.get("next-page-token", "")
    assert names == [f"the name 't{number}' must match x.*" for number in (4, 3, 2, 1, 0)]
    assert token == ""


def test_findings_need_the_permission_to_manage_rules(
    alice: CallerClient, create_rule: CreateRule, warehouse: Warehouse, callers: NamedCallers
) -> None:
    rule = create_rule("naming", NAMING)
    assert create(alice).status == 409
    as_alice = CallerClient("/management/v1/change-rules/findings", "alice")
    callers.user("bob")
    as_bob = CallerClient("/management/v1/change-rules/findings", "bob")
    in_warehouse = f"?scopeType=warehouse&scopeId={warehouse.pk}"
    assert as_alice.get(in_warehouse).refused(403, "WarehouseActionForbidden")
    assert as_alice.get(f"?ruleId={rule.pk}").refused(403, "WarehouseActionForbidden")
    assert as_alice.get().refused(403, "ProjectActionForbidden")
    assert as_bob.get(in_warehouse).refused(404, "NoSuchWarehouseException")
    assert as_bob.get(f"?ruleId={rule.pk}").refused(404, "ChangeRuleNotFound")
    give("manage_rules", ObjectRef(TYPES.WAREHOUSE, warehouse.pk), Actor(user_id="oidc~alice"))
    assert len(as_alice.get(in_warehouse).json()["findings"]) == 1
    assert len(as_alice.get(f"?ruleId={rule.pk}").json()["findings"]) == 1
    assert as_alice.get().refused(403, "ProjectActionForbidden")
