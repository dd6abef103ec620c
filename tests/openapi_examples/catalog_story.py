"""Story: clients of the Iceberg REST catalog create and change the tables and views of a data team."""

from __future__ import annotations

from typing import Any

from tenancy.actor import INTERNAL
from tenancy.services.access_tokens import create_token
from tenancy.services.users import create_service_account
from tests.catalog_fixtures import COMMIT_REPORT, SCAN_REPORT, finishing_updates
from tests.openapi_examples.story import Story

FIRST_SNAPSHOT = 3_055_729_675_574_597_004
ORDERS: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "order_id", "type": "long", "required": True},
        {"id": 2, "name": "customer_id", "type": "long", "required": True},
        {"id": 3, "name": "ordered_at", "type": "timestamptz", "required": True, "doc": "When it was paid"},
        {"id": 4, "name": "amount", "type": "decimal(12, 2)", "required": False},
    ],
}
BY_DAY = {
    "spec-id": 0,
    "fields": [{"field-id": 1000, "source-id": 3, "name": "ordered_at_day", "transform": "day"}],
}
BY_CUSTOMER = {
    "order-id": 1,
    "fields": [{"source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
}
CUSTOMERS = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "customer_id", "type": "long", "required": True},
        {"id": 2, "name": "country", "type": "string", "required": False, "write-default": "DE"},
        {"id": 3, "name": "seen_at", "type": "timestamptz_ns", "required": False},
    ],
}
DAYS = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "day", "type": "date", "required": False},
        {"id": 2, "name": "revenue", "type": "decimal(22, 2)", "required": False},
    ],
}


def play(story: Story) -> None:
    config = story.send("getConfig", {"warehouse": "lakehouse"})
    warehouse = {"prefix": config["defaults"]["prefix"]}
    sales = warehouse | {"namespace": "sales"}
    tokens(story)
    namespaces(story, warehouse, sales)
    new_tables(story, sales)
    commits(story, warehouse, sales)
    reads(story, sales)
    views(story, warehouse, sales)
    moves(story, warehouse, sales)
    drops(story, warehouse, sales)


def tokens(story: Story) -> None:
    account = create_service_account(actor=INTERNAL, name="nightly-load").user_id
    secret = create_token(actor=INTERNAL, user_id=account, name="airflow").text
    scope = "catalog"
    shown = {"grant_type": "client_credentials", "client_id": account, "client_secret": secret, "scope": scope}
    granted = story.send("getToken", body=shown, summary="With a client's id and secret")
    exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
    renewal = {"subject_token": granted["access_token"], "subject_token_type": granted["issued_token_type"]}
    story.send("getToken", body={"grant_type": exchange, **renewal, "scope": scope}, summary="Renew a token")
    story.send("getToken", body=shown | {"client_secret": "a wrong one"}, refused=401)


def namespaces(story: Story, warehouse: dict[str, str], sales: dict[str, str]) -> None:
    properties = {"owner": "analytics", "comment": "What was sold"}
    story.send(
        "createNamespace", warehouse, {"namespace": ["sales"], "properties": properties}, summary="On the first level"
    )
    story.send("createNamespace", warehouse, {"namespace": ["sales", "emea"]}, summary="Below a parent")
    extras = {"returnUuids": True, "returnProtectionStatus": True}
    story.send("listNamespaces", warehouse | extras, summary="On the first level")
    story.send(
        "listNamespaces", warehouse | {"parent": "sales", "pageToken": "", "pageSize": 100}, summary="Below a parent"
    )
    story.send("loadNamespaceMetadata", sales | {"returnUuid": True})
    story.send("namespaceExists", sales)
    change = {"updates": {"owner": "data-platform", "retention": "5 years"}, "removals": ["comment", "contact"]}
    story.send("updateProperties", sales, change)


def new_tables(story: Story, sales: dict[str, str]) -> None:
    properties = {"format-version": "2", "write.format.default": "parquet"}
    orders = {
        "name": "orders",
        "schema": ORDERS,
        "partition-spec": BY_DAY,
        "write-order": BY_CUSTOMER,
        "properties": properties,
    }
    story.send("createTable", sales, orders, summary="With a partition spec and a sort order")
    customers = {"name": "customers", "schema": CUSTOMERS, "properties": {"format-version": "3"}}
    story.send("createTable", sales, customers, summary="In format version 3")
    chosen = f"file://{story.folder}/lakehouse/targets"
    old = {"name": "targets", "location": chosen, "schema": DAYS, "properties": {"format-version": "1"}}
    story.send("createTable", sales, old, summary="In format version 1, at a chosen location")
    staged = {"name": "returns", "schema": DAYS, "stage-create": True}
    metadata = story.send("createTable", sales, staged, summary="Staged, to be created by its first commit")["metadata"]
    story.clock.later(minutes=1)
    commit = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(metadata)}
    story.send("updateTable", sales | {"table": "returns"}, commit, summary="Create a staged table")


def commits(story: Story, warehouse: dict[str, str], sales: dict[str, str]) -> None:
    orders = sales | {"table": "orders"}
    metadata = story.call("GET", "/catalog/v1/{prefix}/namespaces/sales/tables/orders".format(**warehouse))["metadata"]
    same_table = {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}
    story.clock.later(minutes=4)
    append = {
        "identifier": {"namespace": ["sales"], "name": "orders"},
        "requirements": [same_table, {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}],
        "updates": [
            {"action": "add-snapshot", "snapshot": first_snapshot(story, metadata["location"])},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": FIRST_SNAPSHOT},
        ],
    }
    story.send("updateTable", orders, append, summary="Append a snapshot")
    country = {"id": 5, "name": "country", "type": "string", "required": False}
    schema = {**ORDERS, "schema-id": 1, "fields": [*metadata["schemas"][0]["fields"], country]}
    new_column = {
        "requirements": [
            same_table,
            {"type": "assert-current-schema-id", "current-schema-id": 0},
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 4},
        ],
        "updates": [
            {"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "set-properties", "updates": {"comment": "One row for each order"}},
        ],
    }
    story.clock.later(minutes=5)
    story.send("updateTable", orders, new_column, summary="Add a column")
    story.send("updateTable", orders, new_column, refused=409)
    changes = [
        {
            "identifier": {"namespace": ["sales"], "name": name},
            "requirements": [{"type": "assert-current-schema-id", "current-schema-id": schema_id}],
            "updates": [{"action": "set-properties", "updates": {"loaded-by": "nightly-load"}}],
        }
        for name, schema_id in (("orders", 1), ("customers", 0))
    ]
    story.send("commitTransaction", warehouse, {"table-changes": changes})


def first_snapshot(story: Story, location: str) -> dict[str, Any]:
    return {
        "snapshot-id": FIRST_SNAPSHOT,
        "sequence-number": 1,
        "timestamp-ms": int(story.clock.time() * 1000),
        "manifest-list": f"{location}/metadata/snap-{FIRST_SNAPSHOT}-1.avro",
        "summary": {"operation": "append", "added-data-files": "1", "added-records": "1000", "total-records": "1000"},
        "schema-id": 0,
    }


def reads(story: Story, sales: dict[str, str]) -> None:
    orders = sales | {"table": "orders"}
    story.send("listTables", sales | {"returnUuids": True, "returnProtectionStatus": True}, summary="All at once")
    story.send("listTables", sales | {"pageToken": "", "pageSize": 2}, summary="The first page")
    story.send("loadTable", orders | {"snapshots": "refs"})
    story.send("loadTable", sales | {"table": "order"}, refused=404)
    story.send("tableExists", orders)
    story.send("loadCredentials", orders)
    names = [field["name"] for field in ORDERS["fields"]]
    filtered = {"type": "gt-eq", "term": "amount", "value": "(2-digit-int)"}
    about = {"table-name": "lakehouse.sales.orders", "snapshot-id": FIRST_SNAPSHOT}
    projected = {"projected-field-ids": [1, 2, 3, 4], "projected-field-names": names, "filter": filtered}
    story.send("reportMetrics", orders, SCAN_REPORT | about | projected, summary="Of a scan")
    story.send("reportMetrics", orders, COMMIT_REPORT | about | {"sequence-number": 1}, summary="Of a commit")


def views(story: Story, warehouse: dict[str, str], sales: dict[str, str]) -> None:
    at = sales | {"view": "revenue_by_day"}
    sql = "SELECT CAST(ordered_at AS DATE) AS day, SUM(amount) AS revenue FROM sales.orders GROUP BY 1"
    first = version(story, 1, sql, "spark", "trino")
    new = {"name": at["view"], "schema": DAYS, "view-version": first, "properties": {"comment": "For the dashboard"}}
    created = story.send("createView", sales, new)
    story.clock.later(hours=1)
    second = version(story, 2, sql.replace("FROM sales.orders", "FROM sales.orders WHERE amount > 0"), "spark", "trino")
    change = {
        "requirements": [{"type": "assert-view-uuid", "uuid": created["metadata"]["view-uuid"]}],
        "updates": [
            {"action": "add-view-version", "view-version": second},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    }
    story.send("replaceView", at, change)
    story.send("listViews", sales | {"returnUuids": True, "returnProtectionStatus": True})
    story.send("loadView", at)
    story.send("viewExists", at)
    renamed = {"namespace": ["sales", "emea"], "name": "daily_revenue"}
    move = {"source": {"namespace": ["sales"], "name": at["view"]}, "destination": renamed}
    story.send("renameView", warehouse, move)
    dropped = warehouse | {"namespace": "sales\x1femea", "view": "daily_revenue"}
    file = story.call("GET", "/catalog/v1/{prefix}/namespaces/sales%1Femea/views/daily_revenue".format(**dropped))
    story.send("dropView", dropped)
    story.send("registerView", sales, {"name": at["view"], "metadata-location": file["metadata-location"]})


def version(story: Story, number: int, sql: str, *dialects: str) -> dict[str, Any]:
    return {
        "version-id": number,
        "timestamp-ms": int(story.clock.time() * 1000),
        "schema-id": 0,
        "summary": {"engine-name": "spark", "engine-version": "4.0.1"},
        "default-catalog": "lakehouse",
        "default-namespace": ["sales"],
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect} for dialect in dialects],
    }


def moves(story: Story, warehouse: dict[str, str], sales: dict[str, str]) -> None:
    source = {"namespace": ["sales"], "name": "returns"}
    destination = {"namespace": ["sales", "emea"], "name": "returned_orders"}
    story.send("renameTable", warehouse, {"source": source, "destination": destination})
    handed_out = story.send("unregisterTable", sales | {"table": "targets"})
    body = {"name": "targets", "metadata-location": handed_out["metadata-location"], "overwrite": False}
    story.send("registerTable", sales, body)


def drops(story: Story, warehouse: dict[str, str], sales: dict[str, str]) -> None:
    story.send("dropNamespace", sales, refused=409)
    story.send("dropTable", sales | {"table": "customers", "purgeRequested": True})
    emea = warehouse | {"namespace": "sales\x1femea"}
    story.send("dropNamespace", emea | {"recursive": True, "purge": True})
