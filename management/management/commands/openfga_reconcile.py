from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.json.strict import write_json
from tenancy import maintenance
from tenancy.authz.openfga.failures import OpenFgaUnavailable
from tenancy.authz.openfga.reconciliation import Outcome, StoreIsShared, reconcile
from tenancy.authz.openfga.store import openfga_store


class Command(BaseCommand):
    help = (
        "Hold what OpenFGA has against the rights on record, and deliver what differs. Servers may run. May be stopped "
        "at any time; the next call begins anew, or behind the object that was printed last (--after). Exit status 1 "
        "when OpenFGA cannot be asked."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--mode",
            choices=["add-missing", "add-and-delete-drift"],
            default="add-missing",
            help="leave alone what OpenFGA has and the record has not, or delete it, too",
        )
        parser.add_argument(
            "--owns-store",
            action="store_true",
            help="the store is this server's alone: delete even though it has models that others wrote",
        )
        parser.add_argument("--dry-run", action="store_true", help="change nothing, say what would be")
        parser.add_argument("--after", default="", help="begin behind this object, such as table:0198e0f4-...")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.ICEKEEPER.openfga.endpoint is None:
            raise CommandError("LAKEKEEPER__OPENFGA__ENDPOINT is not set")
        maintenance.switch.look()
        if maintenance.is_read_only() and not options["dry_run"]:
            raise CommandError("Maintenance mode is read-only: only --dry-run")

        def tell(so_far: Outcome, last: str) -> None:
            if not options["json"]:
                self.stderr.write(f"{so_far.objects} objects, the last one {last}")

        try:
            outcome = reconcile(
                openfga_store(),
                mode=options["mode"],
                is_dry_run=options["dry_run"],
                owns_store=options["owns_store"],
                after=options["after"],
                progress=tell,
            )
        except OpenFgaUnavailable as failure:
            raise CommandError(f"OpenFGA: {failure.reason}") from None
        except StoreIsShared as refusal:
            raise CommandError(
                f"The store may hold tuples of others, nothing was changed: {refusal}. Look with --dry-run; where the "
                "store is this server's alone, say so with --owns-store"
            ) from None
        counts = {
            "objects": outcome.objects,
            "missing": outcome.missing,
            "differing": outcome.differing,
            "drifted": outcome.drifted,
            "foreign": outcome.foreign,
        }
        if options["json"]:
            self.stdout.write(write_json({**counts, "dry-run": options["dry_run"]}).decode())
            return
        for each in outcome.examples:
            self.stdout.write(each)
        what = "would be delivered" if options["dry_run"] else "delivered"
        self.stdout.write(
            f"Objects: {outcome.objects}. Tuples {what}: {outcome.missing} that were missing, {outcome.differing} that "
            f"end at another time, {outcome.drifted} that nothing on record says. Left alone: {outcome.foreign} that "
            "the model has no word for."
        )
