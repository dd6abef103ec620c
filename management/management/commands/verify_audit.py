from __future__ import annotations

import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenancy.audit.verification import Broken, Head, verify_chain

_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


class Command(BaseCommand):
    help = (
        "Look whether the audit trail is as it was sealed: that no row was changed, deleted or put in since. Fails and "
        "names the first row that is wrong. Changes nothing, and may be run beside servers."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--head",
            action="append",
            default=[],
            metavar="POSITION:HASH",
            help="what this command, or the server's log (audit.sealed), told earlier and was kept elsewhere: who can "
            "write to the database can seal everything anew, and is found out by this alone. May be given several "
            "times",
        )

        parser.add_argument(
            "--allow-deleted",
            action="store_true",
            help="do not fail when a row of which a --head was noted has been deleted for its age since",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = verify_chain(heads=[_head(text) for text in options["head"]])
        except Broken as broken:
            raise CommandError(f"The audit trail is broken. {broken}") from None
        where = f", from {found.anchor + 1} to {found.head.position}" if found.count else ""
        self.stdout.write(f"{found.count} rows are as they were sealed{where}.")
        if found.unsealed:
            self.stdout.write(f"{found.unsealed} newer rows are not sealed yet.")
        if found.deleted_until is not None:
            self.stdout.write(
                f"Rows 1 to {found.anchor} were deleted for their age: the newest was of {found.deleted_until}."
            )
        for head in found.unknown_heads:
            self.stdout.write(f"Row {head.position} was deleted: nothing is known of its hash.")
        self.stdout.write(f"Head: {found.head.position}:{found.head.hash}")
        if found.unknown_heads and not options["allow_deleted"]:
            raise CommandError(
                "Rows of which heads were noted are not there any more. If they are older than the trail is kept, ask "
                "with --allow-deleted"
            )


def _head(text: str) -> Head:
    parts = _HEAD.fullmatch(text)
    if parts is None:
        raise CommandError(f"--head takes POSITION:HASH, the hash of 64 hexadecimal digits, and got {text[:100]!r}")
    return Head(int(parts[1]), parts[2])
