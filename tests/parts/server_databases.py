"""Migrated and bootstrapped databases for servers: each command runs once per test run and kind of database, then the
result is copied.

`tests/management/test_migrate.py`, `test_bootstrap.py` and the tests of the guides test the commands themselves.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.parts.process import PartError

ROOT = Path(__file__).resolve().parents[2]
SQLITE_FILE = "icekeeper.sqlite3"
Template = Literal["migrated", "bootstrapped"]
"""The second is created from the first, by `manage.py bootstrap` with the default settings."""


def fill_sqlite(data_dir: Path, template: Template) -> None:
    """Copy the database of the template into this data folder."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(_sqlite_template(template), data_dir / SQLITE_FILE)


def fill_postgres(url: str, template: Template) -> None:
    """Replace the empty database of this URL, which must have no connections."""
    name = urlsplit(url).path.removeprefix("/")
    host = url.removesuffix(f"/{name}")
    _create_postgres_template(host, template)
    location = sql.Identifier(name)
    with psycopg.connect(f"{host}/postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {}").format(location))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(location, sql.Identifier(template)))


@cache
def _sqlite_template(template: Template) -> Path:
    folder = _temporary_folder()
    if template == "migrated":
        _manage("migrate", folder, {})
    else:
        fill_sqlite(folder, "migrated")
        _manage("bootstrap", folder, {})
    return folder / SQLITE_FILE


@cache
def _create_postgres_template(host: str, template: Template) -> None:
    url = f"{host}/{template}"
    with psycopg.connect(f"{host}/postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(template)))
    if template == "bootstrapped":
        fill_postgres(url, "migrated")
    command = "migrate" if template == "migrated" else "bootstrap"
    _manage(command, _temporary_folder(), {"LAKEKEEPER__PG_DATABASE_URL_WRITE": url})


def _manage(command: str, folder: Path, location: Mapping[str, str]) -> None:
    usual = {"PATH": "/usr/bin:/bin", "ICEKEEPER__DATA_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", command, "--verbosity", "0"],
        capture_output=True, text=True, check=False, env=usual | dict(location), cwd=folder,
    )  # fmt: skip
    if done.returncode:
        raise PartError(f"manage.py {command} failed:\n{(done.stdout + done.stderr)[-3000:]}")


def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="icekeeper-databases-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
