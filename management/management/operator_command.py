"""The base class of commands that report errors of the catalog and results as JSON."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from tenancy import maintenance


class OperatorCommand(BaseCommand):
    """A `CatalogError` ends the command with its message, its hint and exit status 1; `--traceback` shows the cause."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CatalogError as error:
            raise CommandError(
                error.message if error.hint is None else f"{error.message}\nHint: {error.hint}"
            ) from error

    def print_json(self, content: Any) -> None:
        """Print `content` on one line of stdout."""
        self.stdout.write(write_json(content).decode())

    def print_result(self, options: dict[str, Any], content: Any, sentence: str) -> None:
        """Print `content` with `--json`, else the sentence."""
        if options["json"]:
            self.print_json(content)
        else:
            self.stdout.write(sentence)


def require_no_maintenance(consequence: str) -> None:
    """Raises `CommandError` with the consequence in maintenance mode."""
    maintenance.switch.refresh()
    if maintenance.is_read_only():
        raise CommandError(f"Maintenance mode is read-only: {consequence}")
