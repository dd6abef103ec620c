"""Audit records as documents, as JSON lines and as CSV, in the form that hashes, responses and exports share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from django.http import StreamingHttpResponse

from catalog.objects import TABULARS, client_uuids, own_ids_of
from icekeeper.kernel.ids import parse_id
from management.csv_files import csv_response
from tenancy.audit.chain import record_document
from tenancy.audit.recording import canonical_text
from tenancy.models import AuditRecord
from tenancy.selectors.audit_records import AuditFilters

NDJSON: Final = "application/x-ndjson"
COLUMNS: Final = (
    "position", "at", "last-at", "count", "outcome", "event", "action", "reason", "actor", "assumed-role",
    "access-token", "object-type", "object-id", "object-uuid", "project-id", "request-id", "address", "forwarded-for",
    "user-agent", "details", "hash",
)  # fmt: skip

_TABULARS: Final = frozenset(each.value for each in TABULARS)


def audit_documents(records: Sequence[AuditRecord]) -> list[dict[str, Any]]:
    """Return the rows as documents with `object-uuid`, which the hash does not cover: the UUID that clients see of an
    existing table, view or generic table; None for other objects. One statement at most."""
    own_ids = [_own_id(record) for record in records]
    known = client_uuids({each for each in own_ids if each is not None})
    uuids = [None if each is None else known.get(each) for each in own_ids]
    return [
        record_document(record) | {"object-uuid": None if uuid is None else str(uuid)}
        for record, uuid in zip(records, uuids, strict=True)
    ]


def audit_lines(records: Sequence[AuditRecord]) -> str:
    """Return the lines of an export, each in canonical form."""
    return "".join(f"{canonical_text(document)}\n" for document in audit_documents(records))


def audit_lines_response(name: str, chunks: Iterable[Sequence[AuditRecord]]) -> StreamingHttpResponse:
    """Return the rows as the file `name` with JSON lines, sent while they are read."""
    response = StreamingHttpResponse((audit_lines(rows).encode() for rows in chunks), content_type=NDJSON)
    response["Content-Disposition"] = f'attachment; filename="{name}.ndjson"'
    return response


def audit_csv_response(name: str, chunks: Iterable[Sequence[AuditRecord]]) -> StreamingHttpResponse:
    """Return the rows as a CSV file, sent while they are read; `details` are JSON."""
    return csv_response(name, COLUMNS, (_cells(rows) for rows in chunks))


def with_own_ids(filters: AuditFilters) -> AuditFilters:
    """Let a filter by the UUID that clients see of a table, view or generic table also match its internal id."""
    uuid = parse_id(filters.object_id) if filters.object_id is not None else None
    if uuid is None:
        return filters
    return replace(filters, own_ids=tuple(map(str, own_ids_of(uuid, project_id=filters.project))))


def _cells(records: Sequence[AuditRecord]) -> Iterator[Sequence[object]]:
    for document in audit_documents(records):
        texts = {**document, "details": canonical_text(document["details"])}
        yield ["" if texts[name] is None else texts[name] for name in COLUMNS]


def _own_id(record: AuditRecord) -> UUID | None:
    return parse_id(record.object_id) if record.object_type in _TABULARS else None
