from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from management.selectors.audit_documents import lines_of
from tenancy import maintenance
from tenancy.actor import INTERNAL
from tenancy.audit.chain import seal_records
from tenancy.audit.log import Event, record
from tenancy.models import AuditRecord
from tenancy.selectors.audit_records import (
    CHUNK,
    AuditFilters,
    AuditRecordsDeleted,
    read_chunk,
    require_no_gap,
)
from tenancy.selectors.server import get_server


class Command(BaseCommand):
    help = (
        "Write the audit trail as JSON lines, in the order of its hash chain, to a new file or to standard output. "
        "Says at the end, on standard error, where to go on (--after) and the head of what was written (verify_audit "
        "--head). May be run beside servers. It seals what is not sealed yet and leaves a row of its own, but not in "
        "maintenance mode."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--after", type=int, default=0, metavar="POSITION", help="only rows behind this one")
        parser.add_argument("--limit", type=int, metavar="ROWS", help="so many rows at most")
        parser.add_argument("--output", metavar="FILE", help="a file that is not there yet; default: standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        after, limit = options["after"], options["limit"]
        if after < 0 or (limit is not None and limit < 1):
            raise CommandError("--after takes 0 or more, and --limit 1 or more")
        maintenance.switch.look()
        if not maintenance.is_read_only():
            seal_records(actor=INTERNAL)
        if options["output"] is None:
            count, last = _write(self.stdout.write, after, limit)
        else:
            count, last = _write_file(Path(options["output"]), after, limit)
        if not maintenance.is_read_only():
            subject = get_server().server_id
            record(Event.AUDIT_EXPORTED, actor=INTERNAL, subject=subject, object_type="server", after=after, rows=count)
        if last is None:
            self.stderr.write("There is nothing to export.")
        else:
            head = f"{last.position}:{last.hash}"
            self.stderr.write(f"Exported {count} rows. To go on: --after {last.position}. Head: {head}")


def _write_file(path: Path, after: int, limit: int | None) -> tuple[int, AuditRecord | None]:
    try:
        with path.open("x", encoding="ascii") as file:
            return _write(file.write, after, limit)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _write(write: Callable[[str], object], after: int, limit: int | None) -> tuple[int, AuditRecord | None]:
    """How many rows, and the last one."""
    count, last = 0, None
    for rows in _chunks(after, limit):
        write(lines_of(rows))
        count, last = count + len(rows), rows[-1]
    return count, last


def _chunks(after: int, limit: int | None) -> Iterator[list[AuditRecord]]:
    """None of them is empty."""
    left = limit
    while left is None or left > 0:
        rows = read_chunk(AuditFilters(), after=after, limit=CHUNK if left is None else min(left, CHUNK))
        try:
            require_no_gap(after)
        except AuditRecordsDeleted as gap:
            raise CommandError(gap.message) from None
        if rows:
            yield rows
        if len(rows) < CHUNK:
            return
        after, left = rows[-1].position or 0, None if left is None else left - len(rows)
