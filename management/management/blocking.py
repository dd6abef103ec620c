"""What `block_user` and `unblock_user` have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from tenancy.actor import INTERNAL, Actor


class Act(Protocol):
    def __call__(self, *, actor: Actor, user_id: str) -> bool:
        """Whether anything was changed."""


class BlockingCommand(BaseCommand):
    """Does `act` to one user, who `is_active` afterwards or not; both sentences follow the user's id."""

    act: ClassVar[Act]
    is_active: ClassVar[bool]
    done: ClassVar[str]
    was_so: ClassVar[str]

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="ID", help="such as oidc~alice, local~ann, icekeeper~<uuid>")
        parser.add_argument("--json", action="store_true", help="print what was done as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        user_id = options["user"]
        try:
            changed = type(self).act(actor=INTERNAL, user_id=user_id)
        except CatalogError as error:
            raise CommandError(error.message) from None
        told = {"user-id": user_id, "is-active": self.is_active, "changed": changed}
        sentence = f"{user_id} {self.done if changed else self.was_so}"
        self.stdout.write(write_json(told).decode() if options["json"] else sentence)
