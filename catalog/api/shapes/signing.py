from __future__ import annotations

from typing import Any

from rest_framework import serializers

from catalog.api.shapes.fields import string_map, text_list
from icekeeper.kernel.http.serializers import Text

METHODS = ("PUT", "GET", "HEAD", "POST", "DELETE", "PATCH", "OPTIONS")


class RemoteSignRequest(serializers.Serializer[Any]):
    region = Text()
    uri = Text()
    method = serializers.ChoiceField(METHODS, help_text="Signed are GET, HEAD, PUT, POST and DELETE")
    headers = serializers.DictField(child=text_list())
    properties = string_map(required=False, allow_null=True)
    body = Text(required=False, allow_null=True, allow_blank=True, help_text="Of DeleteObjects")
    provider = serializers.ChoiceField(["s3"], required=False, allow_null=True)


class RemoteSignResult(serializers.Serializer[Any]):
    uri = Text(help_text="As in the request")
    headers = serializers.DictField(child=text_list(), help_text="Those of the request, and the signature's")
