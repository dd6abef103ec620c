from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand, require_no_maintenance
from management.management.secret_owners import describe_owner
from storage.services.secret_maintenance import SecretMoveProgress, move_secrets
from tenancy.actor import INTERNAL


class Command(OperatorCommand):
    help = (
        "Move the credentials of warehouses, and the secrets of event sinks, to the store that "
        "LAKEKEEPER__SECRET_BACKEND selects: from the database to Vault (LAKEKEEPER__KV2__*), or back. Servers "
        "may run if all of them have the settings of both stores. Each credential is written, read back, and then "
        "deleted from the old store. The command may be stopped at any time; the next run continues. Exit status "
        "1 if a credential could not be moved; it stays where it is. Credentials are never printed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        require_no_maintenance("no credential is moved")

        def report(so_far: SecretMoveProgress) -> None:
            if not options["json"] and so_far.moved and so_far.moved % 100 == 0:
                self.stderr.write(f"{so_far.moved} moved")

        result = move_secrets(actor=INTERNAL, progress=report)
        failed = [describe_owner(owner) | {"reason": reason} for owner, reason in result.failed]
        self.print_result(options, {"moved": result.moved, "failed": failed}, f"Credentials moved: {result.moved}.")
        if failed:
            named = "\n".join(f"{each['type']} {each['name']} ({each['id']}): {each['reason']}" for each in failed)
            raise CommandError(f"{len(failed)} credentials could not be moved:\n{named}")
