"""What requests about warehouses and their answers look like."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from icekeeper.kernel.http.serializers import KebabSerializer, Number, Text
from management.api.storage_shapes import StorageCredentialField, StorageProfileField
from storage.credentials.kinds import CREDENTIAL_TYPES, TYPES
from storage.models import Warehouse
from storage.profiles import kinds as profile_kinds


class DeleteProfile(KebabSerializer):
    """What a drop does: `hard` forgets a table at once, `soft` keeps it for some time, hidden."""

    type = serializers.ChoiceField(["hard", "soft"])
    expiration_seconds = serializers.IntegerField(
        required=False, min_value=0, help_text="`soft` only, and required there: how long a dropped table is kept"
    )


@extend_schema_field(DeleteProfile)
class DeleteProfileField(serializers.DictField):
    """Read by the storage room."""


def managed_by_field(**options: Any) -> serializers.ChoiceField:
    return serializers.ChoiceField(
        Warehouse.ManagedBy.values,
        help_text="With `instance-admin` only they may change the warehouse; what is in it is not affected",
        **options,
    )


class CreateWarehouseRequest(KebabSerializer):
    warehouse_name = Text(allow_blank=True, help_text="Unique in the project, at most 128 bytes; no slash")
    storage_profile = StorageProfileField()
    storage_credential = StorageCredentialField(help_text="A local warehouse takes none")
    delete_profile = DeleteProfileField(required=False, allow_null=True)
    allowed_format_versions = serializers.ListField(
        child=Number(), required=False, allow_null=True, max_length=100, help_text="Default: 1, 2 and 3"
    )
    default_format_version = Number(
        required=False, allow_null=True, help_text="Of tables that name none; default: 2 if allowed, else the highest"
    )
    managed_by = managed_by_field(required=False, allow_null=True)
    project_id = Text(required=False, allow_null=True, help_text="Deprecated: send x-project-id")


class RenameWarehouseRequest(KebabSerializer):
    new_name = Text(allow_blank=True, help_text="As `warehouse-name` of a new warehouse")


class UpdateDeleteProfileRequest(KebabSerializer):
    delete_profile = DeleteProfileField(allow_empty=False)


class UpdateFormatVersionPolicyRequest(KebabSerializer):
    allowed_format_versions = serializers.ListField(
        child=Number(), max_length=100, help_text="What tables may be made in and upgraded to"
    )
    default_format_version = Number(
        required=False, allow_null=True, help_text="Of tables that name none; default: 2 if allowed, else the highest"
    )


class SetManagedByRequest(KebabSerializer):
    managed_by = managed_by_field()


class UpdateStorageRequest(KebabSerializer):
    storage_profile = StorageProfileField()
    storage_credential = StorageCredentialField(
        help_text="Without it the warehouse has none from now on: the former one is not used again"
    )


class UpdateStorageCredentialRequest(KebabSerializer):
    new_storage_credential = StorageCredentialField(help_text="Without it the warehouse has none from now on")


class StorageCredentialType(KebabSerializer):
    """What kind of credential a warehouse has, and nothing of the credential itself."""

    type = serializers.ChoiceField(TYPES, help_text="The kind of store")
    credential_type = serializers.ChoiceField(CREDENTIAL_TYPES)


class WarehouseResponse(KebabSerializer):
    id = serializers.UUIDField(help_text="The same as `warehouse-id`")
    warehouse_id = serializers.UUIDField()
    name = Text()
    project_id = Text()
    status = serializers.ChoiceField(Warehouse.Status.values)
    protected = serializers.BooleanField(help_text="Whether it is deleted by force only")
    managed_by = managed_by_field()
    storage_profile = StorageProfileField()
    storage_credential_type = StorageCredentialType(allow_null=True)
    delete_profile = DeleteProfile()
    allowed_format_versions = serializers.ListField(child=serializers.IntegerField())
    default_format_version = serializers.IntegerField(allow_null=True)
    updated_at = serializers.DateTimeField()


class WarehouseListResponse(KebabSerializer):
    warehouses = WarehouseResponse(many=True)
    next_page_token = Text(required=False, allow_null=True, help_text="Only with `pageToken` or `pageSize`")


def warehouse_json(warehouse: Warehouse) -> dict[str, Any]:
    return {
        "id": str(warehouse.pk),
        "warehouse-id": str(warehouse.pk),
        "name": warehouse.name,
        "project-id": warehouse.project_id,
        "status": warehouse.status,
        "protected": warehouse.protected,
        "managed-by": warehouse.managed_by,
        "storage-profile": warehouse.storage_profile,
        "storage-credential-type": _credential_type_json(warehouse),
        "delete-profile": warehouse.delete_profile,
        "allowed-format-versions": warehouse.allowed_format_versions,
        "default-format-version": warehouse.default_format_version,
        "updated-at": warehouse.updated_at,
    }


def _credential_type_json(warehouse: Warehouse) -> dict[str, str] | None:
    if warehouse.credential_type is None:
        return None
    store = profile_kinds.CREDENTIAL_TYPES[warehouse.storage_profile["type"]]
    return {"type": store, "credential-type": warehouse.credential_type}
