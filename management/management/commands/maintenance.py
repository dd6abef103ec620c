from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from icekeeper.kernel.json.strict import write_json
from tenancy import maintenance
from tenancy.actor import INTERNAL
from tenancy.services.maintenance import switch_maintenance

SETTING = "LAKEKEEPER__MAINTENANCE_MODE=read-only"


class Command(BaseCommand):
    help = (
        "Switch maintenance mode while servers run: the APIs answer 503 with Retry-After to what would change "
        "something, reads go on, and workers and other writing in the background rest. Every server and worker knows "
        f"within {maintenance.KNOWN_SECONDS:g} s; requests that have begun are finished. The switch outlives restarts. "
        f"{SETTING} does the same for the processes that have it, whatever the switch says. Commands of manage.py "
        "still change what they are told to change."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=["on", "off", "status"])
        parser.add_argument("--json", action="store_true", help="print the state as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        changed = False
        if options["what"] == "status":
            maintenance.switch.look()
        else:
            changed = switch_maintenance(actor=INTERNAL, is_on=options["what"] == "on")
        is_on, is_set = maintenance.switch.is_on, maintenance.is_set_read_only()
        if options["json"]:
            state = {"maintenance-mode": maintenance.mode(), "switch": is_on, "setting": is_set, "changed": changed}
            self.stdout.write(write_json(state).decode())
            return
        if changed:
            soon = f"every server and worker knows within {maintenance.KNOWN_SECONDS:g} s"
            self.stdout.write(f"Maintenance mode is switched {'on' if is_on else 'off'}; {soon}.")
        else:
            already = "" if options["what"] == "status" else " already"
            self.stdout.write(f"Maintenance mode is {'on' if is_on else 'off'}{already}.")
        if is_set:
            self.stdout.write(f"{SETTING} is set here: processes with it stay read-only.")
