from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from storage.services.secret_moves import Move, move_secrets
from tenancy import maintenance
from tenancy.actor import INTERNAL


class Command(BaseCommand):
    help = (
        "Move the credentials of warehouses to where LAKEKEEPER__SECRET_BACKEND says: from the database to Vault "
        "(LAKEKEEPER__KV2__*), or back. Servers may run, as long as all know both places. Each credential is written, "
        "read again, and then deleted where it was; may be stopped at any time, the next call goes on. Exit status 1 "
        "when some could not be moved; they stay where they are. No credential is ever printed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        maintenance.switch.look()
        if maintenance.is_read_only():
            raise CommandError("Maintenance mode is read-only: nothing is moved")

        def tell(so_far: Move) -> None:
            if not options["json"] and so_far.moved and so_far.moved % 100 == 0:
                self.stderr.write(f"{so_far.moved} moved")

        try:
            outcome = move_secrets(actor=INTERNAL, progress=tell)
        except CatalogError as error:
            raise CommandError(error.message) from None
        failed = [{"warehouse-id": str(warehouse_id), "reason": reason} for warehouse_id, reason in outcome.failed]
        if options["json"]:
            self.stdout.write(write_json({"moved": outcome.moved, "failed": failed}).decode())
        else:
            self.stdout.write(f"Credentials moved: {outcome.moved}.")
        if failed:
            named = "\n".join(f"warehouse {each['warehouse-id']}: {each['reason']}" for each in failed)
            raise CommandError(f"{len(failed)} credentials could not be moved:\n{named}")
