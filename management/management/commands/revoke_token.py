from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from icekeeper.kernel.ids import parse_id
from management.management.operator_command import OperatorCommand
from tenancy.actor import INTERNAL
from tenancy.authn.own_tokens.stored_tokens import read_prefix
from tenancy.models import AccessToken
from tenancy.services.access_tokens import revoke_token


class Command(OperatorCommand):
    help = (
        "Revoke access tokens: running servers reject them within 5 seconds. Name a token by its id or by its prefix "
        "(ikp_... or iks_..., up to the second underscore); never put a whole token on a command line."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("token", nargs="?", metavar="ID", help="id or prefix, as list_tokens and the API show them")
        which.add_argument("--user", metavar="ID", help="all tokens of this user")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["user"] is not None:
            ids = list(
                AccessToken.objects.filter(user_id=options["user"], revoked_at=None).values_list("pk", flat=True)
            )
        else:
            token_id = parse_id(options["token"]) or read_prefix(options["token"])
            if token_id is None:
                raise CommandError("Not the id or the prefix of a token")
            ids = [token_id]
        for token_id in ids:
            revoke_token(actor=INTERNAL, token_id=token_id)
        self.stdout.write(f"Revoked {len(ids)} access token{'s'[: len(ids) != 1]}.")
