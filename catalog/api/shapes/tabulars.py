"""Bodies that tables, views and generic tables have in common."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from catalog.api.shapes.fields import protection_of_each, text_list, token_of_next_page, uuids_of
from icekeeper.kernel.http.serializers import KebabSerializer, Text


class TableIdentifier(serializers.Serializer[Any]):
    namespace = text_list(help_text="The levels of its namespace")
    name = Text()


class ListTablesResponse(KebabSerializer):
    identifiers = TableIdentifier(many=True, help_text="In order of creation")
    table_uuids = uuids_of("identifiers")
    protection_status = protection_of_each()
    next_page_token = token_of_next_page()


class RenameTableRequest(serializers.Serializer[Any]):
    source = TableIdentifier()  # type: ignore[assignment]  # a Field has a `source` too, but this is a declaration
    destination = TableIdentifier(help_text="In this namespace or in another one, which must exist")
