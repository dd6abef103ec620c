from __future__ import annotations

import time
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError, CommandParser

from icekeeper.kernel.db.checks import UnusableDatabase, check_databases
from management.management.operator_command import OperatorCommand

MAX_RETRIES = 10_000
MAX_BACKOFF_SECONDS = 3600.0


class Command(OperatorCommand):
    help = (
        "Wait until the databases are ready, for init containers and scripts: exit status 0 when they are, 1 after "
        "the last attempt. With -d alone they only have to respond; otherwise they must be migrated to this version. "
        "Errors that waiting cannot fix end the command at once: a database that a newer version has migrated, or a "
        "PostgreSQL version that is not supported."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-d", "--check-db", action="store_true", help="wait until the databases respond")
        parser.add_argument(
            "-m", "--check-migrations", action="store_true", help="wait until the databases are migrated"
        )
        parser.add_argument(
            "-r", "--retries", type=_number, default=15, metavar="N", help="attempts after the first one; default: 15"
        )
        parser.add_argument(
            "-b", "--backoff", type=_seconds, default=2.0, metavar="SECONDS", help="pause between attempts; default: 2"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        needs_migrations = options["check_migrations"] or not options["check_db"]
        for left in range(options["retries"], -1, -1):
            try:
                check_databases(needs_migrations=needs_migrations)
            except UnusableDatabase as error:
                if not error.is_temporary or not left:
                    self._print_json(options, str(error))
                    raise CommandError(str(error)) from error
                self.stderr.write(f"{error}; {left} attempts left")
                self.stderr.flush()
                time.sleep(options["backoff"])
            else:
                sentence = "The databases are ready." if needs_migrations else "The databases respond."
                self._print_json(options, None)
                if not options["json"]:
                    self.stdout.write(sentence)
                return

    def _print_json(self, options: dict[str, Any], problem: str | None) -> None:
        if options["json"]:
            self.print_json({"ready": problem is None, "problem": problem})


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= MAX_RETRIES):  # noqa: PLR2004
        raise ArgumentTypeError(f"must be a number from 0 to {MAX_RETRIES}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_BACKOFF_SECONDS:
        raise ArgumentTypeError(f"must be seconds, from 0 to {MAX_BACKOFF_SECONDS:g}")
    return seconds
