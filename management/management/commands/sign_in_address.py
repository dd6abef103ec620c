from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand
from management.management.reachable_address import reachable_base_url
from management.sign_in.addresses import create_sign_in_address
from tenancy.actor import INTERNAL
from tenancy.services.users import create_local_user


class Command(OperatorCommand):
    help = (
        "Print an address on stdout that signs a user in to the console once, within 15 minutes. Anyone who opens it "
        "first gets the session, so send it only over a private channel. The session has the grants of the user, "
        "without roles of an identity provider."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", metavar="ID", required=True, help="id of the user, such as local~admin")
        parser.add_argument(
            "--create-user", action="store_true", help="create the user --user local~<name> if it does not exist"
        )
        parser.add_argument(
            "--base-url",
            metavar="URL",
            help="public URL of the server; default: LAKEKEEPER__BASE_URI, else its address on this machine",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        own = settings.ICEKEEPER
        if not own.console.enabled:
            raise CommandError("The console is disabled: ICEKEEPER__CONSOLE__ENABLED is false")
        user_id, base_url = options["user"], (options["base_url"] or reachable_base_url(own)).rstrip("/")
        if options["create_user"] and create_local_user(actor=INTERNAL, user_id=user_id):
            self.stderr.write(f"Created the user {user_id}.", self.style.SUCCESS)
        address = create_sign_in_address(actor=INTERNAL, user_id=user_id, base_url=base_url)
        self.stderr.write(f"This address signs {user_id} in once, within 15 minutes:", self.style.SUCCESS)
        self.stdout.write(address)
