"""Migrated, empty databases for servers: migrations run once per test run and kind of database, then the result is
copied.

`tests/management/test_migrate.py` and the tests of the guides test `manage.py migrate` itself.
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
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.parts.process import PartError

ROOT = Path(__file__).resolve().parents[2]
SQLITE_FILE = "icekeeper.sqlite3"
TEMPLATE = "migrated"


def fill_sqlite(data_dir: Path) -> None:
    """Copy the migrated database into this data folder."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(_sqlite_template(), data_dir / SQLITE_FILE)


def fill_postgres(url: str) -> None:
    """Replace the empty database of this URL, which must have no connections."""
    name = urlsplit(url).path.removeprefix("/")
    host = url.removesuffix(f"/{name}")
    _create_postgres_template(host)
    location, template = sql.Identifier(name), sql.Identifier(TEMPLATE)
    with psycopg.connect(f"{host}/postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {}").format(location))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(location, template))


@cache
def _sqlite_template() -> Path:
    folder = _temporary_folder()
    _migrate(folder, {})
    return folder / SQLITE_FILE


@cache
def _create_postgres_template(host: str) -> None:
    with psycopg.connect(f"{host}/postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
    _migrate(_temporary_folder(), {"LAKEKEEPER__PG_DATABASE_URL_WRITE": f"{host}/{TEMPLATE}"})


def _migrate(folder: Path, location: Mapping[str, str]) -> None:
    usual = {"PATH": "/usr/bin:/bin", "ICEKEEPER__DATA_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "migrate", "--verbosity", "0"],
        capture_output=True, text=True, check=False, env=usual | dict(location), cwd=folder,
    )  # fmt: skip
    if done.returncode:
        raise PartError(f"manage.py migrate failed:\n{(done.stdout + done.stderr)[-3000:]}")


def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="icekeeper-migrated-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
