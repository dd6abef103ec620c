from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from management.audit_files import audit_lines
from management.management.operator_command import OperatorCommand
from tenancy import maintenance
from tenancy.actor import INTERNAL
from tenancy.audit.chain import seal_records
from tenancy.audit.occurrences import record_export
from tenancy.models import AuditRecord
from tenancy.selectors.audit_records import (
    CHUNK,
    AuditFilters,
    read_chunk,
    require_no_gap,
)
from tenancy.selectors.projects import get_server


class Command(OperatorCommand):
    help = (
        "Export the audit trail as JSON lines, in the order of its hash chain, to a new file or to standard output. "
        "At the end it prints on standard error the position to continue from (--after) and the head of the exported "
        "rows (verify_audit --head). Servers may run. Except in maintenance mode, it seals new rows first and adds an "
        "audit row of its own."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--after", type=int, default=0, metavar="POSITION", help="only rows after this position")
        parser.add_argument("--limit", type=int, metavar="ROWS", help="maximum number of rows")
        parser.add_argument("--output", metavar="FILE", help="a new file; default: standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        after, limit = options["after"], options["limit"]
        if after < 0 or (limit is not None and limit < 1):
            raise CommandError("--after takes 0 or more, and --limit 1 or more")
        maintenance.switch.refresh()
        if not maintenance.is_read_only():
            seal_records(actor=INTERNAL)
        if options["output"] is None:
            count, last = _write(self.stdout.write, after, limit)
        else:
            count, last = _write_file(Path(options["output"]), after, limit)
        if not maintenance.is_read_only():
            record_export(actor=INTERNAL, server_id=get_server().server_id, after=after, rows=count)
        if last is None:
            self.stderr.write("Nothing to export.")
        else:
            head = f"{last.position}:{last.hash}"
            self.stderr.write(f"Exported {count} rows. Continue with --after {last.position}. Head: {head}")


def _write_file(path: Path, after: int, limit: int | None) -> tuple[int, AuditRecord | None]:
    try:
        with path.open("x", encoding="ascii") as file:
            return _write(file.write, after, limit)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error


def _write(write: Callable[[str], object], after: int, limit: int | None) -> tuple[int, AuditRecord | None]:
    """Write the rows; return their number and the last one."""
    count, last = 0, None
    for rows in _chunks(after, limit):
        write(audit_lines(rows))
        count, last = count + len(rows), rows[-1]
    return count, last


def _chunks(after: int, limit: int | None) -> Iterator[list[AuditRecord]]:
    """Yield the rows in chunks that are never empty."""
    left = limit
    while left is None or left > 0:
        rows = read_chunk(AuditFilters(), after=after, limit=CHUNK if left is None else min(left, CHUNK))
        require_no_gap(after)
        if rows:
            yield rows
        if len(rows) < CHUNK:
            return
        after, left = rows[-1].position or 0, None if left is None else left - len(rows)
