from __future__ import annotations

from typing import Any

from rest_framework import serializers

from catalog.api.shapes.fields import string_map
from icekeeper.kernel.http.serializers import KebabSerializer, Text


class StorageCredential(serializers.Serializer[Any]):
    prefix = Text(help_text="Locations that begin with it are what the credential is for")
    config = string_map()


class LoadCredentialsResponse(KebabSerializer):
    storage_credentials = StorageCredential(many=True, help_text="Empty on local files, which need none")
