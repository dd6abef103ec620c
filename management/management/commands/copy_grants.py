from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from management.management.operator_command import OperatorCommand, require_no_maintenance
from tenancy.authz.openfga.client import OpenFgaUnavailable
from tenancy.authz.openfga.reconciliation import ReconciliationResult, reconcile
from tenancy.authz.openfga.store import OpenFgaStore, install, openfga_store
from tenancy.authz.openfga.tuples import TupleKey
from tenancy.services.openfga_import import GrantImport, import_grants

BUILTIN, OPENFGA = "builtin", "openfga"


class Command(OperatorCommand):
    help = (
        "Copy grants before you change the authorization backend. `--from builtin --to openfga` creates the store and "
        "the model in OpenFGA and writes all grants to it; it deletes nothing there. `--from openfga --to builtin` "
        "imports the grants that exist only in OpenFGA and prints the tuples that cannot be imported. May be run "
        "again. See docs/openfga.md"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="source", choices=[BUILTIN, OPENFGA], required=True)
        parser.add_argument("--to", dest="target", choices=[BUILTIN, OPENFGA], required=True)
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["source"] == options["target"]:
            raise CommandError("--from and --to are the same")
        if settings.ICEKEEPER.openfga.endpoint is None:
            raise CommandError("LAKEKEEPER__OPENFGA__ENDPOINT is not set")
        require_no_maintenance("nothing is copied")
        try:
            to_openfga = options["target"] == OPENFGA
            copied = self._to_openfga(openfga_store()) if to_openfga else self._to_record(openfga_store())
        except OpenFgaUnavailable as failure:
            raise CommandError(f"OpenFGA: {failure.reason}") from failure
        self.print_result(options, copied, ", ".join(f"{count} {name}" for name, count in copied.items()))

    def _to_openfga(self, store: OpenFgaStore) -> dict[str, int]:
        def report(so_far: ReconciliationResult, last: str) -> None:
            self.stderr.write(f"{so_far.objects} objects, last: {last}")

        install(store)
        result = reconcile(store, mode="add-missing", is_dry_run=False, progress=report)
        return {"written": result.missing + result.differing}

    def _to_record(self, store: OpenFgaStore) -> dict[str, int]:
        def report(key: TupleKey, reason: str) -> None:
            self.stderr.write(f"not imported, {reason}: {key.object}#{key.relation}@{key.subject}")

        def progress(so_far: GrantImport) -> None:
            self.stderr.write(f"{so_far.added + so_far.present + so_far.expired + so_far.refused} tuples")

        found = import_grants(store, report=report, progress=progress)
        return {"added": found.added, "present": found.present, "expired": found.expired, "refused": found.refused}
