"""Audit records in responses and exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from rest_framework import serializers

from catalog.objects import TABULARS, client_uuids
from icekeeper.kernel.ids import parse_id
from management.api.serializers import LAST_PAGE, ResponseSerializer, Text
from tenancy.audit.chain import record_document
from tenancy.audit.recording import canonical_text
from tenancy.models import AuditRecord

_TABULARS: Final = frozenset(each.value for each in TABULARS)


class AuditRecordResponse(ResponseSerializer):
    id = serializers.UUIDField()
    position = serializers.IntegerField(
        allow_null=True, help_text="Position in the hash chain; null for the few seconds until the record is sealed"
    )
    at = serializers.DateTimeField()
    last_at = serializers.DateTimeField(
        allow_null=True, help_text="Time of the last occurrence, if the record stands for several"
    )
    count = serializers.IntegerField(help_text="Number of equal occurrences that the record stands for")
    event = Text()
    action = Text(allow_null=True, help_text="The permission that was checked; for a denial without one, the operation")
    outcome = serializers.ChoiceField(AuditRecord.Outcome.values)
    reason = Text(allow_null=True, help_text="The actual reason of a denial")
    privilege_source = serializers.ChoiceField(
        AuditRecord.PrivilegeSource.values,
        allow_null=True,
        help_text="The source of the permission that the action needed",
    )
    actor = Text(help_text="A user's id, `anonymous`, `internal` for commands of the server, `*` for several users")
    assumed_role = serializers.UUIDField(allow_null=True)
    access_token = serializers.UUIDField(
        allow_null=True, help_text="The id of the access token, if this server issued it"
    )
    object_type = Text(allow_null=True)
    object_id = Text(allow_null=True)
    project_id = Text(allow_null=True)
    request_id = serializers.UUIDField(allow_null=True)
    address = Text(allow_null=True, help_text="The remote address of the connection: of a client or a proxy")
    forwarded_for = Text(
        allow_null=True, help_text="`x-forwarded-for` as received: as trustworthy as the proxies that wrote it"
    )
    user_agent = Text(allow_null=True)
    details = serializers.DictField(help_text="Further facts of the event")
    previous_hash = Text(allow_null=True)
    hash = Text(allow_null=True, help_text="SHA-256 of the previous hash and all other members but `object-uuid`")
    object_uuid = serializers.UUIDField(
        allow_null=True, help_text="The UUID that clients see, of a table, view or generic table that is not purged"
    )

    def to_representation(self, instance: dict[str, Any]) -> dict[str, Any]:
        return instance  # of `audit_documents`, the form that hashes and exports have, too


class AuditListResponse(ResponseSerializer):
    records = AuditRecordResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


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
