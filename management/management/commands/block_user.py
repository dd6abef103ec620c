from __future__ import annotations

from typing import Any, ClassVar, Protocol

from django.core.management.base import CommandParser

from management.management.operator_command import OperatorCommand
from tenancy.actor import INTERNAL, Actor
from tenancy.services.users import block_user


class UserAction(Protocol):
    def __call__(self, *, actor: Actor, user_id: str) -> bool:
        """Apply the action; return whether it changed anything."""


class Command(OperatorCommand):
    help = (
        "Block a user: access tokens of this server are rejected within 5 seconds, tokens of identity providers "
        "within a minute. Grants and tokens are kept; unblock_user allows the user again."
    )
    act: ClassVar[UserAction] = staticmethod(block_user)
    is_active: ClassVar[bool] = False
    """The state of the user afterwards."""
    done: ClassVar[str] = "is blocked."
    unchanged: ClassVar[str] = "is already blocked."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="ID", help="user id, such as oidc~alice, local~ann or icekeeper~<uuid>")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        user_id = options["user"]
        changed = type(self).act(actor=INTERNAL, user_id=user_id)
        result = {"user-id": user_id, "is-active": self.is_active, "changed": changed}
        sentence = f"{user_id} {self.done if changed else self.unchanged}"
        self.print_result(options, result, sentence)
