"""The base class of commands: it reports errors of the catalog and unusable databases, and prints results as JSON."""

from __future__ import annotations

import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError, ProgrammingError

from icekeeper.kernel.db.checks import UnusableDatabase, check_databases
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from tenancy import maintenance

POOL_LOGGER = logging.getLogger("psycopg.pool")
"""A thread of the pool logs each failed attempt to connect: after a command's error this only repeats the reason."""

MAYBE_UNUSABLE = (OperationalError, ProgrammingError, InterfaceError)
"""Errors of an unreachable database, or of one without the tables and columns of this version."""


class OperatorCommand(BaseCommand):
    """A `CatalogError` ends the command with its message, its hint and exit status 1. So does a database that is
    unreachable or not migrated to this version, with the message of `serve`. `--traceback` shows the cause. Errors of a
    usable database stay as they are.

    It runs no system checks, which import the views of both APIs: settings are validated when they are read.
    """

    requires_system_checks: list[str] = []

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CatalogError as error:
            raise CommandError(
                error.message if error.hint is None else f"{error.message}\nHint: {error.hint}"
            ) from error
        except MAYBE_UNUSABLE as error:
            require_usable_database(error)
            raise

    def print_json(self, content: Any) -> None:
        """Print `content` on one line of stdout."""
        self.stdout.write(write_json(content).decode())

    def print_result(self, options: dict[str, Any], content: Any, sentence: str) -> None:
        """Print `content` with `--json`, else the sentence."""
        if options["json"]:
            self.print_json(content)
        else:
            self.stdout.write(sentence)


def unusable_database(*, needs_migrations: bool = True) -> UnusableDatabase | None:
    """Return the error of `check_databases`, the likely cause of one of `MAYBE_UNUSABLE`; None if all can be used."""
    try:
        check_databases(needs_migrations=needs_migrations)
    except UnusableDatabase as unusable:
        return unusable
    return None


def require_usable_database(error: Exception, *, needs_migrations: bool = True) -> None:
    """Raise `CommandError` from `error`, one of `MAYBE_UNUSABLE`, if `unusable_database` finds its cause.

    From then on the connection pool logs no warnings.
    """
    if unusable := unusable_database(needs_migrations=needs_migrations):
        POOL_LOGGER.setLevel(logging.ERROR)
        raise CommandError(str(unusable)) from error


def require_no_maintenance(consequence: str) -> None:
    """Raises `CommandError` with the consequence in maintenance mode."""
    maintenance.switch.refresh()
    if maintenance.is_read_only():
        raise CommandError(f"Maintenance mode is read-only: {consequence}")


def escape_unprintable(text: str) -> str:
    """Escape unprintable characters as `\\uXXXX`, so that a terminal shows them and no line breaks."""
    return "".join(character if character.isprintable() else _escape_code(ord(character)) for character in text)


def _escape_code(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
