"""Rules in the management API: create, list, update, delete, evaluate; who may, and what stays hidden."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from catalog.models import ChangeRule, Tabular
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz import port
from tenancy.models import AuditRecord, OutboxEvent, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.objects import the_server
from tests.approval.conftest import CreateRule
from tests.authz.tree_fixtures import give
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
TYPES = Securable.Type


@pytest.fixture
def body(warehouse: Warehouse) -> dict[str, Any]:
    scope = {"type": "warehouse", "id": str(warehouse.pk)}
    return {"scope": scope, "name": "schemas", "kind": "schema-compatibility", "configuration": {"mode": "full"}}


def good(response: Any, status: int = 200) -> Any:
    assert response.status == status, response.body
    return response.json() if response.body else None


def test_a_rule_from_its_creation_to_its_deletion(rules: ApiClient, body: dict[str, Any], warehouse: Warehouse) -> None:
    created = good(rules.post("", body), 201)
    assert created == {
        "id": created["id"], "created-at": created["created-at"],
        "scope": {"type": "warehouse", "id": str(warehouse.pk), "warehouse-id": str(warehouse.pk), "names": ["wh"]},
        "name": "schemas", "kind": "schema-compatibility", "configuration": {"mode": "full"}, "mode": "enforce",
        "on-failure": "deny", "enabled": True, "has-secret": False, "version": 1,
    }  # fmt: skip
    at = f"/{created['id']}"
    assert good(rules.get(at)) == created
    assert good(rules.get()) == {"change-rules": [created]}
    change = {
        "version": 1, "name": "other", "configuration": {"mode": "backward"}, "mode": "dry-run",
        "on-failure": "allow", "enabled": False,
    }  # fmt: skip
    updated = good(rules.put(at, change))
    assert updated == created | change | {"version": 2, "updated-at": updated["updated-at"]}
    assert rules.put(at, change).refused(409, "ChangeRuleChanged", "it has version 2, not 1")
    assert good(rules.get(at)) == updated
    assert rules.delete(at).status == 204
    assert rules.delete(at).refused(404, "ChangeRuleNotFound")
    assert rules.get(at).refused(404, "ChangeRuleNotFound")
    assert rules.put(at, change).refused(404, "ChangeRuleNotFound")
    events = OutboxEvent.objects.filter(object_key=f"change-rule:{created['id']}").order_by("sequence")
    assert list(events.values_list("type", flat=True)) == ["createChangeRule", "updateChangeRule", "deleteChangeRule"]
    records = AuditRecord.objects.filter(object_type="change-rule").order_by("id")
    assert [row.event for row in records] == ["change-rule.created", "change-rule.updated", "change-rule.deleted"]
    assert {row.project_id for row in records} == {warehouse.project_id}
    assert json.loads(records[1].details)["configuration"] == {"mode": "backward"}


@pytest.mark.parametrize(
    ("changed", "status", "wire_type", "text"),
    [
        ({"name": " "}, 400, "BadRequestException", "rule name"),
        ({"name": "x" * 129}, 400, "InvalidChangeRule", "name: longer than 128 characters"),
        ({"kind": "naming"}, 400, "InvalidChangeRule", "configuration.mode: extra inputs are not permitted"),
        ({"kind": "other"}, 400, "BadRequestException", "kind"),
        ({"mode": "off"}, 400, "BadRequestException", "mode"),
        (
            {"kind": "required-properties", "configuration": {"properties": {"a\0b": None}}},
            400,
            "InvalidChangeRule",
            "configuration: must not contain the character U+0000",
        ),
        (
            {"kind": "http-hook", "configuration": {"url": "https://192.0.2.1/", "timeout-seconds": "2"}},
            400,
            "InvalidChangeRule",
            "configuration.timeout-seconds: input should be a valid number",
        ),
        (
            {"kind": "http-hook", "configuration": {"url": "https://192.0.2.1/", "timeout-seconds": True}},
            400,
            "InvalidChangeRule",
            "configuration.timeout-seconds: input should be a valid number",
        ),
        ({"more": 1}, 400, "BadRequestException", "more"),
        ({"secret": {}}, 400, "InvalidChangeRule", "secret: rules of the kind schema-compatibility have none"),
        ({"configuration": []}, 400, "BadRequestException", "configuration"),
        ({"scope": {"type": "table", "id": str(uuid4())}}, 400, "BadRequestException", "warehouse-id: is required"),
        ({"scope": {"type": "server", "id": str(uuid4())}}, 400, "BadRequestException", "id: omit id and warehouse-id"),
        (
            {"scope": {"type": "server", "warehouse-id": str(uuid4())}},
            400,
            "BadRequestException",
            "omit id and warehouse-id",
        ),
        ({"scope": {"type": "warehouse"}}, 400, "BadRequestException", "id: is required for a warehouse"),
        ({"scope": {"type": "warehouse", "id": "x"}}, 400, "BadRequestException", "id: must be a UUID"),
        (
            {"scope": {"type": "role", "id": str(uuid4())}},
            400,
            "BadRequestException",
            "scope.type: must be one of server, project, warehouse, namespace, table, view, generic-table",
        ),
        (
            {"kind": "names"},
            400,
            "BadRequestException",
            "kind: must be one of http-hook, naming, protected, ",
        ),
        ({"scope": {"type": "project", "id": "none"}}, 404, "ProjectNotFound", ""),
        ({"scope": {"type": "warehouse", "id": str(uuid4())}}, 404, "NoSuchWarehouseException", ""),
    ],
)
def test_invalid_rules(
    changed: dict[str, Any], status: int, wire_type: str, text: str, rules: ApiClient, body: dict[str, Any],
    everything: Callable[[], Fingerprint],
) -> None:  # fmt: skip
    before = everything()
    assert rules.post("", body | changed).refused(status, wire_type, text)
    assert everything() == before


def test_names_are_unique_in_their_scope(rules: ApiClient, body: dict[str, Any]) -> None:
    good(rules.post("", body), 201)
    assert rules.post("", body | {"name": "SCHEMAS"}).refused(409, "ChangeRuleAlreadyExists")
    good(rules.post("", body | {"scope": {"type": "server"}}), 201)
    other = good(rules.post("", body | {"name": "other"}), 201)
    change = {
        "version": 1, "name": "Schemas", "configuration": {"mode": "full"}, "mode": "enforce", "on-failure": "deny",
        "enabled": True,
    }  # fmt: skip
    assert rules.put(f"/{other['id']}", change).refused(409, "ChangeRuleAlreadyExists")


def test_secrets_are_never_returned(rules: ApiClient, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    hook = {
        "kind": "http-hook", "configuration": {"url": "https://192.0.2.1/changes"}, "mode": "dry-run", "enabled": False,
        "secret": {"headers": {"Authorization": "Bearer very-secret"}},
    }  # fmt: skip
    response = rules.post("", body | hook)
    created = good(response, 201)
    assert created["has-secret"] is True
    at = f"/{created['id']}"
    change = {name: created[name] for name in ("name", "configuration", "mode", "on-failure", "enabled", "version")}
    kept = rules.put(at, change)
    assert good(kept)["has-secret"] is True
    removed = rules.put(at, change | {"version": 2, "secret": None})
    assert good(removed)["has-secret"] is False
    for each in (response, kept, removed, rules.get(), rules.get(at)):
        assert b"very-secret" not in each.body
    assert not AuditRecord.objects.filter(details__contains="very-secret").exists()
    assert not OutboxEvent.objects.filter(data__contains="very-secret").exists()


def hook_body(body: dict[str, Any], **more: Any) -> dict[str, Any]:
    configuration = {"url": "https://127.0.0.1:9/changes"}
    return body | {"name": "hook", "kind": "http-hook", "configuration": configuration} | more


def test_a_stored_secret_is_not_sent_to_another_server(
    rules: ApiClient, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_secrets(monkeypatch)
    created = good(rules.post("", hook_body(body, secret={"headers": {"X-Key": "very-secret"}})), 201)
    at, stored = f"/{created['id']}", {key: created[key] for key in ("name", "mode", "on-failure", "enabled")}
    for url in ("https://127.0.0.1:10/changes", "http://127.0.0.1:9/changes", "https://127.0.0.2:9/changes"):
        moved = stored | {"configuration": {"url": url}, "version": 1}
        assert rules.put(at, moved).refused(400, "InvalidChangeRule", "another server needs the secret again")
    same_server = stored | {"configuration": {"url": "https://127.0.0.1:9/other"}, "version": 1}
    assert good(rules.put(at, same_server))["has-secret"] is True
    moved = stored | {"configuration": {"url": "https://127.0.0.1:10/"}, "version": 2}
    assert good(rules.put(at, moved | {"secret": {"headers": {"X-Key": "other"}}}))["has-secret"] is True
    assert good(rules.put(at, stored | {"configuration": created["configuration"], "version": 3, "secret": None}))


def test_a_secret_of_a_kind_without_any_is_rejected(rules: ApiClient, body: dict[str, Any]) -> None:
    created = good(rules.post("", body), 201)
    same = {key: created[key] for key in ("name", "configuration", "mode", "on-failure", "enabled", "version")}
    refused = rules.put(f"/{created['id']}", same | {"secret": {"headers": {"X": "y"}}})
    assert refused.refused(400, "InvalidChangeRule", "secret: rules of the kind schema-compatibility have none")


@pytest.mark.parametrize("broken", [{"url": "ftp://x"}, {"url": "https://127.0.0.1:9/", "of-a-later-version": 1}])
def test_a_rule_that_cannot_be_used_is_disabled(
    rules: ApiClient, body: dict[str, Any], broken: dict[str, Any], catalog: ApiClient
) -> None:
    created = good(rules.post("", hook_body(body)), 201)
    ChangeRule.objects.update(configuration=broken)
    assert catalog.post("/namespaces", {"namespace": ["n"]}).refused(409, "ContractViolation")
    stored = {key: created[key] for key in ("name", "on-failure")} | {"configuration": broken, "mode": "dry-run"}
    disabled = good(rules.put(f"/{created['id']}", stored | {"enabled": False, "version": 1}))
    assert (disabled["enabled"], disabled["mode"]) == (False, "dry-run")
    assert catalog.post("/namespaces", {"namespace": ["n"]}).status == 200
    enabled = rules.put(f"/{created['id']}", stored | {"enabled": True, "version": 2})
    assert enabled.refused(400, "InvalidChangeRule", "configuration.")


def test_lists_have_filters_and_pages(
    rules: ApiClient, create_rule: CreateRule, create_table: CreateTable, table_scope: Any, warehouse: Warehouse
) -> None:
    uuid = create_table("t")["metadata"]["table-uuid"]
    for number in range(3):
        create_rule("naming", {"table": [".*"]}, name=f"names {number}")
    create_rule("schema-compatibility", {"mode": "full"}, scope=table_scope(uuid), name="schemas", mode="dry-run")
    create_rule("protected", {"object-tag": "a"}, scope=table_scope(uuid), name="tags", is_enabled=False)

    def names(query: str) -> list[str]:
        return [each["name"] for each in good(rules.get(query))["change-rules"]]

    every = ["names 0", "names 1", "names 2", "schemas", "tags"]
    assert names("") == every
    table = f"scopeType=table&scopeId={uuid}&warehouseId={warehouse.pk}"
    assert names(f"?{table}") == ["schemas", "tags"]
    assert names(f"?{table}&effective=true") == every
    assert names(f"?scopeType=warehouse&scopeId={warehouse.pk}") == every[:3]
    assert names("?kind=naming") == every[:3]
    assert names("?mode=dry-run") == ["schemas"]
    assert names("?enabled=false") == ["tags"]
    found, token = [], ""
    while True:
        page = good(rules.get(f"?pageSize=2&pageToken={token}"))
        found += [each["name"] for each in page["change-rules"]]
        token = page.get("next-page-token", "")
        if not token:
            break
    assert found == every
    for query, text in {
        "?kind=x": "kind: must be one of", "?mode=x": "mode: must be one of", "?enabled=x": "enabled: must be true",
        "?scope=x": "'scope' is not a parameter", "?scopeId=x": "scopeType: is required",
        "?scopeType=x": "scopeType: must be one of",
    }.items():  # fmt: skip
        response = rules.get(query)
        assert response.status == 400
        assert text in response.error["message"]


def test_a_rule_is_evaluated_without_a_change(
    rules: ApiClient, create_rule: CreateRule, create_table: CreateTable, warehouse: Warehouse,
    everything: Callable[[], Fingerprint],
) -> None:  # fmt: skip
    uuid = create_table("t", properties={"owner": "a"})["metadata"]["table-uuid"]
    rule = create_rule("required-properties", {"properties": {"owner": None}}, is_enabled=False)
    before = everything()
    table = {"warehouse-id": str(warehouse.pk), "table-id": uuid}

    def evaluate(**more: Any) -> Any:
        return good(rules.post(f"/{rule.pk}/test", table | more))

    removal = {"action": "remove-properties", "removals": ["owner"]}
    assert evaluate(updates=[removal]) == {"allowed": False, "violations": ["the property 'owner' is required"]}
    assert evaluate() == {"allowed": True, "violations": []}
    assert evaluate(action="drop") == {"allowed": True, "violations": []}
    bad = table | {"updates": [{"action": "no such action"}]}
    assert rules.post(f"/{rule.pk}/test", bad).refused(400, "BadRequestException")
    missing = table | {"table-id": str(uuid4())}
    assert rules.post(f"/{rule.pk}/test", missing).refused(404, "NoSuchTableException")
    assert everything() == before


@pytest.fixture
def builtin(monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Iterator[None]:
    use_settings(monkeypatch, authz_backend="builtin")
    port.authorizer.cache_clear()
    yield
    port.authorizer.cache_clear()


@pytest.fixture
def table_uuid(create_table: CreateTable) -> str:
    """That of a table which was created before callers needed tokens."""
    return str(create_table("t")["metadata"]["table-uuid"])


def test_rules_need_their_own_right_on_the_object(
    table_uuid: str, create_rule: CreateRule, body: dict[str, Any], builtin: None, callers: NamedCallers,
    warehouse: Warehouse, everything: Callable[[], Fingerprint],
) -> None:  # fmt: skip
    rule = create_rule("naming", {"table": [".*"]})
    owner, manager = Actor(user_id=callers.user("owner")), Actor(user_id=callers.user("manager"))
    callers.user("stranger")
    here = ObjectRef(TYPES.WAREHOUSE, warehouse.pk)
    give("ownership", here, owner)
    give("manage_rules", here, manager)
    as_owner, as_manager, as_stranger = (
        CallerClient("/management/v1/change-rules", name) for name in ("owner", "manager", "stranger")
    )
    change = {
        "version": 1, "name": "x", "configuration": {"table": ["x"]}, "mode": "enforce", "on-failure": "deny",
        "enabled": True,
    }  # fmt: skip
    question = {"warehouse-id": str(warehouse.pk), "table-id": table_uuid}
    for caller in (as_owner, as_stranger):  # they are known users from now on
        assert caller.get().json() == {"change-rules": []}
    before = everything()
    for caller, status, of_object, of_rule in (
        (as_owner, 403, "WarehouseActionForbidden", "WarehouseActionForbidden"),
        (as_stranger, 404, "NoSuchWarehouseException", "ChangeRuleNotFound"),
    ):
        assert caller.post("", body).refused(status, of_object)
        assert caller.get(f"/{rule.pk}").refused(status, of_rule)
        assert caller.put(f"/{rule.pk}", change).refused(status, of_rule)
        assert caller.delete(f"/{rule.pk}").refused(status, of_rule)
        assert caller.post(f"/{rule.pk}/test", question).refused(status, of_rule)
        assert caller.get(f"?scopeType=warehouse&scopeId={warehouse.pk}").refused(status, of_object)
        assert caller.get().json() == {"change-rules": []}
    assert everything() == before
    assert [each["id"] for each in as_manager.get().json()["change-rules"]] == [str(rule.pk)]
    assert as_manager.post("", body).status == 201
    assert as_manager.post("", body | {"scope": {"type": "server"}}).refused(403, "ServerActionForbidden")
    assert as_manager.put(f"/{rule.pk}", change).status == 200
    assert as_manager.post(f"/{rule.pk}/test", question).refused(404, "NoSuchTableException")
    assert as_manager.delete(f"/{rule.pk}").status == 204
    assert ChangeRule.objects.count() == 1


def test_a_hook_gets_only_metadata_that_its_manager_may_read(
    table_uuid: str, builtin: None, callers: NamedCallers, warehouse: Warehouse
) -> None:
    manager, admin, operator = (Actor(user_id=callers.user(name)) for name in ("manager", "admin", "operator"))
    here = ObjectRef(TYPES.WAREHOUSE, warehouse.pk)
    give("manage_rules", here, manager)
    give("describe", ObjectRef(TYPES.TABLE, Tabular.objects.get(uuid=table_uuid).pk), manager)
    give("admin", the_server().ref, admin)
    give("operator", the_server().ref, operator)
    as_manager, as_admin, as_operator = (
        CallerClient("/management/v1/change-rules", name) for name in ("manager", "admin", "operator")
    )
    plain = {"url": "https://192.0.2.1/changes"}
    complete = plain | {"include-metadata": True}
    of_warehouse = {"scope": {"type": "warehouse", "id": str(warehouse.pk)}, "kind": "http-hook", "enabled": False}
    of_table = of_warehouse | {
        "scope": {"type": "table", "id": table_uuid, "warehouse-id": str(warehouse.pk)}, "name": "t",
    }  # fmt: skip
    of_server = of_warehouse | {"scope": {"type": "server"}, "name": "s"}
    hidden = as_manager.post("", of_warehouse | {"name": "a", "configuration": complete})
    assert hidden.refused(403, "WarehouseActionForbidden")
    assert as_manager.post("", of_table | {"configuration": complete}).status == 201
    created = as_manager.post("", of_warehouse | {"name": "a", "configuration": plain})
    assert created.status == 201
    at = f"/{created.json()['id']}"
    change = {
        "version": 1, "name": "a", "configuration": complete, "mode": "enforce", "on-failure": "deny", "enabled": False,
    }  # fmt: skip
    assert as_manager.put(at, change).refused(403, "WarehouseActionForbidden")
    give("describe", here, manager)
    assert as_manager.put(at, change).status == 200
    assert as_admin.post("", of_server | {"configuration": complete}).refused(403, "ServerActionForbidden")
    assert as_operator.post("", of_server | {"configuration": complete}).status == 201
