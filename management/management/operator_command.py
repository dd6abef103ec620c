"""The base class of commands that report errors of the catalog and results as JSON."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from icekeeper.server.database_checks import UnusableDatabase, check_databases
from tenancy import maintenance


class OperatorCommand(BaseCommand):
    """A `CatalogError` ends the command with its message, its hint and exit status 1, and a database error with what
    `serve` reports of a database that it cannot use: unreachable, or not migrated to this version. `--traceback` shows
    the cause. A database error of a usable database stays as it is.
    """

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CatalogError as error:
            raise CommandError(
                error.message if error.hint is None else f"{error.message}\nHint: {error.hint}"
            ) from error
        except DatabaseError as error:
            unusable = unusable_database()
            if unusable is None:
                raise
            raise CommandError(str(unusable)) from error

    def print_json(self, content: Any) -> None:
        """Print `content` on one line of stdout."""
        self.stdout.write(write_json(content).decode())

    def print_result(self, options: dict[str, Any], content: Any, sentence: str) -> None:
        """Print `content` with `--json`, else the sentence."""
        if options["json"]:
            self.print_json(content)
        else:
            self.stdout.write(sentence)


def unusable_database() -> UnusableDatabase | None:
    """Return what `serve` reports of a database that is unreachable or not migrated to this version; None without one.

    To be asked after a database error, of which it is the likely cause.
    """
    try:
        check_databases()
    except UnusableDatabase as unusable:
        return unusable
    return None


def require_no_maintenance(consequence: str) -> None:
    """Raises `CommandError` with the consequence in maintenance mode."""
    maintenance.switch.refresh()
    if maintenance.is_read_only():
        raise CommandError(f"Maintenance mode is read-only: {consequence}")
