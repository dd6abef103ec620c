"""Rows of the audit trail in the format of the API and of exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from catalog.objects.names import client_uuids
from catalog.objects.object_keys import TABULARS
from icekeeper.kernel.ids import parse_id
from tenancy.audit.records import canonical_text, record_document
from tenancy.models import AuditRecord

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


def _own_id(record: AuditRecord) -> UUID | None:
    return parse_id(record.object_id) if record.object_type in _TABULARS else None
