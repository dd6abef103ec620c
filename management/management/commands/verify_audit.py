from __future__ import annotations

import re
from typing import Any

from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand
from tenancy.audit.chain import ChainBroken, ChainHead, verify_chain

_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


class Command(OperatorCommand):
    help = (
        "Verify the hash chain of the audit trail: no row was changed, deleted or inserted since it was sealed. Fails "
        "with the first invalid row. Changes nothing; servers may run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--head",
            action="append",
            default=[],
            metavar="POSITION:HASH",
            help="a head that this command or the server's log (audit.sealed) printed earlier and that you stored "
            "elsewhere. Only this detects an attacker who can write to the database and seal every row again. May be "
            "repeated",
        )
        parser.add_argument(
            "--allow-deleted",
            action="store_true",
            help="do not fail if the row of a --head was deleted after its retention period",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = verify_chain(heads=[_head(text) for text in options["head"]])
        except ChainBroken as broken:
            raise CommandError(f"The audit trail is broken. {broken}") from None
        where = f", from {found.anchor + 1} to {found.head.position}" if found.count else ""
        self.stdout.write(f"{found.count} rows are valid{where}.")
        if found.unsealed:
            self.stdout.write(f"{found.unsealed} newer rows are not sealed yet.")
        if found.deleted_until is not None:
            self.stdout.write(
                f"Rows 1 to {found.anchor} were deleted after their retention period, the newest was from "
                f"{found.deleted_until}."
            )
        for head in found.unknown_heads:
            self.stdout.write(f"Row {head.position} was deleted: its hash cannot be verified.")
        self.stdout.write(f"Head: {found.head.position}:{found.head.hash}")
        if found.unknown_heads and not options["allow_deleted"]:
            raise CommandError(
                "Rows of the given heads were deleted. If they are older than the retention period, add --allow-deleted"
            )


def _head(text: str) -> ChainHead:
    parts = _HEAD.fullmatch(text)
    if parts is None:
        raise CommandError(f"--head takes POSITION:HASH, the hash of 64 hexadecimal digits, and got {text[:100]!r}")
    return ChainHead(int(parts[1]), parts[2])
