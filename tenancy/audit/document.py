"""JSON form of an audit record, for responses and exports, and the hash of that form."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from tenancy.audit.entries import canonical_text
from tenancy.models import AuditRecord


def record_content(record: AuditRecord) -> dict[str, Any]:
    """Return all fields of the record except the hashes."""
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


def record_document(record: AuditRecord) -> dict[str, Any]:
    return record_content(record) | {"previous-hash": record.previous_hash or None, "hash": record.hash or None}


def record_hash(record: AuditRecord, previous_hash: str) -> str:
    """Return the SHA-256 (hex) of the previous hash, a line feed, and the canonical JSON of all fields but the hashes.

    Canonical JSON has sorted keys, no spaces, and ASCII only (`\\uXXXX` for other characters).
    """
    return sha256(f"{previous_hash}\n{canonical_text(record_content(record))}".encode()).hexdigest()


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="microseconds")


def _id(value: UUID | None) -> str | None:
    return None if value is None else str(value)


def _details(text: str) -> Any:
    """Parse the details; return the text itself if it is no JSON, as after manipulation of the row."""
    try:
        return json.loads(text)
    except ValueError:
        return text
