"""Vetoes of change rules as Spark and PyIceberg show them to their users."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import StringType

from tests.parts.server import CatalogServer
from tests.spark.statement_fixtures import Sql, ids
from tests.workers.wait_fixtures import until

CreateRule = Callable[[str, dict[str, Any]], None]


@pytest.fixture
def create_rule(live_catalog: CatalogServer, catalog: Catalog, namespace: str) -> Iterator[CreateRule]:
    """Attach rules to the namespace of the test, which are deleted at its end."""
    address, created = f"{live_catalog.base_url}/management/v1/change-rules", []
    properties = catalog.load_namespace_properties(namespace)

    def create(kind: str, configuration: dict[str, Any]) -> None:
        warehouse_id = live_catalog.warehouse_id
        scope = {"type": "namespace", "id": properties["namespace_id"], "warehouse-id": warehouse_id}
        body = {"scope": scope, "name": "compatible schemas", "kind": kind, "configuration": configuration}
        response = requests.post(address, json=body, timeout=30)
        assert response.status_code == 201, response.text
        created.append(response.json()["id"])

    yield create
    for rule_id in created:
        assert requests.delete(f"{address}/{rule_id}", timeout=30).status_code == 204


@pytest.fixture
def orders(sql: Sql, create_rule: CreateRule) -> None:
    sql("CREATE TABLE ns.orders (id BIGINT, amount DECIMAL(9, 2))")
    sql("INSERT INTO ns.orders VALUES (1, 9.99)")
    create_rule("schema-compatibility", {"mode": "full"})


def count_commits(server: CatalogServer, namespace: str) -> int:
    """Return how many commits to `orders` the log of the server has."""
    path = f"/namespaces/{namespace}/tables/orders"
    logged = [json.loads(line) for line in server.log_path.read_text().splitlines() if path in line]
    return sum(line["message"] == "request" and line["method"] == "POST" for line in logged)


def require_commits(server: CatalogServer, namespace: str, number: int) -> None:
    """Require that the log has this number of commits; a line is written after its response was sent."""
    until(lambda: count_commits(server, namespace) >= number, seconds=10)
    assert count_commits(server, namespace) == number


def reason(namespace: str) -> str:
    return f"Rule 'compatible schemas' rejects the change of table {namespace}.orders: column amount is dropped"


@pytest.mark.parametrize(("retries", "requests_sent"), [(None, 5), (0, 1)])
def test_spark_shows_the_rule_that_stops_a_statement(
    retries: int | None, requests_sent: int, sql: Sql, orders: None, namespace: str, live_catalog: CatalogServer
) -> None:
    """Iceberg's Java library repeats each commit that gets a 409, four times by default."""
    before = count_commits(live_catalog, namespace)
    if retries is not None:
        sql(f"ALTER TABLE ns.orders SET TBLPROPERTIES ('commit.retry.num-retries' = '{retries}')")
        before += 1
        require_commits(live_catalog, namespace, before)
    with pytest.raises(Py4JJavaError) as caught:
        sql("ALTER TABLE ns.orders DROP COLUMN amount")
    shown = caught.value.java_exception.toString()
    assert shown == f"org.apache.iceberg.exceptions.CommitFailedException: Commit failed: {reason(namespace)}"
    require_commits(live_catalog, namespace, before + requests_sent)
    sql("ALTER TABLE ns.orders ADD COLUMN city STRING")
    sql("INSERT INTO ns.orders VALUES (2, 1.50, 'Rome')")
    assert ids(sql, "ns.orders") == [1, 2]


def test_pyiceberg_shows_the_rule_that_stops_an_update(
    catalog: Catalog, orders: None, namespace: str, live_catalog: CatalogServer
) -> None:
    table = catalog.load_table((namespace, "orders"))
    before = count_commits(live_catalog, namespace)
    with pytest.raises(CommitFailedException) as caught, table.update_schema() as update:
        update.delete_column("amount")
    assert str(caught.value) == f"ContractViolation: {reason(namespace)}"
    require_commits(live_catalog, namespace, before + 1)
    with table.update_schema() as update:
        update.add_column("city", StringType())
    assert "city" in catalog.load_table((namespace, "orders")).schema().column_names
