"""Audit records in responses and exports."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from management.api.serializers import LAST_PAGE, ResponseSerializer, Text
from tenancy.models import AuditRecord


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
