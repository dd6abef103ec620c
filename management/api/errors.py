"""The error envelope as the OpenAPI document shows it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class ErrorModel(serializers.Serializer[None]):
    message = serializers.CharField()
    type = serializers.CharField(help_text="What clients switch on")
    code = serializers.IntegerField(help_text="The HTTP status")
    stack = serializers.ListField(child=serializers.CharField(), help_text="Ends with the error id of the log")


class ErrorEnvelope(serializers.Serializer[None]):
    error = ErrorModel()


ERRORS: dict[Any, Any] = {"4XX": ErrorEnvelope, "5XX": ErrorEnvelope}
