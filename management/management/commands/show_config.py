from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from icekeeper.conf.listing import ShownSetting, show_settings
from management.management.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = (
        "Print every setting with its value and its origin: the environment, or the default. Secrets are masked. "
        "Unknown variables with the prefixes of this server are listed at the end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--set", action="store_true", dest="only_set", help="only settings that the environment sets"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        shown = [each for each in show_settings(settings.ICEKEEPER) if each.is_set or not options["only_set"]]
        unread = list(settings.UNREAD_VARIABLES)
        if options["json"]:
            rows = [
                {"variable": each.variable, "value": each.value, "from": _origin(each), "secret": each.is_secret}
                for each in shown
            ]
            self.print_json({"settings": rows, "unread-variables": unread})
            return
        width = max((len(each.variable) for each in shown), default=0)
        for each in shown:
            value = "" if each.value is None else each.value
            self.stdout.write(f"{each.variable:<{width}}  {_origin(each):<11}  {value}".rstrip())
        if unread:
            self.stdout.write(f"Unknown variables: {', '.join(unread)}")


def _origin(setting: ShownSetting) -> str:
    return "environment" if setting.is_set else "default"
