from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand
from storage.secrets.stores import secret_stores
from storage.services.secret_maintenance import delete_orphans, find_orphans, find_unreadable


class Command(OperatorCommand):
    help = (
        "Read the credential of every warehouse, and find orphaned secrets, which a crash can leave in Vault; secrets "
        "of the last hour are ignored. Changes nothing without --delete-orphans. Exit status 1 if a credential "
        "cannot be read; its warehouse is listed. Credentials are never printed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--delete-orphans", action="store_true", help="delete secrets that no warehouse uses")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        unreadable = list(find_unreadable())
        if options["delete_orphans"]:
            count, status = sum(delete_orphans(store=store) for store in secret_stores()), "deleted"
        else:
            count, status = sum(1 for store in secret_stores() for _ in find_orphans(store)), "found"
        found = [{"warehouse-id": str(pk), "name": name, "reason": reason} for pk, name, reason in unreadable]
        result = {"unreadable": found, f"orphans-{status}": count}
        self.print_result(options, result, f"Orphaned secrets {status}: {count}.")
        if found:
            named = "\n".join(f"warehouse {each['name']} ({each['warehouse-id']}): {each['reason']}" for each in found)
            raise CommandError(f"Credentials of {len(found)} warehouses cannot be read:\n{named}")
