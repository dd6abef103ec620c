from __future__ import annotations

import sys
from getpass import getpass
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from icekeeper.kernel.db.transactions import write_transaction
from management.management.operator_command import OperatorCommand
from management.sign_in.local_accounts import set_password
from tenancy.actor import INTERNAL
from tenancy.services.users import create_local_user


class Command(OperatorCommand):
    help = (
        "Set the password of a local user, who can then sign in to the console if no identity provider is available. "
        "The sessions of the user are deleted. Servers accept passwords with ICEKEEPER__CONSOLE__LOCAL_ACCOUNTS=true."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="ID", help="id of the user: local~<name>")
        parser.add_argument("--create-user", action="store_true", help="create the user if it does not exist")
        parser.add_argument("--stdin", action="store_true", help="read the password from the first line of stdin")

    def handle(self, *args: Any, **options: Any) -> None:
        user_id = options["user"]
        password = sys.stdin.readline().rstrip("\r\n") if options["stdin"] else _ask_for_password()
        with write_transaction():  # no user is created if the password is rejected
            is_new = options["create_user"] and create_local_user(actor=INTERNAL, user_id=user_id)
            set_password(actor=INTERNAL, user_id=user_id, password=password)
        notes = [f"Created the user {user_id}."] if is_new else []
        notes.append(f"The password of {user_id} is set.")
        if not settings.ICEKEEPER.console.local_accounts:
            notes.append("With these settings servers reject it: set ICEKEEPER__CONSOLE__LOCAL_ACCOUNTS=true.")
        self.stderr.write("\n".join(notes), self.style.SUCCESS)


def _ask_for_password() -> str:
    password = getpass("Password: ")
    if password != getpass("Password (again): "):
        raise CommandError("The passwords differ")
    return password
