from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections

from icekeeper.kernel.db.checks import UnwritableFolder, check_data_folder, describe_database
from management.management.operator_command import MAYBE_UNUSABLE, require_usable_database
from tenancy.authz.openfga.client import OpenFgaUnavailable
from tenancy.authz.openfga.http_interface import retry_during_startup
from tenancy.authz.openfga.store import install, openfga_store
from tenancy.authz.port import is_openfga

LOCK: Final = 0x1CEB_E126
"""Key of the advisory lock in PostgreSQL."""


class Command(migrate.Command):
    help = (
        "Migrate the database to this version. May be run at any time and by several nodes at once: on PostgreSQL one "
        "node migrates, the others wait and find nothing to do. Statements have no timeout. With the OpenFGA "
        "backend, the store and the authorization model of this version are created too."
    )

    def execute(self, *args: Any, **options: Any) -> str | None:
        if connections[options["database"]].vendor == "sqlite":
            require_data_folder()  # before the system checks, which open the database
        try:
            return super().execute(*args, **options)
        except MAYBE_UNUSABLE as error:
            require_usable_database(error, needs_migrations=False)
            raise

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verbosity"] >= 1:
            self.stdout.write(f"Database: {describe_database(options['database'])}")
        with exclusive_migration(options["database"]):
            super().handle(*args, **options)
        if is_openfga() and _is_whole(options):
            self._install_model()

    def _install_model(self) -> None:
        try:
            model, is_new = retry_during_startup(partial(install, openfga_store()))
        except OpenFgaUnavailable as error:
            raise CommandError(f"OpenFGA: {error.reason}") from error
        if is_new:
            self.stdout.write(f"OpenFGA: authorization model {model.model_id} was written to store {model.store_id}")


def require_data_folder() -> None:
    """Raises `CommandError` unless the embedded database is writable."""
    try:
        check_data_folder(Path(settings.DATABASES["default"]["NAME"]))
    except UnwritableFolder as error:
        raise CommandError(str(error)) from error


def _is_whole(options: dict[str, Any]) -> bool:
    """Return whether the command migrates every app, and is not a dry run."""
    is_dry_run = any(options.get(each) for each in ("plan", "check_unapplied"))
    return options["database"] == "default" and not options.get("app_label") and not is_dry_run


@contextmanager
def exclusive_migration(alias: str) -> Iterator[None]:
    """On PostgreSQL, hold an advisory lock and disable the statement timeout of requests; the lock timeout stays."""
    connection = connections[alias]
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("SET lock_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        cursor.execute("RESET lock_timeout")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
            cursor.execute("RESET statement_timeout")
