"""The base class of the commands `block_user` and `unblock_user`."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from tenancy.actor import INTERNAL, Actor


class UserAction(Protocol):
    def __call__(self, *, actor: Actor, user_id: str) -> bool:
        """Apply the action; return whether it changed anything."""


class BlockingCommand(BaseCommand):
    """Apply `act` to one user. `is_active` is the state afterwards; both sentences follow the user's id."""

    act: ClassVar[UserAction]
    is_active: ClassVar[bool]
    done: ClassVar[str]
    unchanged: ClassVar[str]

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="ID", help="user id, such as oidc~alice, local~ann or icekeeper~<uuid>")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        user_id = options["user"]
        try:
            changed = type(self).act(actor=INTERNAL, user_id=user_id)
        except CatalogError as error:
            raise CommandError(error.message) from None
        result = {"user-id": user_id, "is-active": self.is_active, "changed": changed}
        sentence = f"{user_id} {self.done if changed else self.unchanged}"
        self.stdout.write(write_json(result).decode() if options["json"] else sentence)
