from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand
from tenancy import maintenance
from tenancy.authz.openfga.client import OpenFgaUnavailable
from tenancy.authz.openfga.reconciliation import ReconciliationResult, StoreIsShared, reconcile
from tenancy.authz.openfga.store import openfga_store


class Command(OperatorCommand):
    help = (
        "Compare the tuples in OpenFGA with the grants in the database, and write the difference to OpenFGA. Servers "
        "may run. The command may be stopped at any time; run it again, or continue after the last printed object "
        "with --after. Exit status 1 if OpenFGA is unavailable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--mode",
            choices=["add-missing", "add-and-delete-drift"],
            default="add-missing",
            help="keep tuples that exist only in OpenFGA (the default), or delete them too",
        )
        parser.add_argument(
            "--owns-store",
            action="store_true",
            help="no other application uses the store: delete even if it contains models of other applications",
        )
        parser.add_argument("--dry-run", action="store_true", help="change nothing, print what would change")
        parser.add_argument("--after", default="", help="start after this object, such as table:0198e0f4-...")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.ICEKEEPER.openfga.endpoint is None:
            raise CommandError("LAKEKEEPER__OPENFGA__ENDPOINT is not set")
        maintenance.switch.refresh()
        if maintenance.is_read_only() and not options["dry_run"]:
            raise CommandError("Maintenance mode is read-only: only --dry-run is allowed")

        def report(so_far: ReconciliationResult, last: str) -> None:
            if not options["json"]:
                self.stderr.write(f"{so_far.objects} objects, last: {last}")

        try:
            found = reconcile(
                openfga_store(),
                mode=options["mode"],
                is_dry_run=options["dry_run"],
                owns_store=options["owns_store"],
                after=options["after"],
                progress=report,
            )
        except OpenFgaUnavailable as failure:
            raise CommandError(f"OpenFGA: {failure.reason}") from failure
        except StoreIsShared as error:
            raise CommandError(
                f"The store may contain tuples of other applications, nothing was changed: {error}. Check with "
                "--dry-run; if no other application uses the store, add --owns-store"
            ) from None
        counts = {
            "objects": found.objects,
            "missing": found.missing,
            "differing": found.differing,
            "drifted": found.drifted,
            "foreign": found.foreign,
        }
        if options["json"]:
            self.print_json({**counts, "dry-run": options["dry_run"]})
            return
        for each in found.examples:
            self.stdout.write(each)
        status = "to write" if options["dry_run"] else "written"
        self.stdout.write(
            f"Objects: {found.objects}. Tuples {status}: {found.missing} missing, {found.differing} with another "
            f"expiry, {found.drifted} without a grant in the database. Ignored: {found.foreign} that are not part "
            "of the model."
        )
