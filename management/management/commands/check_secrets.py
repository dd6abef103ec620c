from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from storage.secrets.stores import secret_stores
from storage.services.secret_moves import delete_orphans, find_orphans, find_unreadable


class Command(BaseCommand):
    help = (
        "Read the credential of every warehouse, and look for secrets that no warehouse has any more, as a crash can "
        "leave them in Vault; those of the last hour do not count. Changes nothing without --delete-orphans. Exit "
        "status 1 when a credential cannot be read; the warehouse is named. No credential is ever printed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--delete-orphans", action="store_true", help="delete secrets that no warehouse has")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            unreadable = list(find_unreadable())
            if options["delete_orphans"]:
                count, what = sum(delete_orphans(store=store) for store in secret_stores()), "deleted"
            else:
                count, what = sum(1 for store in secret_stores() for _ in find_orphans(store)), "found"
        except CatalogError as error:
            raise CommandError(error.message) from None
        found = [{"warehouse-id": str(pk), "name": name, "reason": reason} for pk, name, reason in unreadable]
        if options["json"]:
            self.stdout.write(write_json({"unreadable": found, f"orphans-{what}": count}).decode())
        else:
            self.stdout.write(f"Secrets that no warehouse has: {count} {what}.")
        if found:
            named = "\n".join(f"warehouse {each['name']} ({each['warehouse-id']}): {each['reason']}" for each in found)
            raise CommandError(f"Credentials of {len(found)} warehouses cannot be read:\n{named}")
