"""OpenAPI descriptions of the operations of all APIs: their schema class, their responses and the error envelope."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentIdentity
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from icekeeper.kernel.json.shapes import Body, body_schema


class OperationSchema(AutoSchema):
    """Documents an operation by `extend_schema` alone; the docstrings of views are not published."""

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's own signature
        return ""

    def map_parsers(self) -> list[str]:
        return ["application/json"]

    def get_override_parameters(self) -> list[Any]:
        return [_RETRY_AFTER]

    def _is_list_view(self, serializer: Any = None) -> bool:
        """An action called `list` has the response that it describes, no array of it."""
        return False


_RETRY_AFTER = OpenApiParameter(
    "Retry-After", OpenApiTypes.INT, OpenApiParameter.HEADER, description="Seconds", response=[503]
)


class BodySchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Lets drf-spectacular accept a `Body` wherever it accepts a serializer."""

    target_class = Body

    def get_name(self, auto_schema: Any, direction: Any) -> str:
        return str(self.target.name)

    def get_identity(self, auto_schema: Any, direction: Any) -> Any:
        return ComponentIdentity(self.target)  # type: ignore[no-untyped-call]

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        return body_schema(self.target.shape, lambda body: auto_schema.resolve_serializer(body, direction).ref)


class ErrorModel(serializers.Serializer[None]):
    message = serializers.CharField(help_text="Description of the error")
    type = serializers.CharField(help_text="The kind of error, for programs")
    code = serializers.IntegerField(help_text="The HTTP status")
    stack = serializers.ListField(
        child=serializers.CharField(), help_text="One line, `Error ID: ...`: the `error_id` of the server's log lines"
    )


class ErrorEnvelope(serializers.Serializer[None]):
    """Every error of the APIs."""

    error = ErrorModel()


_EVERYWHERE: dict[int | str, str] = {
    400: "`BadRequestException`: malformed or invalid, see the message",
    401: "`MissingAuthorizationHeader`, `AuthenticationFailed`: no valid token, with authentication enabled",
    403: "`TableActionForbidden` and the like for other types of objects: the caller sees the object but lacks the "
    "permission; `InsufficientScope`: the token lacks a scope; `ForeignOrigin`: sent by a page of another site while "
    "authentication is disabled",
    408: "`RequestTimeoutException`: the time limit was reached before anything was written",
    500: "`InternalServerError`: the log of the server has the reason under the error id",
    503: "`SlowDownException`: too many requests, nothing was changed, retry after `Retry-After`",
    "4XX": "Another error of the request",
    "5XX": "Another error of the server",
}


def operation_responses(
    success: dict[int, Any], errors: dict[int, str] | None = None, *, has_body: bool = True
) -> dict[int | str, Any]:
    """Return the responses of an operation for `extend_schema`: `success`, its own `errors` and those of all.

    `success` is `empty_response(...)` or the shape of the body by status. A text for a status that every operation has
    is added to the common one. `has_body` is False for HEAD.
    """
    described = dict(_EVERYWHERE)
    for status, text in (errors or {}).items():
        described[status] = f"{described[status]}; {text}" if status in described else text
    shape = ErrorEnvelope if has_body else None
    by_status = sorted(described.items(), key=lambda item: str(item[0]))
    good: dict[int | str, Any] = {
        status: each if isinstance(each, OpenApiResponse) else OpenApiResponse(each, HTTPStatus(status).phrase)
        for status, each in success.items()
    }
    return {**good, **{status: OpenApiResponse(shape, text) for status, text in by_status}}


def empty_response(description: str, *, status: int = 204) -> dict[int, Any]:
    """Describe a response without a body."""
    return {status: OpenApiResponse(description=description)}
