"""Checks whether the databases can be used: reachable, new enough, migrated, writable."""

from __future__ import annotations

import copy
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.db import DatabaseError, NotSupportedError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import ConnectionHandler

from icekeeper.kernel.files import is_writable

MIN_POSTGRES_VERSION = 15
CONNECT_SECONDS = 10


class UnusableDatabase(Exception):
    """A database that cannot be used. The message is one line with a solution.

    `is_temporary`: the problem may disappear by itself, because the database starts or another process migrates it.
    """

    is_temporary: ClassVar[bool] = False


class DatabaseUnreachable(UnusableDatabase):
    is_temporary = True


class MigrationsMissing(UnusableDatabase):
    is_temporary = True


def check_databases(*, needs_migrations: bool = True) -> None:
    """Raise `UnusableDatabase` unless each database is reachable, new enough and migrated to exactly this version.

    Without `needs_migrations` migrations may be missing, but a database of a newer version is still rejected. The
    connections are opened without a pool and closed before the server forks.
    """
    probe = ConnectionHandler(_without_pools(settings.DATABASES))
    try:
        for alias in probe:
            _check(probe[alias], needs_migrations=needs_migrations)
    finally:
        probe.close_all()


def describe_database(alias: str = "default") -> str:
    """Return kind, name and host of the database, such as `PostgreSQL catalog on db.example.com:5432`."""
    database = settings.DATABASES[alias]
    if database["ENGINE"].endswith("sqlite3"):
        return f"embedded SQLite {database['NAME']}"
    host = database.get("HOST") or database["OPTIONS"].get("hostaddr") or "the local socket"
    port = database.get("PORT")
    return f"PostgreSQL {database.get('NAME') or ''} on {host}{f':{port}' if port else ''}".replace("  ", " ")


def _check(connection: BaseDatabaseWrapper, *, needs_migrations: bool) -> None:
    try:
        connection.ensure_connection()
        if connection.vendor == "postgresql":
            version: int = connection.pg_version  # type: ignore[attr-defined]
            if version < MIN_POSTGRES_VERSION * 10_000:
                raise UnusableDatabase(
                    f"{_describe(connection)} is PostgreSQL {version // 10_000}: "
                    f"{MIN_POSTGRES_VERSION} or newer is needed"
                )
        executor = MigrationExecutor(connection)
    except NotSupportedError as error:  # Django's own lower bound
        raise UnusableDatabase(f"{_describe(connection)} is too old: {error}") from error
    except DatabaseError as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DatabaseUnreachable(
            f"{_describe(connection)} cannot be reached: {reason}. Check LAKEKEEPER__PG_* or ICEKEEPER__DATA_DIR"
        ) from error
    loader = executor.loader
    known = set(loader.disk_migrations) | {
        old for migration in loader.disk_migrations.values() for old in migration.replaces
    }
    ahead = sorted(
        f"{app}.{name}"
        for app, name in loader.applied_migrations
        if app in loader.migrated_apps and (app, name) not in known
    )
    if ahead:
        raise UnusableDatabase(
            f"{_describe(connection)} was migrated by a newer version: it has {ahead[-1]}, unknown to this one. "
            "Start that version, or restore a backup from before its manage.py migrate"
        )
    missing = executor.migration_plan(loader.graph.leaf_nodes())
    if missing and needs_migrations:
        raise MigrationsMissing(
            f"{_describe(connection)} lacks {len(missing)} migrations, first {missing[0][0]}. Run: manage.py migrate"
        )


def _without_pools(databases: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    plain = copy.deepcopy(databases)
    for database in plain.values():
        options = database.get("OPTIONS", {})
        if options.pop("pool", None) is not None:
            options.setdefault("connect_timeout", CONNECT_SECONDS)
    return plain


def _describe(connection: BaseDatabaseWrapper) -> str:
    named = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"the SQLite database {named['NAME']}"
    return f"the database {named['NAME']} on {named['HOST'] or 'the local socket'} ({connection.alias})"


class UnwritableFolder(Exception):
    """A folder that the server needs and cannot write to. The message is one line with a solution."""


def check_data_folder(database: Path) -> None:
    """Raise `UnwritableFolder` unless the embedded `database` can be written to. Creates its folder if needed."""
    with suppress(OSError):
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_writable(database.parent) and is_writable(database):
            return
    raise UnwritableFolder(
        f"The embedded SQLite database {database} cannot be written to by this user (uid {os.getuid()}). Set "
        "ICEKEEPER__DATA_DIR to a writable folder, or LAKEKEEPER__PG_DATABASE_URL_WRITE to a PostgreSQL database"
    )
