"""Where rules apply: to the object that they are attached to and to what is in it, from their creation on."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connections

from catalog.models import ChangeRule, ChangeRulesVersion, Namespace
from catalog.selectors.change_rules import RuleScope
from catalog.services.approval import rule_set
from catalog.services.approval.approve import RulesChanged, require_approval
from catalog.services.approval.rule_set import read_rules_version
from catalog.services.change_rules import (
    MAX_RULES_OF_OBJECT,
    RuleContent,
    TooManyChangeRules,
    create_change_rule,
    delete_change_rule,
    update_change_rule,
)
from catalog.services.commit import revisions, service
from icekeeper.kernel import request_context
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.models import Project, Securable
from tenancy.selectors.projects import get_project, server_id
from tests.approval.conftest import CreateRule
from tests.authz.view_owner_fixtures import VIEW
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
TYPES = Securable.Type
REQUIRE_OWNER = {"properties": {"owner": None}, "objects": ["table", "view", "generic-table", "namespace"]}


@pytest.fixture
def lake(catalog: ApiClient, namespace: str) -> None:
    """The table `ns.t`, and next to it `ns.in.t` and `other.t`; each has the property `owner`."""
    for levels in (["ns", "in"], ["other"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    for path in ("ns", "ns%1Fin", "other"):
        new = {"name": "t", "schema": SCHEMA, "properties": {"owner": "a"}}
        assert catalog.post(f"/namespaces/{path}/tables", new).status == 200


def write_each(catalog: ApiClient) -> list[bool]:
    """Remove the property from each table; return which of the commits a rule rejected."""
    removal = [{"action": "remove-properties", "removals": ["owner"]}]
    results = []
    for path in ("ns", "ns%1Fin", "other"):
        response = catalog.post(f"/namespaces/{path}/tables/t", {"requirements": [], "updates": removal})
        if response.status != 200:
            assert response.refused(409, "ContractViolation", "the property 'owner' is required")
        results.append(response.status == 409)
    return results


@pytest.mark.parametrize(
    ("where", "rejected"),
    [
        ("server", [True, True, True]),
        ("project", [True, True, True]),
        ("other project", [False, False, False]),
        ("warehouse", [True, True, True]),
        ("ns", [True, True, False]),
        ("ns.in", [False, True, False]),
        ("table", [True, False, False]),
        ("view", [False, False, False]),
    ],
)
def test_a_rule_applies_to_its_object_and_what_is_in_it(
    where: str, rejected: list[bool], catalog: ApiClient, lake: None, warehouse: Warehouse, create_rule: CreateRule
) -> None:
    if where == "other project":
        response = ApiClient("/management/v1").post("/project", {"project-name": "x", "project-id": "x"})
        assert response.status == 201
    if where == "view":
        assert catalog.post("/namespaces/ns/views", VIEW | {"name": "v"}).status == 200
    create_rule("required-properties", REQUIRE_OWNER, scope=scope_of(where, catalog, warehouse))
    assert write_each(catalog) == rejected


def scope_of(where: str, catalog: ApiClient, warehouse: Warehouse) -> RuleScope:
    found = {
        "server": RuleScope(TYPES.SERVER),
        "project": RuleScope(TYPES.PROJECT, warehouse.project_id),
        "other project": RuleScope(TYPES.PROJECT, "x"),
        "warehouse": RuleScope(TYPES.WAREHOUSE, str(warehouse.pk)),
    }
    for namespace in Namespace.objects.all():
        found[str(namespace)] = RuleScope(TYPES.NAMESPACE, str(namespace.pk), warehouse.pk)
    if where in {"table", "view"}:
        name = {"table": "t", "view": "v"}[where]
        metadata = catalog.get(f"/namespaces/ns/{where}s/{name}").json()["metadata"]
        return RuleScope(TYPES(where), metadata[f"{where}-uuid"], warehouse.pk)
    return found[where]


def test_new_objects_and_moved_ones_are_in_their_namespace(
    catalog: ApiClient, lake: None, warehouse: Warehouse, create_rule: CreateRule
) -> None:
    create_rule("naming", {"table": ["x.*"]}, scope=scope_of("ns", catalog, warehouse), name="of ns")
    create_rule("naming", {"table": ["y.*"]}, scope=scope_of("other", catalog, warehouse), name="of other")

    def create(path: str, name: str) -> Response:
        return catalog.post(f"/namespaces/{path}/tables", {"name": name, "schema": SCHEMA})

    assert create("ns", "y1").refused(409, "ContractViolation", "Rule 'of ns'")
    assert create("ns%1Fin", "y1").refused(409, "ContractViolation", "Rule 'of ns'")
    assert create("other", "x1").refused(409, "ContractViolation", "Rule 'of other'")
    assert create("ns", "x1").status == 200

    def rename(name: str) -> Response:
        source, target = {"namespace": ["ns"], "name": "x1"}, {"namespace": ["other"], "name": name}
        return catalog.post("/tables/rename", {"source": source, "destination": target})

    assert rename("x1").refused(409, "ContractViolation", "Rule 'of other'")
    assert rename("y1").refused(409, "ContractViolation", "Rule 'of ns'"), "the rules of both namespaces are asked"


def test_a_moved_namespace_takes_the_rules_above_it(
    catalog: ApiClient, lake: None, manage: ApiClient, warehouse: Warehouse, create_rule: CreateRule
) -> None:
    create_rule("required-properties", REQUIRE_OWNER, scope=scope_of("ns", catalog, warehouse))
    permission_epoch.poll()
    try:
        inner = Namespace.objects.get(path_key__endswith="in").pk
        removal = {"requirements": [], "updates": [{"action": "remove-properties", "removals": ["owner"]}]}
        assert catalog.post("/namespaces/ns%1Fin/tables/t", removal).status == 409
        assert manage.post(f"/namespace/{inner}/move", {"destination": ["other", "in"]}).status == 200
        assert catalog.post("/namespaces/other%1Fin/tables/t", removal).status == 200
    finally:
        permission_epoch.invalidate()


def test_rules_are_deleted_with_their_objects(
    catalog: ApiClient, lake: None, warehouse: Warehouse, create_rule: CreateRule
) -> None:
    for where in ("table", "ns.in", "warehouse"):
        create_rule("required-properties", REQUIRE_OWNER, scope=scope_of(where, catalog, warehouse))
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    assert ChangeRule.objects.count() == 2
    assert catalog.delete("/namespaces/ns?recursive=true").status == 204
    assert ChangeRule.objects.get().securable_id == f"warehouse:{warehouse.pk}"


def test_a_new_project_with_a_former_id_has_no_rules(create_rule: CreateRule, warehouse: Warehouse) -> None:
    management = ApiClient("/management/v1")
    new = {"project-name": "x", "project-id": "x"}
    assert management.post("/project", new).status == 201
    create_rule("required-properties", REQUIRE_OWNER, scope=RuleScope(TYPES.PROJECT, "x"))
    version = read_rules_version()
    assert "project:x" in rule_set.rules_of_version(version).by_scope
    assert management.delete("/project", **{"x-project-id": "x"}).status == 204
    assert not Project.objects.filter(pk="x").exists()
    assert rule_set.rules_of_version(version).by_scope == {}


def test_updates_take_effect_at_once(catalog: ApiClient, lake: None, create_rule: CreateRule) -> None:
    rule = create_rule("naming", {"table": ["x.*"]})

    def create(name: str) -> int:
        return catalog.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA}).status

    def update(**changed: Any) -> None:
        nonlocal rule
        content = RuleContent(**{"name": rule.name, "configuration": rule.configuration} | changed)
        rule = update_change_rule(
            actor=INTERNAL, rule_id=rule.pk, version=rule.version, content=content, keeps_secret=True
        )

    assert create("y1") == 409
    update(configuration={"table": ["y.*"]})
    assert create("y1") == 200
    assert create("z1") == 409
    update(is_enabled=False)
    assert create("z1") == 200
    update(is_enabled=True, mode="dry-run")
    assert create("z2") == 200
    update(mode="enforce")
    assert create("z3") == 409
    delete_change_rule(actor=INTERNAL, rule_id=rule.pk)
    assert create("z3") == 200


def test_without_rules_a_commit_runs_no_further_statement(
    catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule
) -> None:
    create_table("t")
    numbers = iter(range(100))

    def statements() -> int:
        updates = [{"action": "set-properties", "updates": {"n": str(next(numbers))}}]
        with counting() as seen:
            assert catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates}).status == 200
        return seen["statements"]

    statements()
    before = statements()
    server_id()
    rule = create_rule("schema-compatibility", {"mode": "full"})
    assert statements() == before + 1, "the rules are read once"
    assert statements() == before
    delete_change_rule(actor=INTERNAL, rule_id=rule.pk)
    assert statements() == before + 1
    assert statements() == before


def test_rules_that_cannot_apply_cost_no_statement(
    catalog: ApiClient, namespace: str, create_rule: CreateRule, storage_root: Path
) -> None:
    numbers = iter(range(100))

    def statements(below: int = 4) -> int:
        """Drop a namespace with this many namespaces in it."""
        top = f"top{next(numbers)}"
        for levels in ([top], *([top, f"n{number}"] for number in range(below))):
            assert catalog.post("/namespaces", {"namespace": levels}).status == 200
        with counting() as seen:
            assert catalog.delete(f"/namespaces/{top}?recursive=true").status == 204
        return seen["statements"]

    statements()
    before = statements()
    for configuration in ({"table": ["a.*"]}, {"namespace": ["a.*"]}):
        rule = create_rule("naming", configuration, mode="dry-run")
        statements()
        few = statements()
        assert few == statements(20) > before, "the question and the findings of many namespaces read as much as of few"
        delete_change_rule(actor=INTERNAL, rule_id=rule.pk)
    statements()
    assert statements() == before
    profile = {"type": "local", "path": f"{storage_root}/other"}
    other = create_warehouse(actor=INTERNAL, project=get_project(None), name="other", storage_profile=profile)
    create_rule("naming", {"table": ["a.*"]}, scope=RuleScope(TYPES.WAREHOUSE, str(other.pk)))
    statements()
    assert statements() == before, "the rule is of another warehouse"


def test_a_write_that_was_approved_under_other_rules_is_not_written(
    catalog: ApiClient, create_table: CreateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that another process creates between approval and write applies to the write, too."""
    create_table("t")
    write = revisions.write_revisions

    def write_later(*arguments: Any, **options: Any) -> bool:
        change_rules_elsewhere()
        monkeypatch.setattr(service, "write_revisions", write)
        return write(*arguments, **options)

    monkeypatch.setattr(service, "write_revisions", write_later)
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    refused = catalog.post("/namespaces/ns/tables/t", body)
    assert refused.refused(409, "CommitFailedException", "The rules about changes were changed meanwhile")
    assert "a" not in catalog.get("/namespaces/ns/tables/t").json()["metadata"]["properties"]
    assert catalog.post("/namespaces/ns/tables/t", body).status == 200


RACES: dict[str, tuple[str, Callable[[ApiClient], Response]]] = {
    "commit": (
        "commit.service",
        lambda catalog: catalog.post(
            "/namespaces/ns/tables/t",
            {"requirements": [], "updates": [{"action": "remove-properties", "removals": ["owner"]}]},
        ),
    ),
    "drop": ("tables.drop", lambda catalog: catalog.delete("/namespaces/ns/tables/t")),
    "namespace": ("namespaces.create", lambda catalog: catalog.post("/namespaces", {"namespace": ["n"]})),
}


@pytest.mark.parametrize("write", RACES)
@pytest.mark.parametrize("moment", ["after the read of the target", "after the approval"])
def test_the_first_rule_of_a_server_applies_to_writes_under_way(
    write: str, moment: str, catalog: ApiClient, lake: None, create_rule: CreateRule,
    everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert not ChangeRulesVersion.objects.exists()
    module, send = RACES[write]
    states = []

    def approve(*arguments: Any, **options: Any) -> None:
        if moment == "after the approval":
            require_approval(*arguments, **options)
        Context().run(create_rule, "required-properties", REQUIRE_OWNER)  # as another request does
        states.append(everything())
        if moment != "after the approval":
            require_approval(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(f"catalog.services.{module}.require_approval", approve)
        refused = send(catalog)
    assert refused.refused(409, "CommitFailedException", "The rules about changes were changed meanwhile")
    assert states == [everything()]
    again = send(catalog)
    assert again.status == 204 if write == "drop" else again.refused(409, "ContractViolation", "'owner' is required")


def change_rules_elsewhere() -> None:
    """Do what a change of rules by another process of this server does."""
    ChangeRulesVersion.objects.update_or_create(singleton=1, defaults={"number": 1_000})
    permission_epoch.bump()


def test_a_recheck_reads_nothing_while_the_epoch_is_the_same(create_rule: CreateRule) -> None:
    create_rule("naming", {"table": [".*"]})
    context = request_context.current_context()
    context.rechecks = {}
    try:
        require_approval(read_rules_version(), list)
        with counting() as seen:
            request_context.recheck_permissions()
        assert not seen
        permission_epoch.bump()
        request_context.recheck_permissions()
        change_rules_elsewhere()
        with pytest.raises(RulesChanged):
            request_context.recheck_permissions()
    finally:
        context.rechecks = None


def test_an_object_has_a_limited_number_of_rules(create_rule: CreateRule, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MAX_RULES_OF_OBJECT):
        create_rule("naming", {"table": [".*"]}, name=f"rule {number}")
    with pytest.raises(TooManyChangeRules, match="An object has at most 50 rules"):
        create_rule("naming", {"table": [".*"]}, name="one more")
    monkeypatch.setattr("catalog.services.change_rules.MAX_RULES", MAX_RULES_OF_OBJECT)
    with pytest.raises(TooManyChangeRules, match="A server has at most 50 rules"):
        create_rule("naming", {"table": [".*"]}, name="one more", scope=RuleScope(TYPES.SERVER))


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_rule_holds_for_all_commits_after_its_creation(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse
) -> None:
    create_table("t", properties={"n": "0"})
    is_created, is_over = Event(), Event()
    late: list[str] = []
    results: list[int] = []

    def commit(thread: int) -> None:
        try:
            for number in range(1, 1000):
                began_after = is_created.is_set()
                updates = [{"action": "set-properties", "updates": {f"n{thread}": str(number)}}]
                response = catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})
                results.append(response.status)
                if began_after:
                    late.append(response.error["type"] if response.status != 200 else "written")
                if is_over.is_set():
                    return
        finally:
            connections.close_all()

    threads = [Thread(target=commit, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    while results.count(200) < 20:
        is_over.wait(0.01)
    content = RuleContent(name="r", configuration={"properties": {f"n{number}": ["x"] for number in range(3)}})
    create_change_rule(
        actor=INTERNAL, scope=RuleScope(TYPES.WAREHOUSE, str(warehouse.pk)), kind="required-properties", content=content
    )
    is_created.set()
    is_over.wait(0.5)
    is_over.set()
    for each in threads:
        each.join(30)
    assert late
    assert set(late) == {"ContractViolation"}
    assert ChangeRulesVersion.objects.get().number == 1
