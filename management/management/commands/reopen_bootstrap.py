from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.json.strict import write_json
from tenancy.actor import INTERNAL
from tenancy.services.bootstrap import reopen_bootstrap


class Command(BaseCommand):
    help = (
        "Let bootstrap be called once more, for a deployment that has lost its administrators. The id of the server, "
        "its data and all grants stay. Whoever calls POST /management/v1/bootstrap first becomes administrator: let "
        "only them reach the server, or use `manage.py bootstrap --admin USER_ID`, which needs no reopening."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--yes", action="store_true", help="really")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["yes"]:
            raise CommandError("Whoever bootstraps next becomes administrator. Say --yes if that is what you want")
        is_reopened = reopen_bootstrap(actor=INTERNAL)
        if options["json"]:
            self.stdout.write(write_json({"reopened": is_reopened}).decode())
        elif is_reopened:
            self.stdout.write("Bootstrap is open again.")
        else:
            self.stdout.write("The catalog is not bootstrapped: there is nothing to reopen.")
