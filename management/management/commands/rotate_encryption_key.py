from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand, require_no_maintenance
from management.management.secret_owners import describe_owner
from storage.secrets.owners import list_owners
from storage.secrets.stores import database_secrets
from storage.services.secret_maintenance import (
    Rotation,
    count_secrets_by_key,
    find_unreadable_secrets,
    rotate_encryption_key,
)
from tenancy.actor import INTERNAL

UNKNOWN_KEY = "not noted"
MAX_NAMED_OWNERS = 20
"""In the error message; JSON lists all."""


class Command(OperatorCommand):
    help = (
        "Re-encrypt with LAKEKEEPER__PG_ENCRYPTION_KEY every secret in the database, such as credentials of "
        "warehouses, that is encrypted with another key of ICEKEEPER__PG_ENCRYPTION_OLD_KEYS (on SQLite also the "
        "signing key). Servers may run if all of them have both keys. The command may be stopped at any time; the "
        "next run continues. Exit status 1 if credentials cannot be decrypted with any key; their owners are "
        "listed. Credentials are never printed. See docs/secrets.md for a rotation without downtime."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="change nothing, print what would change")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        is_dry = options["dry_run"]
        first = database_secrets().keys().first_id
        if is_dry:
            counts, unreadable = count_secrets_by_key(), find_unreadable_secrets()
            stale = sum(count for key_id, count in counts.items() if key_id != first)
            done = max(0, stale - len(unreadable))
        else:
            done, unreadable = self._rotate(is_verbose=not options["json"])
            counts = count_secrets_by_key()
        if options["json"]:
            self.print_json(_described(first, done, counts, unreadable, is_dry=is_dry))
        else:
            self._print(first, done, counts, is_dry=is_dry)
        if unreadable:
            raise CommandError(_error_message(unreadable))

    def _rotate(self, *, is_verbose: bool) -> tuple[int, list[UUID]]:
        require_no_maintenance("no credential is re-encrypted")

        def report(so_far: Rotation) -> None:
            if is_verbose:
                self.stderr.write(f"{so_far.done} re-encrypted")

        result = rotate_encryption_key(actor=INTERNAL, progress=report)
        return result.done, result.unreadable

    def _print(self, first: str, done: int, counts: dict[str | None, int], *, is_dry: bool) -> None:
        status = "to re-encrypt" if is_dry else "re-encrypted"
        self.stdout.write(f"Credentials {status}: {done}. The key in use is {first}.")
        for key_id, count in counts.items():
            note = (
                "in use"
                if key_id == first
                else "remove when the count is 0"
                if key_id
                else "written by an earlier version"
            )
            self.stdout.write(f"  {key_id or UNKNOWN_KEY:<12}  {count:>8}  {note}")


def _described(
    first: str, done: int, counts: dict[str | None, int], unreadable: list[UUID], *, is_dry: bool
) -> dict[str, Any]:
    return {
        "dry-run": is_dry,
        "key-in-use": first,
        "encrypted-anew": done,
        "credentials-by-key": {key_id or UNKNOWN_KEY: count for key_id, count in counts.items()},
        "unreadable": len(unreadable),
        "unreadable-owners": [describe_owner(owner) for owner in list_owners(unreadable)],
    }


def _error_message(unreadable: list[UUID]) -> str:
    owners = list(list_owners(unreadable))
    shown = ", ".join(f"{owner.type} {owner.name} ({owner.id})" for owner in owners[:MAX_NAMED_OWNERS])
    more = f" and {len(owners) - MAX_NAMED_OWNERS} more" if len(owners) > MAX_NAMED_OWNERS else ""
    named = f" ({shown}{more})" if owners else " (nothing uses them)"
    return (
        f"{len(unreadable)} credentials cannot be decrypted with any key{named}. Add their key to "
        "ICEKEEPER__PG_ENCRYPTION_OLD_KEYS, or update the credentials of the warehouses"
    )
