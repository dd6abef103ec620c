from __future__ import annotations

from catalog.api.shapes.fields import string_map, text_list
from icekeeper.kernel.http.serializers import KebabSerializer, Text


class CatalogConfig(KebabSerializer):
    defaults = string_map(help_text="Settings that a client's own come before, among them `prefix`: the warehouse's id")
    overrides = string_map(help_text="Settings that come before a client's own, among them `uri`: this catalog")
    endpoints = text_list(help_text="The operations that work, each as `VERB /path` of the specification")
    idempotency_key_lifetime = Text(
        required=False, help_text="How long a request may be sent again under its Idempotency-Key, such as PT30M"
    )
