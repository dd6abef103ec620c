from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand
from storage.models import Warehouse
from storage.selectors import get_warehouse_named_for
from storage.services.warehouse_storage import access_checks
from storage.validation.access import run_access_checks
from storage.validation.checks import STORE_CHECKS, Status, ValidationCheck
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project


class Command(OperatorCommand):
    help = (
        "Validate the storage of a warehouse from this machine, with the checks of its creation: write, read, list "
        "and delete a small object below its location, and verify that a vended credential cannot access anything "
        "else. Prints the result of each check. Exit status 1 if a check fails."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("warehouse", help="name of the warehouse, or <project id>/<name>")
        parser.add_argument("--project-id", help="project of the warehouse; default: the default project")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        named, _, name = options["warehouse"].rpartition("/")
        project = get_project(named or options["project_id"])
        warehouse = get_warehouse_named_for(actor=INTERNAL, project=project, name=name)
        checks = _checks(warehouse)
        has_failed = any(check.status == Status.FAILED for check in checks)
        kind = warehouse.storage_profile["type"]
        if options["json"]:
            summary = {"location": warehouse.location, "type": kind, "ok": not has_failed}
            self.print_json({**summary, "checks": [_json(check) for check in checks]})
        else:
            self.stdout.write(f"{kind} storage at {warehouse.location}")
            for check in checks:
                self.stdout.write(f"  {check.name:<34}  {_sentence(check)}")
        if has_failed:
            raise CommandError(f"The storage of warehouse {warehouse.name} does not work")


def _checks(warehouse: Warehouse) -> list[ValidationCheck]:
    """Return the checks of the store, and others that failed."""
    checks = access_checks(warehouse, run_access_checks)
    return [check for check in checks if check.name in STORE_CHECKS or check.status == Status.FAILED]


def _json(check: ValidationCheck) -> dict[str, Any]:
    problem = None if check.error is None else check.error.message
    return {
        "check": check.name.value,
        "status": check.status.value,
        "milliseconds": check.milliseconds,
        "problem": problem,
        "reason": check.reason,
    }


def _sentence(check: ValidationCheck) -> str:
    if check.error is not None:
        return check.error.message
    if check.status == Status.SKIPPED:
        return f"skipped: {check.reason}"
    return f"ok  ({check.milliseconds} ms)" + (f" {check.reason}" if check.reason else "")
