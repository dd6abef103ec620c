from __future__ import annotations

from typing import Any

from rest_framework import serializers

from catalog.api.shapes.fields import protection_of_each, string_map, text_list, token_of_next_page, uuids_of
from icekeeper.kernel.http.serializers import KebabSerializer


class CreateNamespaceRequest(serializers.Serializer[Any]):
    namespace = text_list(help_text="Its levels, from the first; at most 5, and the ones above it must exist")
    properties = string_map(
        required=False,
        allow_null=True,
        help_text="`location` chooses, for good, the folder in the warehouse below which its tables lie; default: what "
        "the storage layout of the warehouse says. `namespace_id` and `managed_access` are passed over. Keys "
        "may be in any case",
    )


class NamespaceResponse(serializers.Serializer[Any]):
    namespace = text_list(help_text="Its levels")
    properties = string_map(help_text="With `namespace_id` and `location`, which ends with a slash")


class LoadNamespaceResponse(KebabSerializer, NamespaceResponse):
    namespace_uuid = serializers.UUIDField(required=False, help_text="With `returnUuid`")


class ListNamespacesResponse(KebabSerializer):
    namespaces = serializers.ListField(child=text_list(), help_text="Direct children, in order of creation")
    namespace_uuids = uuids_of("namespaces")
    protection_status = protection_of_each()
    next_page_token = token_of_next_page()


class UpdateNamespacePropertiesRequest(serializers.Serializer[Any]):
    removals = text_list(required=False, allow_null=True, help_text="Keys to remove")
    updates = string_map(required=False, allow_null=True, help_text="Keys to set")


class UpdateNamespacePropertiesResponse(serializers.Serializer[Any]):
    updated = text_list(help_text="Keys that were set")
    removed = text_list(help_text="Keys that were removed")
    missing = text_list(help_text="Keys to remove that were not there")
