"""Errors that end a command in one line: of the catalog, with a hint, and of a database that is not migrated."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.db import DatabaseError, IntegrityError, OperationalError, ProgrammingError

from icekeeper.kernel.db.checks import DatabaseUnreachable, MigrationsMissing, UnusableDatabase
from management.management import operator_command
from management.management.operator_command import OperatorCommand
from tenancy.services import access_tokens
from tenancy.services.access_tokens import TooManyAccessTokens
from tests.harness.run_environment import RunEnvironment
from tests.parts.process import free_port
from tests.parts.server import ROOT

WITHOUT_TABLES = {"demo", "document_settings", "migrate", "openapi", "quickstart"}
"""Commands that migrate a database or need none."""
CHECKED_FIRST = {"serve", "worker"}
"""Commands that check the databases before anything else."""


class Manage:
    """Runs commands on a database that was never migrated."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.environment = {"PATH": "/usr/bin:/bin", "ICEKEEPER__DATA_DIR": str(folder)}
        self.problem = f"the SQLite database {folder}/icekeeper.sqlite3 lacks "
        if url is not None:
            self.environment["LAKEKEEPER__PG_DATABASE_URL_WRITE"] = url
            self.problem = f"the database {url.rpartition('/')[2].partition('?')[0]} on "

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip


@pytest.fixture(scope="module")
def manage(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Manage:
    return Manage(tmp_path_factory.mktemp("empty"), run_environment.own_database("never_migrated"))


@pytest.mark.django_db
def test_the_hint_follows_the_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(access_tokens, "MAX_LIVE_TOKENS", 0)
    with pytest.raises(CommandError) as raised:
        call_command("create_token", user="local~alice", create_user=True)
    assert str(raised.value) == "local~alice has 0 live tokens: revoke one\nHint: Revoke unused tokens"
    assert type(raised.value.__cause__) is TooManyAccessTokens
    assert raised.value.returncode == 1
    assert capsys.readouterr().out == ""


@pytest.mark.both_databases
@pytest.mark.parametrize(
    "words",
    [
        ("create_token", "--user", "local~alice", "--create-user"),
        ("bootstrap", "--admin", "local~alice"),
        ("register_tables", "wh", "--list", "-"),
        ("verify_audit",),
    ],
)
def test_a_database_that_was_never_migrated_ends_in_one_line(manage: Manage, words: tuple[str, ...]) -> None:
    done = manage(*words)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"CommandError: {manage.problem}")
    assert line.endswith("migrations, first tenancy.0001_initial. Run: manage.py migrate")


@pytest.mark.both_databases
def test_json_has_the_same_line(manage: Manage) -> None:
    done = manage("bootstrap", "--json")
    [problem] = json.loads(done.stdout)["problems"]
    assert done.stderr == f"CommandError: {problem}\n"
    assert problem.startswith(manage.problem)


@pytest.mark.both_databases
@pytest.mark.parametrize("command", [("list_tokens",), ("bootstrap",)])
def test_a_traceback_shows_the_cause(manage: Manage, command: tuple[str, ...]) -> None:
    done = manage(*command, "--traceback")
    assert done.returncode == 1
    assert "no such table: tenancy_" in done.stderr or 'relation "tenancy_' in done.stderr
    assert done.stderr.splitlines()[-1].endswith("Run: manage.py migrate")


@pytest.mark.parametrize("command", ["prune_metrics", "migrate"])
def test_a_database_that_cannot_be_reached(tmp_path: Path, command: str) -> None:
    manage = Manage(tmp_path, f"postgresql://me:hidden@127.0.0.1:{free_port()}/db")
    manage.environment |= {
        "LAKEKEEPER__PG_ACQUIRE_TIMEOUT": "1s",
        "ICEKEEPER__SECRET_KEY": "0123456789abcdefghijklmnopqrstuv",
    }
    done = manage(command)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    [line] = [line for line in done.stderr.splitlines() if not line.startswith("{")]  # the rest are log lines
    assert line.startswith("CommandError: the database db on 127.0.0.1 (default) cannot be reached: ")
    assert "hidden" not in done.stderr


class Failing(OperatorCommand):
    requires_system_checks: list[str] = []
    error: Exception

    def handle(self, *args: object, **options: object) -> None:
        raise self.error


@pytest.mark.django_db(databases="__all__")
@pytest.mark.both_databases
@pytest.mark.parametrize("error_type", [OperationalError, ProgrammingError, IntegrityError])
def test_errors_of_a_database_that_is_migrated_stay_as_they_are(error_type: type[DatabaseError]) -> None:
    command = Failing()
    command.error = error_type("something else")
    with pytest.raises(error_type, match="something else"):
        call_command(command)


@pytest.mark.parametrize("unusable", [MigrationsMissing("one table is missing"), DatabaseUnreachable("away")])
def test_errors_of_an_unusable_database_are_replaced(
    monkeypatch: pytest.MonkeyPatch, unusable: UnusableDatabase
) -> None:
    monkeypatch.setattr(operator_command, "check_databases", Mock(side_effect=unusable))
    command = Failing()
    command.error = OperationalError("no such column: new")
    with pytest.raises(CommandError, match=str(unusable)) as raised:
        call_command(command)
    assert raised.value.__cause__ is command.error


def test_other_errors_are_not_about_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_command, "check_databases", Mock(side_effect=DatabaseUnreachable("away")))
    command = Failing()
    command.error = ValueError("something else")
    with pytest.raises(ValueError, match="something else"):
        call_command(command)


def test_every_command_that_reads_tables_reports_a_database_without_them() -> None:
    own = {name for name, app in get_commands().items() if app == "management"}
    reporting = {name for name in own if isinstance(load_command_class("management", name), OperatorCommand)}
    assert own - reporting == WITHOUT_TABLES | CHECKED_FIRST


def test_commands_import_neither_views_nor_libraries_of_stores_that_are_not_used(manage: Manage) -> None:
    """These would double the time of each start."""
    program = """
import django, sys
from django.core.management import get_commands, load_command_class
django.setup()
for name, app in get_commands().items():
    if not app.startswith("django.") and name not in {"demo", "openapi", "document_settings", "spectacular"}:
        load_command_class(app, name)
print(*sorted(sys.modules.keys() & {"hvac", "azure.core", "management.api.urls", "catalog.api.urls"}))
"""
    environment = manage.environment | {"DJANGO_SETTINGS_MODULE": "icekeeper.settings"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"
