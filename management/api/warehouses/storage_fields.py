"""Fields for storage profiles and credentials, which `storage` parses: their schemas are those of its shapes."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from pydantic import BaseModel
from rest_framework import serializers

from storage import credentials
from storage.profiles import kinds as profile_kinds

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
        return {"oneOf": [{"$ref": _component(auto_schema, shape)} for shape in credentials.KINDS]}


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
