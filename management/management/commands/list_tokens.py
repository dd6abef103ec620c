from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from management.api.tokens.serializers import AccessTokenResponse
from management.management.operator_command import OperatorCommand
from tenancy.models import AccessToken

COLUMNS = ("id", "user-id", "name", "status", "expires-at", "last-used-at", "scopes")


class Command(OperatorCommand):
    help = (
        "List access tokens, oldest first, one per line, tab-separated. The tokens themselves are not stored and never "
        "shown. Tokens that have ended are omitted without --all, and are deleted 90 days after their end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--user", metavar="ID", help="only tokens of this user, such as local~alice or icekeeper~<uuid>"
        )
        parser.add_argument("--all", action="store_true", help="include tokens that have ended")
        parser.add_argument(
            "--json", action="store_true", help="print JSON, one object per line, as in the management API"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        tokens = AccessToken.objects.order_by("pk")
        if options["user"] is not None:
            tokens = tokens.filter(user_id=options["user"])
        if not options["json"]:
            self.stdout.write("\t".join(COLUMNS))
        for token in tokens.iterator():
            known = AccessTokenResponse(token).data
            if options["all"] or known["status"] in {"active", "replaced"}:
                self.print_result(options, known, _line(known))


def _line(known: dict[str, Any]) -> str:
    cells = {**known, "scopes": " ".join(known["scopes"])}
    for at in ("expires-at", "last-used-at"):
        cells[at] = f"{known[at]:%Y-%m-%d %H:%M}" if known[at] is not None else "never"
    return "\t".join(str(cells[column]) for column in COLUMNS)
