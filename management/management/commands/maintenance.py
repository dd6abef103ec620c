from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from management.management.operator_command import OperatorCommand
from tenancy import maintenance
from tenancy.actor import INTERNAL
from tenancy.services.server import switch_maintenance

SETTING = "LAKEKEEPER__MAINTENANCE_MODE=read-only"


class Command(OperatorCommand):
    help = (
        "Switch maintenance mode on or off while servers run: the APIs respond with 503 and Retry-After to every "
        "change, reads continue, and workers and background jobs pause. Every server and worker applies it within "
        f"{maintenance.KNOWN_SECONDS:g} s; requests that have begun are finished. The switch survives restarts. "
        f"{SETTING} has the same effect on the processes that set it, independent of the switch. Commands of manage.py "
        "still write."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=["on", "off", "status"])
        parser.add_argument("--json", action="store_true", help="print the state as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        changed = False
        if options["what"] == "status":
            maintenance.switch.refresh()
        else:
            changed = switch_maintenance(actor=INTERNAL, is_on=options["what"] == "on")
        is_on, is_set = maintenance.switch.is_on, maintenance.is_read_only_by_setting()
        if options["json"]:
            state = {"maintenance-mode": maintenance.mode(), "switch": is_on, "setting": is_set, "changed": changed}
            self.print_json(state)
            return
        if changed:
            soon = f"every server and worker applies it within {maintenance.KNOWN_SECONDS:g} s"
            self.stdout.write(f"Maintenance mode is {'on' if is_on else 'off'}; {soon}.")
        else:
            already = "" if options["what"] == "status" else "already "
            self.stdout.write(f"Maintenance mode is {already}{'on' if is_on else 'off'}.")
        if is_set:
            self.stdout.write(f"{SETTING} is set: processes with this setting stay read-only.")
