"""A row of the audit trail as JSON: what is told and exported of it, and what the hash is made of."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from tenancy.audit.entries import canonical_text
from tenancy.models import AuditRecord


def content_of(record: AuditRecord) -> dict[str, Any]:
    """Everything but the hashes."""
    return {
        "id": str(record.id),
        "position": record.position,
        "at": _time(record.at),
        "last-at": _time(record.last_at),
        "count": record.count,
        "event": record.event,
        "action": record.action or None,
        "outcome": str(record.outcome),
        "reason": record.reason or None,
        "privilege-source": str(record.privilege_source) or None,
        "actor": record.actor,
        "assumed-role": _id(record.assumed_role),
        "access-token": _id(record.access_token_id),
        "object-type": record.object_type or None,
        "object-id": record.object_id or None,
        "project-id": record.project_id or None,
        "request-id": _id(record.request_id),
        "address": record.address or None,
        "forwarded-for": record.forwarded_for or None,
        "user-agent": record.user_agent or None,
        "details": _details(record.details),
    }


def document_of(record: AuditRecord) -> dict[str, Any]:
    return content_of(record) | {"previous-hash": record.previous_hash or None, "hash": record.hash or None}


def hash_of(record: AuditRecord, previous_hash: str) -> str:
    """SHA-256, in hex, of the hash before, a line feed, and the canonical form of everything but the hashes.

    The canonical form has its keys in order, no spaces, and ASCII alone (`\\uXXXX` for the rest).
    """
    return sha256(f"{previous_hash}\n{canonical_text(content_of(record))}".encode()).hexdigest()


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="microseconds")


def _id(value: UUID | None) -> str | None:
    return None if value is None else str(value)


def _details(text: str) -> Any:
    """Of a row that somebody has tampered with, whatever there is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
