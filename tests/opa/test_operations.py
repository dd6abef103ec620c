"""The checks for each operation of Trino, and the decision for each response."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest

from tests.opa.fake_batch_check import FakeBatchCheck, Operation
from tests.opa.opa_request_fixtures import (
    OTHER,
    batch,
    catalog,
    function,
    in_order,
    of_namespace,
    of_table,
    of_view,
    of_warehouse,
    question,
    schema,
    table,
)
from tests.parts.opa import Opa

pytestmark = pytest.mark.part("opa")

Demands = Sequence[Sequence[Operation]]
"""Of each inner one some operation must be granted."""

SEEN = [[of_table("get_metadata"), of_view("get_metadata")]]
READ = [[of_table("read_data"), of_view("select")]]
WRITTEN = [[of_table("write_data")]]
CONFIG = [[of_warehouse("get_config")]]
COLUMNS = table(columns=["id", "amount"])
TEXTS = {"owner": "ann", "location": "s3://bucket/a b"}
METADATA_OF_ORDERS = [[of_table("get_metadata")]]
DATA_OF_ORDERS = [[of_table("read_data")]]

REPLACING = {"CreateMaterializedView", "CreateTable", "CreateView"}

ROWS: list[tuple[str, Any, Any, Demands]] = [
    ("AccessCatalog", catalog(), None, CONFIG),
    ("AccessCatalog", catalog("other"), None, [[of_warehouse("get_config", OTHER)]]),
    ("CreateCatalog", catalog(), None, [[of_warehouse("delete")]]),
    ("DropCatalog", catalog(), None, [[of_warehouse("delete")]]),
    ("ShowSchemas", catalog(), None, [[of_warehouse("list_namespaces")]]),
    ("CreateSchema", schema(), None, [[of_warehouse("create_namespace")]]),
    ("CreateSchema", schema(properties={}), None, [[of_warehouse("create_namespace")]]),
    (
        "CreateSchema", schema(properties={**TEXTS, "retries": 3, "nothing": None}), None,
        [[of_warehouse("create_namespace", properties=TEXTS)]],
    ),
    ("CreateSchema", schema("a.b.c"), None, [[of_namespace("create_namespace", "a", "b")]]),
    (
        "CreateSchema", schema("a.b", properties=TEXTS), None,
        [[of_namespace("create_namespace", "a", properties=TEXTS)]],
    ),
    ("DropSchema", schema(), None, [[of_namespace("delete")]]),
    ("ShowCreateSchema", schema(), None, [[of_namespace("get_metadata")]]),
    ("ShowTables", schema("a.b"), None, [[of_namespace("get_metadata", "a", "b")]]),
    ("CreateTable", table(properties={"format": "ORC"}), None, [[of_namespace("create_table")]]),
    ("CreateView", table(), None, [[of_namespace("create_view")]]),
    ("CreateMaterializedView", table(), None, [[of_namespace("create_view")]]),
    ("DropTable", table(), None, [[of_table("drop")]]),
    ("DropView", table(), None, [[of_view("drop")]]),
    (
        "RenameTable", table(), table("orders2", "a.b"),
        [[of_table("rename")], [of_namespace("create_table", "a", "b")]],
    ),
    ("RenameTable", table(), table("orders2"), [[of_table("rename")], [of_namespace("create_table")]]),
    ("RenameView", table(), table("v2"), [[of_view("rename")], [of_namespace("create_view")]]),
    ("InsertIntoTable", table(), None, WRITTEN),
    ("DeleteFromTable", table(), None, WRITTEN),
    ("TruncateTable", table(), None, WRITTEN),
    ("UpdateTableColumns", COLUMNS, None, WRITTEN),
    ("AddColumn", table(), None, WRITTEN),
    ("AlterColumn", table(), None, WRITTEN),
    ("DropColumn", table(), None, WRITTEN),
    ("RenameColumn", table(), None, WRITTEN),
    ("SetTableComment", table(), None, WRITTEN),
    ("SetTableProperties", table(properties={"format_version": 2}), None, [[of_table("commit")]]),
    ("SetViewComment", table(), None, [[of_view("commit")]]),
    ("SetColumnComment", table(), None, [[of_table("write_data"), of_view("commit")]]),
    *(
        ("ExecuteTableProcedure", {**table(), "function": {"functionName": name}}, None, WRITTEN)
        for name in (
            "add_files", "drop_extended_stats", "expire_snapshots", "optimize", "optimize_manifests",
            "remove_orphan_files",
        )
    ),
    ("ExecuteTableProcedure", {**table(), "function": {"name": "optimize"}}, None, WRITTEN),
    *(
        ("ExecuteTableProcedure", {**table(), "function": {"functionName": name}}, None, WRITTEN)
        for name in ("OPTIMIZE", "Expire_Snapshots")  # Trino keeps the case of the statement
    ),
    ("ShowColumns", table(), None, SEEN),
    ("ShowCreateTable", table(), None, SEEN),
    ("FilterTables", table(), None, SEEN),
    ("FilterColumns", COLUMNS, None, SEEN),
    ("FilterSchemas", schema(), None, [[of_namespace("get_metadata")]]),
    ("FilterCatalogs", catalog(), None, CONFIG),
    ("SelectFromColumns", COLUMNS, None, READ),
    ("SelectFromColumns", table(columns=[]), None, READ),
    ("CreateViewWithSelectFromColumns", COLUMNS, None, READ),
    *(
        (operation, table(f"orders${kind}"), None, METADATA_OF_ORDERS)
        for operation in ("SelectFromColumns", "CreateViewWithSelectFromColumns")
        for kind in ("history", "metadata_log_entries", "properties", "refs", "snapshots")
    ),
    *(
        (operation, table(f"orders${kind}"), None, DATA_OF_ORDERS)
        for operation in ("SelectFromColumns", "CreateViewWithSelectFromColumns")
        for kind in ("all_entries", "all_manifests", "entries", "files", "manifests", "partitions")
    ),
    *(
        (operation, table("orders$files"), None, METADATA_OF_ORDERS)
        for operation in ("ShowColumns", "ShowCreateTable", "FilterTables", "FilterColumns")
    ),
    *(
        (operation, table(name, schema_name), None, CONFIG)
        for operation in ("SelectFromColumns", "ShowColumns", "FilterTables", "FilterColumns")
        for name, schema_name in (("columns", "information_schema"), ("iceberg_tables", "system"))
    ),
    ("SelectFromColumns", table("columns$files", "information_schema"), None, CONFIG),
    ("FilterSchemas", schema("information_schema"), None, CONFIG),
    ("ShowTables", schema("information_schema"), None, CONFIG),
]  # fmt: skip


def _name(row: Any) -> str | None:
    return row if isinstance(row, str) else None


@pytest.mark.parametrize(("operation", "resource", "target", "demands"), ROWS, ids=_name)
def test_each_operation_asks_for_exactly_these_rights_and_needs_one_of_each_kind(
    bridge: Opa, fake: FakeBatchCheck, operation: str, resource: Any, target: Any, demands: Demands
) -> None:
    asked = question(operation, resource, target)
    assert bridge.decide("trino/allow", asked) is False
    every_operation = list(chain(*demands))
    assert in_order(fake.operations) == in_order(every_operation)
    assert {check["identity"]["user"] for check in fake.batches[0].checks} == {"oidc~alice"}

    firsts = [alternatives[0] for alternatives in demands]
    for i, alternatives in enumerate(demands):
        for alternative in alternatives:
            fake.grant(*firsts[:i], alternative, *firsts[i + 1 :])
            assert bridge.decide("trino/allow", asked) is True
        fake.is_granted = lambda _, each, refused=alternatives: each not in refused
        assert bridge.decide("trino/allow", asked) is False

    fake.grant(*every_operation, user="oidc~bob")
    assert bridge.decide("trino/allow", asked) is False


@pytest.mark.parametrize(
    ("operation", "resource", "target", "demands"),
    [row for row in ROWS if row[2] is None and row[0] not in REPLACING],  # those: test_replacement.py
    ids=_name,
)
def test_a_batch_asks_the_same_about_each_piece(
    bridge: Opa, fake: FakeBatchCheck, operation: str, resource: Any, target: Any, demands: Demands
) -> None:
    strange = {"nothing": {"that": "is known"}}
    fake.grant(*chain(*demands))
    assert bridge.decide("trino/batch", batch("Unknown" + operation, resource)) == []
    assert fake.operations == []
    expected = [0, 1] if operation == "FilterColumns" and "columns" in resource["table"] else [0]
    assert bridge.decide("trino/batch", batch(operation, resource)) == expected
    assert in_order(fake.operations) == in_order(chain(*demands))
    assert bridge.decide("trino/batch", batch(operation, strange, resource, strange)) == [1]


CLOSED = [
    ("RenameSchema", schema(), schema("sales2")),
    ("SetSchemaAuthorization", schema(), None),
    ("SetTableAuthorization", table(), None),
    ("SetViewAuthorization", table(), None),
    ("DropMaterializedView", table(), None),
    ("RefreshMaterializedView", table(), None),
    ("RenameMaterializedView", table(), table("m2")),
    ("SetMaterializedViewProperties", table(), None),
    ("ExecuteProcedure", function("register_table"), None),
    ("ExecuteFunction", function("table_changes"), None),
    ("CreateFunction", function("f", "sales"), None),
    ("ExecuteTableProcedure", {**table(), "function": {"functionName": "rollback_to_snapshot"}}, None),
    ("ExecuteTableProcedure", {**table(), "function": {"functionName": "ROLLBACK_TO_SNAPSHOT"}}, None),
    ("ExecuteTableProcedure", table(), None),
    ("SetCatalogSessionProperty", {"catalogSessionProperty": {"catalogName": "lake", "propertyName": "p"}}, None),
    ("SetSystemSessionProperty", {"systemSessionProperty": {"name": "p"}}, None),
    ("ImpersonateUser", {"user": {"user": "bob"}}, None),
    ("KillQueryOwnedBy", {"user": {"user": "bob"}}, None),
    ("WriteSystemInformation", None, None),
    ("CreateRole", {"role": {"name": "admin"}}, None),
    ("GetRowFilters", table(), None),
    ("GetColumnMask", {"column": table(columnName="c")["table"]}, None),
    ("DropTable", table("columns", "information_schema", "unknown"), None),
    ("DropSchema", schema("information_schema"), None),
    ("CreateSchema", schema("information_schema"), None),
    ("RenameTable", table(), None),
    ("RenameTable", table(), table(catalog_name="unknown")),
    ("selectFromColumns", table(), None),
    ("", table(), None),
    ("SelectFromColumns", None, None),
    ("SelectFromColumns", catalog(), None),
    ("SelectFromColumns", schema(), None),
    ("AccessCatalog", table(), None),
    ("AccessCatalog", catalog("unknown"), None),
    ("AccessCatalog", catalog("LAKE"), None),
    ("SelectFromColumns", table(catalog_name="unknown"), None),
    ("CreateCatalog", catalog("unknown"), None),
    ("ShowTables", schema(catalog_name="unknown"), None),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "resource", "target"), CLOSED, ids=_name)
@pytest.mark.parametrize("user", ["alice", "root"])
def test_unknown_operations_are_denied_for_every_user_whatever_the_catalog_allows(
    bridge: Opa, fake: FakeBatchCheck, operation: str, resource: Any, target: Any, user: str
) -> None:
    fake.is_granted = lambda user, operation: True
    assert bridge.decide("trino/allow", question(operation, resource, target, user=user)) is False
    assert bridge.decide("trino/batch", batch(operation, resource, resource, user=user)) == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"action": {}},
        {"action": {"operation": "ExecuteQuery"}},
        {"context": {"identity": {}}, "action": {"operation": "ExecuteQuery"}},
        {"context": {"identity": {"user": ""}}, "action": {"operation": "ExecuteQuery"}},
        {"context": {"identity": {"user": ""}}, "action": {"operation": "AccessCatalog", "resource": catalog()}},
        {"context": {"identity": {"user": 7}}, "action": {"operation": "AccessCatalog", "resource": catalog()}},
        {"context": {"identity": {"user": "alice"}}, "action": {"operation": "AccessCatalog", "resource": []}},
        {"context": {"identity": {"user": "alice"}}, "action": {"operation": "AccessCatalog", "resource": "lake"}},
    ],
)
def test_questions_that_are_not_trinos_are_denied(bridge: Opa, fake: FakeBatchCheck, given: Any) -> None:
    fake.is_granted = lambda user, operation: True
    assert bridge.decide("trino/allow", given) is False
    assert bridge.decide("trino/batch", given) == []
