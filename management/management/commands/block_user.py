from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.errors import CatalogError
from icekeeper.kernel.json_text import write_json
from tenancy.actor import INTERNAL
from tenancy.services.blocking import block_user


class Command(BaseCommand):
    help = (
        "Lock a user out, whatever the identity provider says: tokens of this server are refused within 5 seconds, "
        "those of providers within a minute. Rights and tokens are kept; unblock_user lets the user in again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="ID", help="such as oidc~alice, local~ann, icekeeper~<uuid>")
        parser.add_argument("--json", action="store_true", help="print what was done as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        user_id = options["user"]
        try:
            changed = block_user(actor=INTERNAL, user_id=user_id)
        except CatalogError as error:
            raise CommandError(error.message) from None
        if options["json"]:
            self.stdout.write(write_json({"user-id": user_id, "is-active": False, "changed": changed}).decode())
        else:
            self.stdout.write(f"{user_id} is blocked." if changed else f"{user_id} was blocked already.")
