"""Two teams on one server: set up over HTTP with the commands of `docs/authorization.md`, then verified through
engines of each team. The commands of the page create the projects, roles and grants, so the page stays correct. After
a change of its output, `UPDATE_WALKTHROUGH=1` rewrites the output on the page.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from py4j.protocol import Py4JJavaError
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from tasks.spark.readback import connect_pyiceberg
from tasks.spark.session import rest_catalog
from tests.harness.page_transcripts import Command, Transcripts, alike, blocks_of, commands_of, rewritten, section_of
from tests.harness.run_environment import RunEnvironment
from tests.identity_fixtures import provider_settings
from tests.parts.keycloak import Keycloak
from tests.parts.minio import Minio
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.part("shell")

PAGE = Path(__file__).parents[2] / "docs" / "authorization.md"
HEADING = "## From a new server to two teams"
BUCKET = "lake"
WAREHOUSES = {"orders": "sales", "lab": "research"}
"""With the project of each."""

FORBIDDEN = "ForbiddenException: Forbidden: "


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment, keycloak: Keycloak
) -> Iterator[CatalogServer]:
    """A migrated, started server with authorization, and nothing else."""
    settings = {"LAKEKEEPER__PG_ENCRYPTION_KEY": "k" * 40, "LAKEKEEPER__AUTHZ_BACKEND": "builtin"}
    running = CatalogServer(
        tmp_path_factory.mktemp("teams"),
        database_url=run_environment.own_database("two_teams"),
        settings=provider_settings(keycloak) | settings,
    )
    try:
        yield running.migrate().start()
    finally:
        running.stop()


@dataclass(frozen=True)
class Teams:
    """The result of the page. `run` uses its shell, whose variables contain the ids."""

    server: CatalogServer
    keycloak: Keycloak
    run: Transcripts
    on_page: Sequence[Command]

    def location(self, path: str) -> str:
        """Return the path with the ids of the shell's variables."""
        return "".join(self.run.shell(f'echo "{path}"'))

    def ask(self, user: str, method: str, path: str, body: Any = None, *, project: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.keycloak.sign_in(user)}", "x-project-id": project}
        address = f"{self.server.base_url}/management/v1/{self.location(path)}"
        return requests.request(method, address, json=body, headers=headers, timeout=30)

    def change(self, user: str, path: str, **grants: Sequence[tuple[str, str]]) -> int:
        """Change grants, each a privilege and a variable with a user's id; return the status."""
        body = {
            name: [{"privilege": privilege, "principal": {"user": self.run.value(who)}} for privilege, who in entries]
            for name, entries in grants.items()
        }
        return self.ask(user, "POST", f"{path}/grants", body, project="sales").status_code

    def granted(self, user: str, path: str, *, project: str) -> list[tuple[str, str]]:
        """Return privilege and user or role of each grant."""
        response = self.ask(user, "GET", f"{path}/grants", project=project)
        assert response.status_code == 200, response.text
        return [(each["privilege"], *each["principal"].values()) for each in response.json()["grants"]]

    def through_pyiceberg(self, user: str, warehouse: str) -> Catalog:
        name = f"{WAREHOUSES[warehouse]}/{warehouse}"
        return connect_pyiceberg(uri=self.server.uri, warehouse=name, token=self.keycloak.sign_in(user))


@pytest.fixture(scope="module")
def teams(
    server: CatalogServer,
    keycloak: Keycloak,
    minio: Minio,
    s3_spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Teams]:
    """Run every command of the page. In SQL, `ana_lab` is the warehouse `lab` with Ana's token, and so on."""
    minio.create_bucket(BUCKET)
    instead = {
        "http://127.0.0.1:8181": server.base_url,
        "http://127.0.0.1:8080": keycloak.base_url,
        "http://127.0.0.1:9000": minio.endpoint.removesuffix("/"),
    }
    home = tmp_path_factory.mktemp("shell")
    on_page: list[Command] = []
    with Transcripts(instead=instead, names={"spark": s3_spark}, home=home) as run, pytest.MonkeyPatch.context() as own:
        for kind, content in blocks_of(section_of(PAGE.read_text(), HEADING)):
            on_page += commands_of(content) if kind == "console" else []
            run.run(kind, content)
            for name in ("ANA", "BEN"):
                own.setenv(name, run.value(name))
        for user in ("ana", "ben"):
            token = keycloak.sign_in(user)
            for warehouse, project in WAREHOUSES.items():
                name = f"{user}_{warehouse}"
                usual = rest_catalog(name, uri=server.uri, warehouse=f"{project}/{warehouse}", token=token)
                for key, value in usual.items():
                    s3_spark.conf.set(key, value)
        yield Teams(server, keycloak, run, on_page)


def rows_of(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def done(spark: SparkSession, statement: str) -> list[Row]:
    return list(spark.sql(statement).collect())


def test_the_page_shows_the_response(teams: Teams) -> None:
    if os.environ.get("UPDATE_WALKTHROUGH") == "1":
        page = PAGE.read_text()
        PAGE.write_text(rewritten(page, section_of(page, HEADING), teams.run.said))
    else:
        assert alike(teams.run.said) == alike(teams.on_page)


def test_spark_lists_what_each_may_see(teams: Teams, s3_spark: SparkSession) -> None:
    seen = {
        catalog: {row[0] for row in done(s3_spark, f"SHOW NAMESPACES IN {catalog}")}
        for catalog in ("ana_orders", "ben_orders", "ana_lab", "ben_lab")
    }
    assert seen == {
        "ana_orders": {"finance", "shop"},
        "ben_orders": {"shop"},
        "ana_lab": {"papers"},
        "ben_lab": {"genes", "papers"},
    }
    assert [row.tableName for row in done(s3_spark, "SHOW TABLES IN ana_orders.finance")] == ["ledger"]
    for hidden in ("ben_orders.finance", "ana_lab.genes"):
        with pytest.raises(Py4JJavaError, match="NoSuchNamespaceException: Namespace does not exist"):
            done(s3_spark, f"SHOW TABLES IN {hidden}")


def test_spark_reads_with_both_and_writes_with_one(teams: Teams, s3_spark: SparkSession, minio: Minio) -> None:
    done(s3_spark, "CREATE TABLE ben_lab.papers.read (id BIGINT)")
    done(s3_spark, "INSERT INTO ben_lab.papers.read VALUES (1), (2)")
    of_ben = teams.through_pyiceberg("ben", "lab")
    before, files = of_ben.load_table("papers.read").metadata_location, minio.keys(BUCKET)
    assert rows_of(s3_spark, "SELECT id FROM ana_lab.papers.read ORDER BY id") == [(1,), (2,)]
    for statement in (
        "ALTER TABLE ana_lab.papers.read ADD COLUMN more STRING",
        "DROP TABLE ana_lab.papers.read",
        "CREATE TABLE ana_lab.papers.more (id BIGINT)",
        "CREATE NAMESPACE ana_lab.more",
        "ALTER TABLE ana_orders.finance.ledger ADD COLUMN more STRING",
    ):
        with pytest.raises(Py4JJavaError, match=FORBIDDEN):
            done(s3_spark, statement)
    for statement in (  # statements that begin with a file, which the store denies
        "DELETE FROM ana_lab.papers.read",
        "INSERT INTO ana_lab.papers.read VALUES (3)",
        "INSERT INTO ana_orders.finance.ledger VALUES (3)",
    ):
        with pytest.raises(Py4JJavaError, match=r"Access Denied.*Status Code: 403"):
            done(s3_spark, statement)
    assert of_ben.load_table("papers.read").metadata_location == before
    assert of_ben.list_tables("papers") == [("papers", "read")]
    assert minio.keys(BUCKET) == files


def test_a_table_is_owned_by_its_creator(teams: Teams, s3_spark: SparkSession) -> None:
    done(s3_spark, "CREATE TABLE ana_orders.shop.hers (id BIGINT)")
    table = teams.through_pyiceberg("ana", "orders").load_table("shop.hers").metadata.table_uuid
    location = f"warehouse/$orders/table/{table}"
    assert teams.granted("ana", location, project="sales") == [("ownership", teams.run.value("ana"))]
    assert teams.ask("ben", "GET", f"{location}/grants", project="sales").status_code == 403
    assert teams.change("ben", location, writes=[("modify", "ben")]) == 403
    assert teams.granted("ana", location, project="sales") == [("ownership", teams.run.value("ana"))]
    done(s3_spark, "DROP TABLE ana_orders.shop.hers")


def test_a_running_session_feels_a_grant_and_its_end_at_the_next_statement(
    teams: Teams, s3_spark: SparkSession
) -> None:
    ledger = teams.through_pyiceberg("ana", "orders").load_table("finance.ledger").metadata.table_uuid
    location = f"warehouse/$orders/table/{ledger}"
    query = "SELECT count(*) FROM ben_orders.finance.ledger"
    for number in range(2):
        change = f"ALTER TABLE ben_orders.finance.ledger SET TBLPROPERTIES ('by-ben' = '{number}')"
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            rows_of(s3_spark, query)
        assert teams.change("alice", location, writes=[("select", "ben")]) == 204
        assert rows_of(s3_spark, query) == [(0,)]
        assert {row[0] for row in done(s3_spark, "SHOW NAMESPACES IN ben_orders")} == {"finance", "shop"}
        with pytest.raises(Py4JJavaError, match=FORBIDDEN):
            done(s3_spark, change)
        assert teams.change("alice", location, writes=[("modify", "ben")], deletes=[("select", "ben")]) == 204
        done(s3_spark, change)
        assert teams.change("alice", location, deletes=[("modify", "ben")]) == 204
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        rows_of(s3_spark, query)


def test_pyiceberg_as_each(teams: Teams, minio: Minio) -> None:
    ana, ben = teams.through_pyiceberg("ana", "orders"), teams.through_pyiceberg("ben", "orders")
    assert set(ana.list_namespaces()) == {("finance",), ("shop",)}
    assert ben.list_namespaces() == [("shop",)]
    more: Any = pa.table({"id": pa.array([7], pa.int64())})
    created = ana.create_table("shop.both", schema=more.schema)
    created.append(more)
    read = ben.load_table("shop.both")
    assert read.scan().to_arrow().to_pydict() == {"id": [7]}
    before, files = created.refresh().metadata_location, minio.keys(BUCKET)
    with pytest.raises(OSError, match=r"(?i)access.denied"):  # from the store, which denies the file
        read.append(more)
    with pytest.raises(exceptions.ForbiddenError, match="may not commit on table"):
        read.transaction().set_properties(by="ben").commit_transaction()
    with pytest.raises(exceptions.ForbiddenError, match="may not drop on table"):
        ben.drop_table("shop.both")
    with pytest.raises(exceptions.ForbiddenError, match="may not create_table on namespace"):
        ben.create_table("shop.more", schema=more.schema)
    with pytest.raises(exceptions.NoSuchTableError):
        ben.load_table("finance.ledger")
    with pytest.raises(exceptions.NoSuchNamespaceError):
        ben.list_tables("finance")
    assert created.refresh().metadata_location == before
    assert minio.keys(BUCKET) == files
    ana.drop_table("shop.both")
