from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError, CommandParser

from icekeeper.kernel.clock import read_duration
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.json.strict import write_json
from management.api.tokens.serializers import CreatedTokenResponse
from management.management.operator_command import OperatorCommand
from tenancy.actor import INTERNAL, SCOPES
from tenancy.authn.own_tokens.access_tokens import AccessTokenAuthenticator
from tenancy.authn.providers import authenticators
from tenancy.models import ServiceAccount
from tenancy.services.access_tokens import create_token
from tenancy.services.users import ServiceAccountExists, create_local_user, create_service_account


def duration(text: str) -> float:
    try:
        return read_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(f"must be {error}") from None


class Command(OperatorCommand):
    help = (
        "Create an access token and print it on stdout. The token is not stored and is never shown again. Use this "
        "command for the first token of a deployment; later ones may also come from POST /management/v1/token. "
        "Servers accept these tokens with ICEKEEPER__ACCESS_TOKENS=true."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        owner = parser.add_mutually_exclusive_group(required=True)
        owner.add_argument(
            "--user", metavar="ID", help="owner of the token: local~<name>, oidc~<subject> or icekeeper~<uuid>"
        )
        owner.add_argument(
            "--service-account",
            metavar="NAME",
            help="service account that owns the token; created if it does not exist",
        )
        parser.add_argument(
            "--create-user",
            action="store_true",
            help="create the user --user local~<name> if it does not exist: a user without an identity provider",
        )
        parser.add_argument("--name", default="created by command", help="purpose of the token; default: %(default)r")
        parser.add_argument(
            "--scope", action="append", choices=SCOPES, help="may be repeated; default: catalog and management"
        )
        parser.add_argument(
            "--expires-in",
            type=duration,
            metavar="DURATION",
            help="lifetime, such as 12h or 30d; default: ICEKEEPER__ACCESS_TOKEN_DEFAULT_LIFETIME, at most "
            "ICEKEEPER__ACCESS_TOKEN_MAX_LIFETIME",
        )
        parser.add_argument(
            "--json", action="store_true", help="print the token with its properties, as in the management API"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["create_user"] and options["user"] is None:
            raise CommandError("--create-user requires --user local~<name>")
        notes: list[str] = []
        with write_transaction():  # no user is created if the token is rejected
            issued = create_token(
                actor=INTERNAL,
                user_id=_owner(notes, **options),
                name=options["name"],
                scopes=options["scope"],
                expires_in=options["expires_in"],
            )
        row = issued.row
        notes.append(
            f"Token {row.pk} of {row.user_id} is valid until {row.expires_at:%Y-%m-%d %H:%M} UTC: {row.scopes}."
        )
        if not any(isinstance(each, AccessTokenAuthenticator) for each in authenticators()):
            notes.append("With these settings servers reject it: set ICEKEEPER__ACCESS_TOKENS=true.")
        self.stderr.write("\n".join(notes), self.style.SUCCESS)
        content = write_json(CreatedTokenResponse(row, context={"token": issued.text}).data).decode()
        self.stdout.write(content if options["json"] else issued.text)


def _owner(notes: list[str], *, user: str | None, service_account: str | None, create_user: bool, **_: Any) -> str:
    """Return the id of the token's owner; add to `notes` if it was created."""
    if user is None:
        return _service_account(notes, service_account or "")
    if create_user and create_local_user(actor=INTERNAL, user_id=user):
        notes.append(f"Created the user {user}.")
    return user


def _service_account(notes: list[str], name: str) -> str:
    known = ServiceAccount.objects.existing().named(name)
    found = known.first()
    if found is None:
        try:
            found = create_service_account(actor=INTERNAL, name=name)
            notes.append(f"Created the service account {name}, {found.user_id}.")
        except ServiceAccountExists:  # created concurrently
            found = known.get()
    return found.user_id
