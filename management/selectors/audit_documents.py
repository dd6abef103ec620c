"""Rows of the audit trail as they are answered and exported: what was sealed, and by what clients know the object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from catalog.selectors.addressed import TABULARS
from catalog.selectors.client_uuids import client_uuids
from icekeeper.kernel.ids import parse_id
from tenancy.audit.document import document_of
from tenancy.audit.entries import canonical_text
from tenancy.models import AuditRecord

_TABULARS: Final = frozenset(each.value for each in TABULARS)


def documents_of(records: Sequence[AuditRecord]) -> list[dict[str, Any]]:
    """Each with `object-uuid`, which no hash covers: of a table, view or generic table that there is, the UUID that
    clients see; None of all else. One statement at most."""
    own_ids = [_own_id(record) for record in records]
    known = client_uuids({each for each in own_ids if each is not None})
    uuids = [None if each is None else known.get(each) for each in own_ids]
    return [
        document_of(record) | {"object-uuid": None if uuid is None else str(uuid)}
        for record, uuid in zip(records, uuids, strict=True)
    ]


def lines_of(records: Sequence[AuditRecord]) -> str:
    """Lines of an export, each in canonical form."""
    return "".join(f"{canonical_text(document)}\n" for document in documents_of(records))


def _own_id(record: AuditRecord) -> UUID | None:
    return parse_id(record.object_id) if record.object_type in _TABULARS else None
