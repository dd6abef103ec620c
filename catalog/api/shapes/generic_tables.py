from __future__ import annotations

from typing import Any

from rest_framework import serializers

from catalog.api.shapes.fields import string_map, token_of_next_page
from catalog.api.shapes.tabulars import TableIdentifier
from icekeeper.kernel.http.serializers import KebabSerializer, Text

_DESCRIBED = "Any JSON, kept as it is, order of keys included; at most 1 MiB"


class CreateGenericTableRequest(KebabSerializer):
    name = Text()
    format = serializers.RegexField(r"^[a-z][a-z0-9_-]{0,63}$", help_text="Such as lance or delta")
    base_location = Text(
        required=False,
        allow_null=True,
        help_text="A folder in the warehouse that neither lies in another table's folder nor holds one; files may be "
        "there already. Default: a folder of its own",
    )
    doc = Text(required=False, allow_null=True, allow_blank=True)
    properties = string_map(required=False, allow_null=True)
    schema = serializers.JSONField(required=False, allow_null=True, help_text=_DESCRIBED)
    statistics = serializers.JSONField(required=False, allow_null=True, help_text=_DESCRIBED)


class GenericTable(KebabSerializer):
    name = Text()
    format = Text()
    base_location = Text()
    protected = serializers.BooleanField(help_text="Whether a drop must be forced")
    doc = Text(allow_null=True, allow_blank=True)
    properties = string_map()
    schema = serializers.JSONField(allow_null=True)
    statistics = serializers.JSONField(allow_null=True)


class LoadGenericTableResponse(serializers.Serializer[Any]):
    table = GenericTable()
    config = string_map(help_text="Settings for this table; empty on local files")


class GenericTableIdentifier(TableIdentifier):
    format = Text()
    id = serializers.UUIDField()


class ListGenericTablesResponse(KebabSerializer):
    identifiers = GenericTableIdentifier(many=True, help_text="In order of creation")
    next_page_token = token_of_next_page()
