"""Views in Spark, and the same views in PyIceberg."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
from py4j.protocol import Py4JJavaError
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.parts.server import CatalogServer
from tests.spark.statement_fixtures import Sql, one, rows

Load = Callable[..., dict[str, Any]]


@pytest.fixture
def users(sql: Sql) -> Sql:
    """A table of three rows and the view `ns.adults` on two of them."""
    sql("CREATE TABLE ns.residents (id INT, name STRING, age INT)")
    sql("INSERT INTO ns.residents VALUES (1, 'Ada', 36), (2, 'Bob', 7), (3, 'Cyd', 70)")
    sql("CREATE VIEW ns.adults AS SELECT id, name, age FROM ns.residents WHERE age >= 18")
    return sql


@pytest.fixture
def responded(live_catalog: CatalogServer, namespace: str) -> Load:
    """Return the catalog's response to loading a view of the namespace."""

    def load(name: str) -> dict[str, Any]:
        path = f"{live_catalog.uri}/v1/{live_catalog.warehouse_id}/namespaces/{namespace}/views/{name}"
        response = requests.get(path, timeout=30)
        assert response.status_code == 200, response.text
        result: dict[str, Any] = response.json()
        return result

    return load


@pytest.fixture
def stored(responded: Load) -> Load:
    """Return the metadata of a view."""
    return lambda name="adults": responded(name)["metadata"]


def listed(catalog: Catalog, namespace: str) -> tuple[list[str], list[str]]:
    """Return the names of tables and of views, as PyIceberg lists them."""
    tables, views = catalog.list_tables(namespace), catalog.list_views(namespace)
    return sorted(name[-1] for name in tables), sorted(name[-1] for name in views)


def test_create_and_read(users: Sql, catalog: Catalog, namespace: str, stored: Load) -> None:
    assert rows(users, "SELECT * FROM ns.adults") == [(1, "Ada", 36), (3, "Cyd", 70)]
    assert listed(catalog, namespace) == (["residents"], ["adults"])
    assert catalog.view_exists((namespace, "adults"))
    assert not catalog.table_exists((namespace, "adults"))
    metadata = stored()
    (version,) = metadata["versions"]
    assert (metadata["format-version"], metadata["current-version-id"], version["schema-id"]) == (1, 1, 0)
    (representation,) = version["representations"]
    assert (representation["type"], representation["dialect"]) == ("sql", "spark")
    assert representation["sql"] == f"SELECT id, name, age FROM {namespace}.residents WHERE age >= 18"
    assert [field["name"] for field in metadata["schemas"][0]["fields"]] == ["id", "name", "age"]
    users("INSERT INTO ns.residents VALUES (4, 'Dan', 18)")
    assert len(users("SELECT * FROM ns.adults")) == 3


def test_create_with_every_clause(users: Sql, stored: Load) -> None:
    users("""
        CREATE VIEW ns.names (number COMMENT 'the key', label) COMMENT 'who is there'
        TBLPROPERTIES ('team' = 'hr', 'ü' = 'ö') AS SELECT id, upper(name) FROM ns.residents""")
    assert rows(users, "SELECT label, number FROM ns.names WHERE number < 3") == [("ADA", 1), ("BOB", 2)]
    metadata = stored("names")
    assert metadata["properties"].items() >= {"team": "hr", "ü": "ö", "comment": "who is there"}.items()
    first = metadata["schemas"][0]["fields"][0]
    assert (first["name"], first["doc"]) == ("number", "the key")
    assert [row[0] for row in users("DESCRIBE ns.names")][:2] == ["number", "label"]
    created = one(users("SHOW CREATE TABLE ns.names"))[0]
    assert "COMMENT 'who is there'" in created
    assert "upper(name)" in created
    assert {row.key: row.value for row in users("SHOW TBLPROPERTIES ns.names")}["team"] == "hr"


def test_create_where_something_is(users: Sql, stored: Load) -> None:
    before = stored()
    for name in ("adults", "residents"):
        with pytest.raises((AnalysisException, Py4JJavaError), match=r"(?i)already.exists"):
            users(f"CREATE VIEW ns.{name} AS SELECT 1 AS a")
    users("CREATE VIEW IF NOT EXISTS ns.adults AS SELECT 1 AS a")
    with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)already.exists"):
        users("CREATE TABLE ns.adults (id INT)")
    with pytest.raises((PySparkException, Py4JJavaError)):
        users("CREATE OR REPLACE VIEW ns.residents AS SELECT 1 AS a")
    assert stored() == before
    assert len(users("SELECT * FROM ns.residents")) == 3


def test_replace_keeps_identity_and_versions(users: Sql, stored: Load) -> None:
    first = stored()
    users("CREATE OR REPLACE VIEW ns.adults AS SELECT name FROM ns.residents WHERE age > 60")
    second = stored()
    assert rows(users, "SELECT * FROM ns.adults") == [("Cyd",)]
    assert second["view-uuid"] == first["view-uuid"]
    assert second["current-version-id"] == 2
    assert [version["version-id"] for version in second["versions"]] == [1, 2]
    assert [entry["version-id"] for entry in second["version-log"]] == [1, 2]
    users("CREATE OR REPLACE VIEW ns.other AS SELECT 1 AS one")
    assert rows(users, "SELECT * FROM ns.other") == [(1,)]
    assert stored("other")["current-version-id"] == 1


def test_properties_are_set_and_unset(users: Sql, stored: Load) -> None:
    users("ALTER VIEW ns.adults SET TBLPROPERTIES ('a.b' = 'x=y', 'comment' = 'grown up')")
    assert stored()["properties"].items() >= {"a.b": "x=y", "comment": "grown up"}.items()
    users("ALTER VIEW ns.adults UNSET TBLPROPERTIES ('a.b')")
    assert "a.b" not in stored()["properties"]
    users("ALTER VIEW ns.adults UNSET TBLPROPERTIES IF EXISTS ('a.b')")
    with pytest.raises(AnalysisException, match=r"a\.b"):
        users("ALTER VIEW ns.adults UNSET TBLPROPERTIES ('a.b')")
    assert stored()["current-version-id"] == 1


def test_the_query_is_not_changed_in_place(users: Sql, stored: Load) -> None:
    before = stored()
    with pytest.raises(PySparkException, match="CREATE OR REPLACE VIEW"):
        users("ALTER VIEW ns.adults AS SELECT 1 AS a")
    assert stored() == before


def test_rename_within_and_across_namespaces(users: Sql, catalog: Catalog, namespace: str) -> None:
    users("ALTER VIEW ns.adults RENAME TO ns.grown")
    assert len(users("SELECT * FROM ns.grown")) == 2
    users("CREATE NAMESPACE ns.attic")
    users("ALTER VIEW ns.grown RENAME TO ns.attic.old")
    assert len(users("SELECT * FROM ns.attic.old")) == 2
    assert listed(catalog, namespace) == (["residents"], [])
    users("CREATE VIEW ns.adults AS SELECT 1 AS a")
    with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)already.exists"):
        users("ALTER VIEW ns.attic.old RENAME TO ns.adults")
    with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)already.exists"):
        users("ALTER VIEW ns.attic.old RENAME TO ns.residents")
    with pytest.raises((PySparkException, Py4JJavaError)):
        users("ALTER VIEW ns.nothing RENAME TO ns.something")
    assert rows(users, "SELECT * FROM ns.adults") == [(1,)]
    users("DROP VIEW ns.attic.old")


def test_show_views(users: Sql, namespace: str) -> None:
    users("CREATE VIEW ns.children AS SELECT * FROM ns.residents WHERE age < 18")
    found = users("SHOW VIEWS IN ns")
    assert sorted((row.namespace, row.viewName) for row in found if not row.isTemporary) == [
        (namespace, "adults"),
        (namespace, "children"),
    ]
    assert [row.viewName for row in users("SHOW VIEWS IN ns LIKE 'ad*'")] == ["adults"]
    assert [row.tableName for row in users("SHOW TABLES IN ns")] == ["residents"]


def test_drop(users: Sql, catalog: Catalog, namespace: str) -> None:
    with pytest.raises(Py4JJavaError, match="not empty"):
        users("DROP NAMESPACE ns")
    with pytest.raises((PySparkException, Py4JJavaError)):
        users("DROP TABLE ns.adults")
    with pytest.raises((PySparkException, Py4JJavaError)):
        users("DROP VIEW ns.residents")
    assert listed(catalog, namespace) == (["residents"], ["adults"])
    users("DROP VIEW ns.adults")
    users("DROP VIEW IF EXISTS ns.adults")
    with pytest.raises(AnalysisException, match="VIEW_NOT_FOUND"):
        users("DROP VIEW ns.adults")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        users("SELECT * FROM ns.adults")
    assert len(users("SELECT * FROM ns.residents")) == 3


def test_a_view_is_read_from_anywhere(users: Sql, live_spark: SparkSession, namespace: str) -> None:
    users("USE live.ns")
    try:
        users("CREATE VIEW short AS SELECT name FROM residents WHERE id = 1")
    finally:
        users("USE live")
    live_spark.sql("USE spark_catalog.default")
    try:
        assert live_spark.sql(f"SELECT * FROM live.{namespace}.short").collect()[0][0] == "Ada"
    finally:
        live_spark.sql("USE live")


def test_views_of_views_and_of_the_past(users: Sql, namespace: str) -> None:
    first = users("SELECT snapshot_id FROM ns.residents.snapshots")[0][0]
    users("INSERT INTO ns.residents VALUES (9, 'Eve', 90)")
    users("CREATE VIEW ns.elders AS SELECT name FROM ns.adults WHERE age > 60")
    users(f"CREATE VIEW ns.before AS SELECT name FROM ns.residents VERSION AS OF {first} WHERE age > 60")
    users("CREATE VIEW ns.totals AS WITH a AS (SELECT age FROM ns.adults) SELECT count(*) AS n, sum(age) AS s FROM a")
    assert rows(users, "SELECT * FROM ns.elders") == [("Cyd",), ("Eve",)]
    assert rows(users, "SELECT * FROM ns.before") == [("Cyd",)]
    assert rows(users, "SELECT * FROM ns.totals") == [(3, 196)]
    users("ALTER TABLE ns.residents RENAME TO ns.citizens")
    with pytest.raises(AnalysisException, match=f"{namespace}.*residents|residents.*cannot be found"):
        users("SELECT * FROM ns.elders")


def test_names_that_need_quotes(users: Sql, catalog: Catalog, namespace: str) -> None:
    names = ("two words", "dot.ted", "Größe 表", "a+b", "50%", "a/b")
    for name in names:
        users(f"CREATE VIEW ns.`{name}` AS SELECT id AS `a b` FROM ns.residents WHERE id = 1")
        assert rows(users, f"SELECT `a b` FROM ns.`{name}`") == [(1,)]
        assert catalog.view_exists((namespace, name))
    assert listed(catalog, namespace)[1] == sorted([*names, "adults"])
    for name in names:
        catalog.drop_view((namespace, name))
    with pytest.raises(exceptions.NoSuchViewError):
        catalog.drop_view((namespace, "two words"))
    assert listed(catalog, namespace) == (["residents"], ["adults"])


def test_a_dropped_view_is_registered_again(
    users: Sql, catalog: Catalog, namespace: str, stored: Load, responded: Load
) -> None:
    users("ALTER VIEW ns.adults SET TBLPROPERTIES ('gc.enabled' = 'false')")  # so that its file outlives it
    before, location = stored(), responded("adults")["metadata-location"]
    with pytest.raises(exceptions.ViewAlreadyExistsError):
        catalog.register_view((namespace, "adults"), location)
    users("DROP VIEW ns.adults")
    catalog.register_view((namespace, "again"), location)
    assert stored("again") == before
    assert rows(users, "SELECT id FROM ns.again") == [(1,), (3,)]


def test_spark_reads_a_view_of_pyiceberg(users: Sql, catalog: Catalog, namespace: str) -> None:
    schema = Schema(NestedField(1, "name", StringType(), required=False))
    statement = SQLViewRepresentation(type="sql", sql="SELECT name FROM residents WHERE age < 18", dialect="spark")
    version = ViewVersion(
        version_id=1, schema_id=0, timestamp_ms=1_700_000_000_000, summary={"engine": "pyiceberg"},
        representations=[statement], default_catalog="live", default_namespace=[namespace],
    )  # fmt: skip
    catalog.create_view((namespace, "children"), schema, version, properties={"team": "hr"})
    assert rows(users, "SELECT * FROM ns.children") == [("Bob",)]
    assert {row.key: row.value for row in users("SHOW TBLPROPERTIES ns.children")}["team"] == "hr"
    with pytest.raises(exceptions.ViewAlreadyExistsError):
        catalog.create_view((namespace, "children"), schema, version)
