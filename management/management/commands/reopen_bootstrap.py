from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand
from tenancy.actor import INTERNAL
from tenancy.services.server import reopen_bootstrap


class Command(OperatorCommand):
    help = (
        "Allow bootstrap to be called again, for a deployment that has lost its administrators. The id of the server, "
        "its data and all grants are kept. The first client that calls POST /management/v1/bootstrap becomes "
        "administrator, so restrict access to the server first, or use `manage.py bootstrap --admin USER_ID`, which "
        "needs no reopening."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--yes", action="store_true", help="confirm")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["yes"]:
            raise CommandError("The next client that bootstraps becomes administrator. Confirm with --yes")
        is_reopened = reopen_bootstrap(actor=INTERNAL)
        unchanged = "The catalog is not bootstrapped: nothing to reopen."
        self.print_result(options, {"reopened": is_reopened}, "Bootstrap is reopened." if is_reopened else unchanged)
