"""Requests and responses about warehouses and the validation of their storage."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import extend_schema_field
from pydantic import BaseModel
from rest_framework import serializers

from icekeeper.kernel.ids import new_id
from management.api.schema import WITH_EXTENSIONS
from management.api.serializers import KebabSerializer, Number, ResponseSerializer, Text
from storage.credentials import CREDENTIAL_TYPES, KINDS, TYPES
from storage.models import Warehouse
from storage.profiles import kinds as profile_kinds
from storage.validation.checks import CheckName, Status, ValidationCheck

_REFERENCE = "#/components/schemas/"


class StorageProfileField(serializers.DictField):
    """A storage profile of any type."""


class StorageCredentialField(serializers.DictField):
    """A credential of any type; never returned."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, allow_null=True, write_only=True, **options)


class StorageProfileShapes(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = StorageProfileField

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        mapping = {kind: _component(auto_schema, shape) for kind, shape in profile_kinds.TYPES.items()}
        one_of = [{"$ref": reference} for reference in mapping.values()]
        return {"oneOf": one_of, "discriminator": {"propertyName": "type", "mapping": mapping}}


class StorageCredentialShapes(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = StorageCredentialField

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {"oneOf": [{"$ref": _component(auto_schema, shape)} for shape in KINDS]}


def _component(auto_schema: AutoSchema, shape: type[BaseModel]) -> str:
    """The reference to the component of a shape, which is registered with those that it needs."""
    schema = shape.model_json_schema(by_alias=True, ref_template=_REFERENCE + "{model}")
    parts = {**schema.pop("$defs", {}), shape.__name__: schema}
    for name, part in parts.items():
        component = ResolvedComponent(name, ResolvedComponent.SCHEMA, _as_openapi(part), name)  # type: ignore[no-untyped-call]
        auto_schema.registry.register_on_missing(component)
    return _REFERENCE + shape.__name__


def _as_openapi(schema: Any) -> Any:
    """JSON Schema in the words of OpenAPI 3.0, which knows neither `const` nor the type null."""
    if isinstance(schema, list):
        return [_as_openapi(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    members = {name: _as_openapi(value) for name, value in schema.items() if not _is_noise(name, value)}
    if {"type": "null"} in members.get("anyOf", ()):
        only = next(each for each in members.pop("anyOf") if each != {"type": "null"})
        members = {**({"allOf": [only]} if "$ref" in only else only), **members, "nullable": True}
    if "const" in members:
        members["enum"] = [members.pop("const")]
    return members


def _is_noise(name: str, value: Any) -> bool:
    """Titles that repeat names; and a null as default, which is no value of OpenAPI 3.0."""
    return (name == "title" and isinstance(value, str)) or (name == "default" and value is None)


class DeleteProfile(KebabSerializer):
    """`hard` deletes a dropped table at once; `soft` keeps it for a time, hidden, so that it can be restored."""

    type = serializers.ChoiceField(["hard", "soft"])
    expiration_seconds = serializers.IntegerField(
        required=False,
        min_value=0,
        help_text="Required with `soft`, and only there: how long a dropped table can be restored",
    )


@extend_schema_field(DeleteProfile)
class DeleteProfileField(serializers.DictField):
    """Read by `storage.services`."""


def managed_by_field(**options: Any) -> serializers.ChoiceField:
    return serializers.ChoiceField(
        Warehouse.ManagedBy.values,
        help_text="With `instance-admin` only instance admins may change the warehouse; objects in it are not affected",
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
    new_name = Text(allow_blank=True, help_text="The rules for `warehouse-name` of a new warehouse apply")


class UpdateDeleteProfileRequest(KebabSerializer):
    delete_profile = DeleteProfileField(allow_empty=False)


class UpdateFormatVersionPolicyRequest(KebabSerializer):
    allowed_format_versions = serializers.ListField(
        child=Number(),
        max_length=100,
        help_text="Format versions in which tables may be created and to which they may be upgraded",
    )
    default_format_version = Number(
        required=False, allow_null=True, help_text="Of tables that name none; default: 2 if allowed, else the highest"
    )


class SetManagedByRequest(KebabSerializer):
    managed_by = managed_by_field()


class UpdateStorageRequest(KebabSerializer):
    storage_profile = StorageProfileField()
    storage_credential = StorageCredentialField(
        help_text="When absent, the warehouse has no credential afterwards: the previous one is not kept"
    )


class UpdateStorageCredentialRequest(KebabSerializer):
    new_storage_credential = StorageCredentialField(help_text="When absent, the warehouse has no credential afterwards")


class StorageCredentialType(ResponseSerializer):
    """The type of a warehouse's credential, without the credential itself."""

    type = serializers.ChoiceField(TYPES, help_text="The type of the object store")
    credential_type = serializers.ChoiceField(CREDENTIAL_TYPES)


class WarehouseResponse(ResponseSerializer):
    id = serializers.UUIDField(source="pk", help_text="The same as `warehouse-id`")
    warehouse_id = serializers.UUIDField(source="pk")
    name = Text()
    project_id = Text()
    status = serializers.ChoiceField(Warehouse.Status.values)
    protected = serializers.BooleanField(help_text="Whether deleting it needs `force`")
    managed_by = managed_by_field()
    storage_profile = StorageProfileField()
    storage_credential_type = StorageCredentialType(allow_null=True)
    delete_profile = DeleteProfile()
    allowed_format_versions = serializers.ListField(child=serializers.IntegerField())
    default_format_version = serializers.IntegerField(allow_null=True)
    updated_at = serializers.DateTimeField()

    def render_storage_credential_type(self, warehouse: Warehouse) -> dict[str, str] | None:
        if warehouse.credential_type is None:
            return None
        store = profile_kinds.CREDENTIAL_TYPES[warehouse.storage_profile["type"]]
        return {"type": store, "credential_type": warehouse.credential_type}


class WarehouseListResponse(ResponseSerializer):
    warehouses = WarehouseResponse(many=True)
    next_page_token = Text(required=False, allow_null=True, help_text="Only with `pageToken` or `pageSize`")


class CheckError(ResponseSerializer):
    message = Text()
    type = Text(help_text="The error type that the request itself would have")
    code = serializers.IntegerField(help_text="Its HTTP status")
    stack = serializers.ListField(child=Text())


class CheckResponse(ResponseSerializer):
    name = serializers.ChoiceField(
        list(CheckName),
        help_text="What a passed check has verified. `remote-signing` is listed "
        f"{WITH_EXTENSIONS[0].lower()}{WITH_EXTENSIONS[1:]}; without it `vended-credentials-scope-enforced` has its "
        "result",
    )
    status = serializers.ChoiceField(list(Status))
    duration_ms = serializers.IntegerField(
        source="milliseconds", allow_null=True, required=False, help_text="Absent when the check was skipped"
    )
    reason = Text(allow_null=True, required=False, help_text="Why the check was skipped, or what it found")
    error = CheckError(allow_null=True, required=False, help_text="The error of a failed check")

    def render_name(self, check: ValidationCheck) -> str:
        return check.name.value

    def render_status(self, check: ValidationCheck) -> str:
        return check.status.value

    def render_error(self, check: ValidationCheck) -> dict[str, Any] | None:
        return None if check.error is None else check.error.envelope(error_id=str(new_id()))["error"]


class ValidationResponse(ResponseSerializer):
    """All checks in the order in which they run, whatever their result."""

    valid = serializers.BooleanField(help_text="Whether no check failed; a skipped check proves nothing")
    checks = CheckResponse(many=True)
