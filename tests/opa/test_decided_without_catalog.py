"""Decisions without the catalog: Trino's own catalog, unmanaged catalogs, administrators, custom rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.authorization_fixtures import StartOpa
from tests.opa.fake_batch_check import FakeBatchCheck
from tests.opa.opa_request_fixtures import POLICIES, batch, catalog, function, question, schema, settings_for, table
from tests.parts.opa import Opa

pytestmark = pytest.mark.part("opa")

READINGS = ("SelectFromColumns", "ShowColumns", "FilterTables", "FilterColumns")


def system(name: str, schema_name: str) -> dict[str, Any]:
    return table(name, schema_name, "system")


EVERYBODYS: list[tuple[str, Any]] = [
    ("ExecuteQuery", None),
    ("ReadSystemInformation", None),
    ("AccessCatalog", catalog("system")),
    ("FilterCatalogs", catalog("system")),
    ("ShowSchemas", catalog("system")),
    ("ViewQueryOwnedBy", {"user": {"user": "alice"}}),
    ("FilterViewQueryOwnedBy", {"user": {"user": "alice"}}),
    ("ExecuteFunction", function("lower", "builtin", "system")),
    ("FilterFunctions", function("lower", "builtin", "system")),
    ("CreateViewWithExecuteFunction", function("lower", "builtin", "system")),
    *((operation, system("types", "jdbc")) for operation in READINGS),
    *(("SelectFromColumns", system(name, "information_schema")) for name in ("columns", "schemata", "tables", "views")),
    *(("SelectFromColumns", system(name, "metadata")) for name in ("catalogs", "table_comments", "table_properties")),
    ("SelectFromColumns", system("queries", "runtime")),
    *(
        (operation, schema(name, "system"))
        for operation in ("ShowTables", "FilterSchemas")
        for name in ("jdbc", "information_schema", "metadata", "runtime")
    ),
]

OF_ADMINISTRATORS: list[tuple[str, Any]] = [
    ("ViewQueryOwnedBy", {"user": {"user": "bob"}}),
    ("FilterViewQueryOwnedBy", {"user": {"user": "bob"}}),
    ("SelectFromColumns", system("nodes", "runtime")),
    ("SelectFromColumns", system("roles", "information_schema")),
    ("SelectFromColumns", system("materialized_views", "metadata")),
    ("ExecuteProcedure", function("kill_query", "runtime", "system")),
    ("ShowTables", schema("unknown", "system")),
    ("InsertIntoTable", system("types", "jdbc")),
]


@pytest.mark.parametrize(("operation", "resource"), EVERYBODYS)
def test_operations_of_every_user(bridge: Opa, fake: FakeBatchCheck, operation: str, resource: Any) -> None:
    assert bridge.decide("trino/allow", question(operation, resource)) is True
    if resource is not None:
        assert bridge.decide("trino/batch", batch(operation, resource, 7, resource)) == [0, 2]
    assert fake.asked == []


@pytest.mark.parametrize(("operation", "resource"), OF_ADMINISTRATORS)
def test_these_are_administrators_alone(bridge: Opa, fake: FakeBatchCheck, operation: str, resource: Any) -> None:
    fake.is_granted = lambda user, operation: True
    assert bridge.decide("trino/allow", question(operation, resource)) is False
    for user in ("root", "operator"):
        assert bridge.decide("trino/allow", question(operation, resource, user=user)) is True
    for user in ("", "Root", "root,", " operator"):
        assert bridge.decide("trino/allow", question(operation, resource, user=user)) is False
    assert fake.asked == []


def test_administrators_of_trino_have_no_rights_in_the_catalog(bridge: Opa, fake: FakeBatchCheck) -> None:
    assert bridge.decide("trino/allow", question("SelectFromColumns", table(), user="root")) is False
    both = question("RenameTable", system("a", "runtime"), table(), user="root")
    assert bridge.decide("trino/allow", both) is False


UNMANAGED: list[tuple[str, Any, Any]] = [
    ("AccessCatalog", catalog("unknown"), None),
    ("SelectFromColumns", table(catalog_name="unknown"), None),
    ("RenameTable", table(catalog_name="unknown"), table("b", catalog_name="unknown")),
    ("ExecuteProcedure", function("anything", "x", "unknown"), None),
]


@pytest.mark.parametrize(("operation", "resource", "target"), UNMANAGED)
def test_catalogs_of_others_are_closed_until_they_are_opened(
    bridge: Opa, opa: StartOpa, fake: FakeBatchCheck, operation: str, resource: Any, target: Any
) -> None:
    asked = question(operation, resource, target)
    assert bridge.decide("trino/allow", asked) is False
    opened = opa(POLICIES, settings_for(fake, TRINO_ALLOW_UNMANAGED_CATALOGS="true"))
    assert opened.decide("trino/allow", asked) is True
    assert opened.decide("trino/batch", batch(operation, resource)) == [0]
    assert fake.asked == []


def test_opening_them_opens_nothing_else(opa: StartOpa, fake: FakeBatchCheck) -> None:
    opened = opa(POLICIES, settings_for(fake, TRINO_ALLOW_UNMANAGED_CATALOGS="true", TRINO_DEMO_CATALOG_NAME="demo"))
    for operation, resource, target in (
        ("CreateCatalog", catalog("unknown"), None),
        ("DropCatalog", catalog("unknown"), None),
        ("SelectFromColumns", system("nodes", "runtime"), None),
        ("RenameTable", table(), table(catalog_name="unknown")),
        ("RenameTable", table(catalog_name="unknown"), table()),
        ("ImpersonateUser", {"user": {"user": "bob"}}, None),
        ("SetSystemSessionProperty", {"systemSessionProperty": {"name": "p"}}, None),
        ("SelectFromColumns", table(), None),
        ("SelectFromColumns", table(catalog_name="demo"), None),  # named without a warehouse
    ):
        assert opened.decide("trino/allow", question(operation, resource, target)) is False


def test_an_unreadable_mapping_does_not_replace_the_catalog(opa: StartOpa, fake: FakeBatchCheck) -> None:
    for broken in (
        '{"lake": "lakehouse"',
        '["lake"]',
        '{"lake": 7}',
        '{"lake": ""}',
        '{"system": "lakehouse"}',
        "null",
    ):
        settings = settings_for(fake, TRINO_ALLOW_UNMANAGED_CATALOGS="true", TRINO_CATALOG_WAREHOUSES=broken)
        opened = opa(POLICIES, settings)
        assert opened.decide("trino/allow", question("SelectFromColumns", table())) is False
        assert opened.decide("trino/batch", batch("SelectFromColumns", table())) == []
    assert fake.batches == []


RULES = """package trino

allow_managed if {
	input.action.operation == "ExecuteProcedure"
	input.action.resource["function"].functionName == "register_table"
}

allow_managed if input.action.resource.schema.schemaName == "schema_discovery"

allow_unmanaged if input.action.operation in {"SetSystemSessionProperty", "FilterTables"}
"""


def test_custom_rules_allow_more_where_they_apply(opa: StartOpa, fake: FakeBatchCheck, tmp_path: Path) -> None:
    (tmp_path / "rules.rego").write_text(RULES)
    bridge = opa(POLICIES, settings_for(fake), str(tmp_path))
    for allowed, operation, resource in (
        (True, "ExecuteProcedure", function("register_table")),
        (False, "ExecuteProcedure", function("unregister_table")),
        (False, "ExecuteProcedure", function("register_table", "system", "unknown")),
        (True, "SetSystemSessionProperty", {"systemSessionProperty": {"name": "p"}}),
        (False, "SetCatalogSessionProperty", {"catalogSessionProperty": {"catalogName": "lake", "propertyName": "p"}}),
        (False, "SelectFromColumns", table()),
    ):
        assert bridge.decide("trino/allow", question(operation, resource)) is allowed
    listed = [schema(), schema("schema_discovery"), schema("schema_discovery", "unknown")]
    assert bridge.decide("trino/batch", batch("FilterSchemas", *listed)) == [1]
    listed = [table(), table(catalog_name="unknown"), system("nodes", "runtime")]
    assert bridge.decide("trino/batch", batch("FilterTables", *listed)) == [1, 2]
