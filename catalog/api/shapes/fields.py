"""What the shapes are made of: bodies of the REST catalog as its OpenAPI document shows them.

No request passes through a shape. What the catalog itself reads and writes is described field by field.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from icekeeper.kernel.http.serializers import Text


def string_map(**options: Any) -> serializers.DictField:
    return serializers.DictField(child=Text(allow_blank=True), **options)


def text_list(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=Text(), **options)


def uuids_of(listed: str) -> serializers.ListField:
    """In a listing, beside its member `listed`."""
    return serializers.ListField(
        child=serializers.UUIDField(), required=False, help_text=f"With `returnUuids`, in the order of `{listed}`"
    )


def protection_of_each() -> serializers.ListField:
    """In a listing."""
    return serializers.ListField(
        child=serializers.BooleanField(), required=False, help_text="With `returnProtectionStatus`, in the same order"
    )


def token_of_next_page() -> Text:
    """In a listing."""
    return Text(required=False, help_text="Absent on the last page")
