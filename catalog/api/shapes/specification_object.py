"""Objects that a specification describes better than a copy here could: schemas, snapshots, metadata as a whole.

They are open: members that this server does not know survive.
"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.extensions import OpenApiSerializerExtension
from rest_framework import serializers

REST_SPEC = "https://iceberg.apache.org/rest-catalog-spec/"
TABLE_SPEC = "https://iceberg.apache.org/spec/"
VIEW_SPEC = "https://iceberg.apache.org/view-spec/"


class SpecificationObject(serializers.Serializer[Any]):
    # An object whose members the specification at `link` describes; fields of a subclass are those that decide.
    link: ClassVar[str] = TABLE_SPEC


class SpecificationObjectSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Tells drf-spectacular how to write a `SpecificationObject`: it knows each such class that was imported."""

    target_class = SpecificationObject
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001
        return {**schema, "additionalProperties": True, "externalDocs": {"url": self.target.link}}
