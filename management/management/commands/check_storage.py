from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.errors import CatalogError
from icekeeper.kernel.json_text import write_json
from storage.io.probe import ProbeStep, probe
from storage.io.stores import store_for
from storage.selectors.warehouses import get_warehouse_named_for
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project


class Command(BaseCommand):
    help = (
        "Try out the storage of a warehouse from this machine: write, read, list and delete a small object below its "
        "location, and say how each went. Exit status 0 when all went well, 1 when something failed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("warehouse", help="its name, or <project id>/<name>")
        parser.add_argument("--project-id", help="its project; default: the default project")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            named, _, name = options["warehouse"].rpartition("/")
            project = get_project(named or options["project_id"])
            warehouse = get_warehouse_named_for(actor=INTERNAL, project=project, name=name)
        except CatalogError as error:
            raise CommandError(error.message) from None
        kind = warehouse.storage_profile["type"]
        try:
            store = store_for(warehouse.storage)
        except CatalogError as error:
            raise CommandError(error.message) from None
        steps = list(probe(store, warehouse.location))
        self._tell(warehouse.location, kind, steps, options)
        if any(step.problem is not None for step in steps):
            raise CommandError(f"The storage of warehouse {warehouse.name} does not work")

    def _tell(self, location: str, kind: str, steps: list[ProbeStep], options: dict[str, Any]) -> None:
        if options["json"]:
            told = [{"step": step.name, "milliseconds": step.milliseconds, "problem": step.problem} for step in steps]
            is_ok = bool(steps) and all(step.problem is None for step in steps)
            answer = {"location": location, "type": kind, "ok": is_ok, "steps": told}
            self.stdout.write(write_json(answer).decode())
            return
        self.stdout.write(f"{kind} storage at {location}")
        for step in steps:
            self.stdout.write(f"  {step.name:<6}  {step.problem or 'ok'}  ({step.milliseconds:.1f} ms)")
