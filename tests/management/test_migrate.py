"""`manage.py migrate`: concurrent runs and slow statements."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from icekeeper.conf.database import databases
from icekeeper.conf.environment import read_settings
from icekeeper.kernel.db.checks import describe_database
from management.management.commands.migrate import exclusive_migration
from tests.harness.run_environment import RunEnvironment
from tests.parts import process
from tests.parts.server import ROOT, CatalogServer

pytestmark = pytest.mark.both_databases


@pytest.mark.timeout(300)
def test_nodes_that_start_at_once_do_not_disturb_each_other(run_environment: RunEnvironment, tmp_path: Path) -> None:
    if run_environment.postgres is None:
        pytest.skip("SQLite has one node")
    url = run_environment.postgres.create_database("migrated_at_once")
    server = CatalogServer(tmp_path, database_url=url)
    logs = [tmp_path / f"migrate-{node}.log" for node in range(4)]
    nodes = [
        process.start([sys.executable, ROOT / "manage.py", "migrate"], log=log, env=server.environment, cwd=tmp_path)
        for log in logs
    ]
    try:
        assert [node.wait(200) for node in nodes] == [0, 0, 0, 0], [log.read_text()[-3000:] for log in logs]
    finally:
        for node in nodes:
            process.kill(node)
    assert sum(log.read_text().count("Applying tenancy.0001_initial... OK") for log in logs) == 1
    with psycopg.connect(url) as session:
        assert session.execute("SELECT count(*) FROM tenancy_server").fetchone() == (1,)


@pytest.mark.django_db
def test_the_database_is_named_before_it_is_migrated() -> None:
    call_command("migrate", stdout=(out := StringIO()))
    kind = "PostgreSQL" if connection.vendor == "postgresql" else "embedded SQLite"
    assert out.getvalue().startswith(f"Database: {kind} ")
    call_command("migrate", verbosity=0, stdout=(out := StringIO()))
    assert out.getvalue() == ""


@pytest.mark.django_db
def test_metadata_is_compressed_with_lz4_where_postgresql_has_it() -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite does not compress")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'")
        ((has_lz4,),) = cursor.fetchall()
        cursor.execute(
            "SELECT attcompression FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'document'",
            ["catalog_tabularmetadata"],
        )
        ((method,),) = cursor.fetchall()
    assert method == ("l" if has_lz4 else "")


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, "embedded SQLite /srv/ice/icekeeper.sqlite3"),
        ({"PG_DATABASE_URL_WRITE": "postgresql://u:canary@h:5433/d?sslmode=require"}, "PostgreSQL d on h:5433"),
        ({"PG_DATABASE_URL_WRITE": "postgresql:///d?user=u&password=canary"}, "PostgreSQL d on the local socket"),
        ({"PG_HOST_W": "h", "PG_DATABASE": "d", "PG_PASSWORD": "canary"}, "PostgreSQL d on h:5432"),
    ],
)
def test_a_database_is_described_without_credentials(
    variables: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"ICEKEEPER__DATA_DIR": "/srv/ice", **{f"LAKEKEEPER__{name}": value for name, value in variables.items()}}
    monkeypatch.setattr(settings, "DATABASES", databases(read_settings(given)[0]))
    assert describe_database() == text


@pytest.mark.django_db
def test_statements_take_their_time_and_locks_do_not() -> None:
    def limits() -> list[str]:
        with connection.cursor() as cursor:
            shown = []
            for name in ("statement_timeout", "lock_timeout"):
                cursor.execute(f"SHOW {name}")
                shown.append(cursor.fetchone()[0])
            return shown

    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no such limits")
    usual = limits()
    with exclusive_migration("default"):
        assert limits() == ["0", usual[1]]
    assert limits() == usual
    assert usual[0] != "0"
