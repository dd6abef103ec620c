from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from storage.secrets.stores import database_secrets
from storage.services.key_rotation import (
    Rotation,
    count_secrets_by_key,
    find_unreadable_secrets,
    rotate_encryption_key,
    warehouses_named_by,
)
from tenancy import maintenance
from tenancy.actor import INTERNAL

NOT_NOTED = "not noted"
SHOWN = 20
"""Warehouses that a sentence names; JSON names all."""


class Command(BaseCommand):
    help = (
        "Encrypt with LAKEKEEPER__PG_ENCRYPTION_KEY every credential of a warehouse in the database that another key "
        "has encrypted, one of ICEKEEPER__PG_ENCRYPTION_OLD_KEYS (on SQLite also the signing key). Servers may run, "
        "as long as each knows both texts. May be stopped at any time: the next call goes on. Exit status 1 when "
        "credentials cannot be read with any of the keys; their warehouses are named. No credential is ever printed. "
        "docs/operations.md says how a key is replaced without a gap."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="change nothing; say what would be done")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        is_dry = options["dry_run"]
        try:
            first = database_secrets().keys().first_id
            if is_dry:
                counts, unreadable = count_secrets_by_key(), find_unreadable_secrets()
                stale = sum(count for key_id, count in counts.items() if key_id != first)
                done = max(0, stale - len(unreadable))
            else:
                done, unreadable = self._rotate(is_told=not options["json"])
                counts = count_secrets_by_key()
        except CatalogError as error:
            raise CommandError(error.message) from None
        if options["json"]:
            self.stdout.write(write_json(_described(first, done, counts, unreadable, is_dry=is_dry)).decode())
        else:
            self._tell(first, done, counts, is_dry=is_dry)
        if unreadable:
            raise CommandError(_complaint(unreadable))

    def _rotate(self, *, is_told: bool) -> tuple[int, list[UUID]]:
        maintenance.switch.look()
        if maintenance.is_read_only():
            raise CommandError("Maintenance mode is read-only: nothing is encrypted anew")

        def tell(so_far: Rotation) -> None:
            if is_told:
                self.stderr.write(f"{so_far.done} encrypted anew")

        outcome = rotate_encryption_key(actor=INTERNAL, progress=tell)
        return outcome.done, outcome.unreadable

    def _tell(self, first: str, done: int, counts: dict[str | None, int], *, is_dry: bool) -> None:
        what = "that would be encrypted anew" if is_dry else "encrypted anew"
        self.stdout.write(f"Credentials {what}: {done}. The key in use is {first}.")
        for key_id, count in counts.items():
            note = "in use" if key_id == first else "may go when none is left" if key_id else "by an earlier version"
            self.stdout.write(f"  {key_id or NOT_NOTED:<12}  {count:>8}  {note}")


def _described(
    first: str, done: int, counts: dict[str | None, int], unreadable: list[UUID], *, is_dry: bool
) -> dict[str, Any]:
    return {
        "dry-run": is_dry,
        "key-in-use": first,
        "encrypted-anew": done,
        "credentials-by-key": {key_id or NOT_NOTED: count for key_id, count in counts.items()},
        "unreadable": len(unreadable),
        "unreadable-warehouses": [
            {"warehouse-id": str(pk), "name": name} for pk, name in warehouses_named_by(unreadable)
        ],
    }


def _complaint(unreadable: list[UUID]) -> str:
    named = warehouses_named_by(unreadable)
    shown = ", ".join(f"{name} ({pk})" for pk, name in named[:SHOWN])
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    whose = f", those of the warehouses {shown}{more}" if named else ", which no warehouse uses"
    return (
        f"{len(unreadable)} credentials cannot be read with any key{whose}. Name the text that they were encrypted "
        "with in ICEKEEPER__PG_ENCRYPTION_OLD_KEYS, or give the warehouses their credentials anew"
    )
