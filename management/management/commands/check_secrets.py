from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand
from management.management.secret_owners import describe_owner
from storage.secrets.stores import secret_stores
from storage.services.secret_maintenance import delete_orphans, find_orphans, find_unreadable


class Command(OperatorCommand):
    help = (
        "Read the credential of every warehouse and the secrets of every event sink, and find orphaned secrets, "
        "which a crash can leave in Vault; secrets of the last hour are ignored. Changes nothing without "
        "--delete-orphans. Exit status 1 if a credential cannot be read; its owner is listed. Credentials are "
        "never printed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--delete-orphans", action="store_true", help="delete secrets that nothing uses")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        unreadable = list(find_unreadable())
        if options["delete_orphans"]:
            count, status = sum(delete_orphans(store=store) for store in secret_stores()), "deleted"
        else:
            count, status = sum(1 for store in secret_stores() for _ in find_orphans(store)), "found"
        found = [describe_owner(owner) | {"reason": reason} for owner, reason in unreadable]
        result = {"unreadable": found, f"orphans-{status}": count}
        self.print_result(options, result, f"Orphaned secrets {status}: {count}.")
        if found:
            named = "\n".join(f"{each['type']} {each['name']} ({each['id']}): {each['reason']}" for each in found)
            raise CommandError(f"{len(found)} secrets cannot be read:\n{named}")
