"""Serializers for strict JSON, whose JSON keys are written `like-this`; in Python their fields are named `like_this`."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class Text(serializers.CharField):
    """A JSON string, kept as it is; DRF's own field also takes numbers and trims."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class KebabSerializer(serializers.Serializer[Any]):
    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = {}
        for name, field in super().get_fields().items():
            key = name.replace("_", "-")
            if key != name:
                field.source = name
            fields[key] = field
        return fields
