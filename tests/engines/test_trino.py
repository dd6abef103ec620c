"""Trino with the Open Policy Agent, set up as in docs/trino-opa.md and docs/engines.md, on a warehouse on MinIO."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from tests.engines.engines_page_fixtures import engine_section, properties_of
from tests.harness.page_transcripts import Transcripts, blocks_of, commands_of, section_of
from tests.harness.run_environment import RunEnvironment
from tests.parts import opa, process
from tests.parts.minio import Minio
from tests.parts.s3 import REGION
from tests.parts.server import ROOT, CatalogServer
from tests.parts.trino import Session, Trino, TrinoError

pytestmark = [pytest.mark.part("trino"), pytest.mark.part("opa"), pytest.mark.part("shell")]

POLICY_PAGE = (ROOT / "docs" / "trino-opa.md").read_text()
USERS = ("ann", "alice", "bob", "dora")
SECONDS = 60


@dataclass(frozen=True)
class Lake:
    """The running programs, and the page's shell, whose `grant` grants privileges as the administrator `ann`."""

    trino: Trino
    server: CatalogServer
    run: Transcripts
    ann: str

    def session(self, user: str) -> Session:
        return self.trino.session(user)

    def grant(self, resource: str, privilege: str, user: str) -> None:
        assert self.run.shell(f"grant {resource} {privilege} local~{user}") == []

    def catalog(self, path: str) -> Any:
        url = f"{self.server.uri}/v1/{self.server.warehouse_id}/{path}"
        response = requests.get(url, headers={"Authorization": f"Bearer {self.ann}"}, timeout=SECONDS)
        assert response.ok, response.text
        return response.json()

    def namespace(self, name: str) -> str:
        """Return the namespace as an argument of `grant`."""
        namespace_id = self.catalog(f"namespaces/{name}")["properties"]["namespace_id"]
        return f"warehouse/{self.server.warehouse_id}/namespace/{namespace_id}"

    def table(self, namespace: str, name: str) -> str:
        listed = self.catalog(f"namespaces/{namespace}/tables?returnUuids=true")
        names = [each["name"] for each in listed["identifiers"]]
        return f"warehouse/{self.server.warehouse_id}/table/{listed['table-uuids'][names.index(name)]}"


@pytest.fixture(scope="module")
def server(
    run_environment: RunEnvironment, minio: Minio, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CatalogServer]:
    """A server with authorization that accepts only its own access tokens."""
    settings = {
        "ICEKEEPER__ACCESS_TOKENS": "true",
        "LAKEKEEPER__AUTHZ_BACKEND": "builtin",
        "LAKEKEEPER__PG_ENCRYPTION_KEY": "k" * 40,
    }
    home, url = tmp_path_factory.mktemp("trino-catalog"), run_environment.own_database("trino")
    with CatalogServer(home, database_url=url, settings=settings) as server:
        yield server


@pytest.fixture(scope="module")
def lake(server: CatalogServer, minio: Minio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    tokens = {user: server.manage("create_token", "--user", f"local~{user}", "--create-user").strip() for user in USERS}
    server.manage("bootstrap", "--admin", "local~ann", "--operator")
    bucket = minio.create_bucket("trino")
    server.create_warehouse_on("analytics", minio.storage(bucket, "analytics"), token=tokens["ann"])
    home, port = tmp_path_factory.mktemp("trino"), process.free_port()
    instead = {
        "https://catalog.example.com": server.base_url,
        "127.0.0.1:8282": f"127.0.0.1:{port}",
        ".venv/bin/python manage.py": "manage",
        "docker/opa": str(ROOT / "docker" / "opa"),
        "opa eval": f"{opa.PROGRAM.require()} eval",
        "opa run": f"exec {opa.PROGRAM.require()} run",
        "oidc~7c9e6679": "local~alice",
    }
    environment = server.environment | {"ADMIN_TOKEN": tokens["ann"], "TRINO_IDENTITY_PROVIDER": "local"}
    with Transcripts(instead=instead, names={}, home=home) as run:
        exported = [f"export {name}={shlex.quote(value)}" for name, value in environment.items() if name.isidentifier()]
        manage = (
            f'manage() {{ {shlex.quote(sys.executable)} {shlex.quote(str(ROOT / "manage.py"))} "$@" 2>>manage.log; }}'
        )
        assert run.shell("; ".join([*exported, manage])) == []
        try:
            set_up(run, port)
            trino_token = "".join(run.shell("echo $trino | jq -r .token"))
            with Trino(
                home / "server", {"lake": catalog_properties(server, minio, trino_token)}, control(port)
            ) as trino:
                yield Lake(trino, server, run, tokens["ann"])
        finally:
            run.shell("kill $(cat opa.pid)")


def set_up(run: Transcripts, port: int) -> None:
    """Run all commands of the page but the grant to Alice; each must print the output of the page."""
    section, _, _ = section_of(POLICY_PAGE, "## Set it up").partition("**5. Grants")
    for kind, content in blocks_of(section):
        assert kind == "console"
        for command in commands_of(content):
            if command.text.startswith("opa run"):
                run.shell(f"({command.text}) >opa.log 2>&1 & echo $! >opa.pid")
            else:
                assert run.shell(command.text) == command.response, command.text
    deadline = time.monotonic() + SECONDS
    while not is_up(port):
        assert time.monotonic() < deadline, run.shell("cat opa.log")
        time.sleep(0.2)


def is_up(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/health", timeout=5).ok
    except requests.RequestException:
        return False


def control(port: int) -> dict[str, str]:
    on_page = properties_of(section_of(POLICY_PAGE, "## Set it up"))[0]
    return {name: value.replace("127.0.0.1:8282", f"127.0.0.1:{port}") for name, value in on_page.items()}


def catalog_properties(server: CatalogServer, minio: Minio, token: str) -> dict[str, str]:
    """Return those of the page with the values of this run."""
    ours = {
        "iceberg.rest-catalog.uri": server.uri,
        "iceberg.rest-catalog.warehouse": server.warehouse,
        "iceberg.rest-catalog.oauth2.token": token,
        "s3.endpoint": minio.endpoint,
        "s3.region": REGION,
    }
    on_page = properties_of(engine_section("Trino and Starburst"))[0]
    assert ours.keys() <= on_page.keys()
    return on_page | ours


@pytest.fixture(scope="module")
def sales(lake: Lake) -> Lake:
    """The schema `sales` with the tables `orders` and `secrets`, and the view `totals`."""
    ann = lake.session("ann")
    for statement in (
        "CREATE SCHEMA lake.sales",
        "CREATE TABLE lake.sales.orders (id BIGINT, city VARCHAR) WITH (partitioning = ARRAY['city'])",
        "INSERT INTO lake.sales.orders VALUES (1, 'Rome'), (2, 'Oslo')",
        "CREATE TABLE lake.sales.secrets AS SELECT 1 AS pin",
        "CREATE VIEW lake.sales.totals AS SELECT count(*) AS n FROM lake.sales.orders",
    ):
        ann.run(statement)
    return lake


def denied(session: Session, statement: str) -> bool:
    """Whether the statement fails for missing permissions; any other failure fails the test."""
    try:
        session.run(statement)
    except TrinoError as error:
        if error.name == "PERMISSION_DENIED":
            return True
        raise
    return False


def fails(session: Session, statement: str) -> str:
    with pytest.raises(TrinoError) as caught:
        session.run(statement)
    return caught.value.name


def test_an_administrator_does_everything_that_trino_can_do(lake: Lake) -> None:
    ann = lake.session("ann")
    for statement in (
        "CREATE SCHEMA lake.walk",
        'CREATE SCHEMA lake."walk.below"',
        (
            "CREATE TABLE lake.walk.t (id BIGINT, city VARCHAR, at TIMESTAMP(6) WITH TIME ZONE)"
            " WITH (partitioning = ARRAY['city'])"
        ),
        "INSERT INTO lake.walk.t VALUES (1, 'Rome', TIMESTAMP '2026-01-01 00:00:00 UTC'), (2, 'Oslo', NULL)",
        "INSERT INTO lake.walk.t VALUES (3, 'Lima', NULL)",
        "UPDATE lake.walk.t SET city = 'Roma' WHERE id = 1",
        "DELETE FROM lake.walk.t WHERE id = 2",
        (
            "MERGE INTO lake.walk.t USING (VALUES (3, 'Cusco'), (4, 'Bern')) AS n(id, city) ON t.id = n.id"
            " WHEN MATCHED THEN UPDATE SET city = n.city WHEN NOT MATCHED THEN INSERT (id, city) VALUES (n.id, n.city)"
        ),
    ):
        ann.run(statement)
    assert ann.run("SELECT id, city FROM lake.walk.t ORDER BY id") == [[1, "Roma"], [3, "Cusco"], [4, "Bern"]]
    assert ann.run('SELECT count(*) FROM lake.walk."t$snapshots"')[0][0] >= 5
    for statement in (
        "ALTER TABLE lake.walk.t ADD COLUMN price DECIMAL(9, 2)",
        "ALTER TABLE lake.walk.t RENAME COLUMN price TO amount",
        "COMMENT ON TABLE lake.walk.t IS 'A table'",
        "ALTER TABLE lake.walk.t SET PROPERTIES partitioning = ARRAY['city', 'month(at)']",
        "ALTER TABLE lake.walk.t EXECUTE optimize",
        "ALTER TABLE lake.walk.t EXECUTE expire_snapshots(retention_threshold => '7d')",
        "ALTER TABLE lake.walk.t EXECUTE remove_orphan_files(retention_threshold => '7d')",
        "CREATE OR REPLACE TABLE lake.walk.t AS SELECT 5 AS id, 'Bonn' AS city",
        "CREATE VIEW lake.walk.v AS SELECT count(*) AS n FROM lake.walk.t",
        "CREATE OR REPLACE VIEW lake.walk.v AS SELECT max(id) AS n FROM lake.walk.t",
        'ALTER TABLE lake.walk.t RENAME TO lake."walk.below".renamed',
        'ALTER TABLE lake."walk.below".renamed RENAME TO lake.walk.t',
    ):
        ann.run(statement)
    assert ann.run("SELECT * FROM lake.walk.v") == [[5]]
    assert sorted(ann.run("SHOW TABLES FROM lake.walk")) == [["t"], ["v"]]
    for statement in ("DROP VIEW lake.walk.v", "TRUNCATE TABLE lake.walk.t", "DROP TABLE lake.walk.t"):
        ann.run(statement)
    ann.run('DROP SCHEMA lake."walk.below"')
    ann.run("DROP SCHEMA lake.walk")


def test_what_trino_itself_cannot_do(sales: Lake) -> None:
    """The limits of Trino in docs/engines.md: when a newer Trino supports these, the page changes."""
    ann = sales.session("ann")
    assert fails(ann, "SHOW CREATE SCHEMA lake.sales") == "INVALID_SCHEMA_PROPERTY"
    assert fails(ann, "CREATE MATERIALIZED VIEW lake.sales.m AS SELECT 1 AS x") == "NOT_SUPPORTED"


def test_a_user_without_grants_sees_nothing(sales: Lake) -> None:
    bob = sales.session("bob")
    assert denied(bob, "SHOW SCHEMAS FROM lake")
    assert denied(bob, "SELECT * FROM lake.sales.orders")
    assert bob.run("SHOW CATALOGS") == [["system"]]


def test_a_reader_of_one_table_sees_only_this_table(sales: Lake) -> None:
    bob = sales.session("bob")
    sales.grant(sales.table("sales", "orders"), "select", "bob")
    assert sorted(bob.run("SELECT * FROM lake.sales.orders")) == [[1, "Rome"], [2, "Oslo"]]
    assert bob.run("SHOW SCHEMAS FROM lake") == [["information_schema"], ["sales"]]
    assert bob.run("SHOW TABLES FROM lake.sales") == [["orders"]]
    assert bob.run("SELECT * FROM lake.system.iceberg_tables") == [["sales", "orders"]]
    listed = bob.run("SELECT table_name FROM lake.information_schema.tables WHERE table_schema = 'sales'")
    assert listed == [["orders"]]
    assert bob.run('SELECT sum(record_count) FROM lake.sales."orders$files"') == [[2]]
    for statement in (
        "SELECT * FROM lake.sales.secrets",
        'SELECT * FROM lake.sales."secrets$snapshots"',
        "SELECT * FROM lake.sales.totals",
        "INSERT INTO lake.sales.orders VALUES (3, 'Lima')",
        "ALTER TABLE lake.sales.orders EXECUTE optimize",
        "CREATE TABLE lake.sales.own (x INTEGER)",
        "CREATE OR REPLACE TABLE lake.sales.orders (x INTEGER)",
        "DROP TABLE lake.sales.orders",
    ):
        assert denied(bob, statement), statement


def test_a_creator_replaces_nothing_of_others(sales: Lake) -> None:
    dora, ann = sales.session("dora"), sales.session("ann")
    before = sales.catalog("namespaces/sales/tables/secrets")["metadata-location"]
    view = sales.catalog("namespaces/sales/views/totals")["metadata-location"]
    sales.grant(sales.namespace("sales"), "create", "dora")
    dora.run("CREATE TABLE lake.sales.created AS SELECT 1 AS x")
    dora.run("CREATE OR REPLACE TABLE lake.sales.replaced AS SELECT 1 AS x")
    dora.run("CREATE VIEW lake.sales.created_view AS SELECT 1 AS x")
    for statement in (
        "CREATE OR REPLACE TABLE lake.sales.secrets AS SELECT 2 AS pin",
        "CREATE OR REPLACE TABLE lake.sales.secrets (pin INTEGER)",
        "CREATE OR REPLACE VIEW lake.sales.totals AS SELECT 2 AS n",
        "SELECT * FROM lake.sales.created",
    ):
        assert denied(dora, statement), statement
    assert fails(dora, "CREATE TABLE lake.sales.secrets (pin INTEGER)") == "TABLE_ALREADY_EXISTS"
    assert sales.catalog("namespaces/sales/tables/secrets")["metadata-location"] == before
    assert sales.catalog("namespaces/sales/views/totals")["metadata-location"] == view
    assert ann.run("SELECT pin FROM lake.sales.secrets") == [[1]]
    sales.grant(sales.table("sales", "secrets"), "modify", "dora")
    dora.run("CREATE OR REPLACE TABLE lake.sales.secrets AS SELECT 2 AS pin")
    assert ann.run("SELECT pin FROM lake.sales.secrets") == [[2]]
    dora.run("ALTER TABLE lake.sales.secrets EXECUTE OPTIMIZE")


def test_the_grant_of_the_page_shows_alice_every_schema(sales: Lake) -> None:
    alice = sales.session("alice")
    assert denied(alice, "SHOW SCHEMAS FROM lake")
    _, _, rest = section_of(POLICY_PAGE, "## Set it up").partition("**5. Grants")
    [(_, content)] = blocks_of(rest)
    for command in commands_of(content):
        assert sales.run.shell(command.text) == command.response
    assert ["sales"] in alice.run("SHOW SCHEMAS FROM lake")
    assert alice.run("SELECT n FROM lake.sales.totals") == [[2]]
