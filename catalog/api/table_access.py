"""How engines get at a table's files: with credentials, or with requests that are signed for them."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from catalog.api.base import IcebergView
from catalog.api.operations import table_access as operations
from catalog.iceberg.json_fields import (
    as_string_map,
    optional_string,
    read_object,
    read_string,
    read_string_list,
    wrong_type,
)
from catalog.models import Tabular
from catalog.services.signing import METHODS, sign_request


class TableCredentialsView(IcebergView):
    @operations.load_credentials
    def get(self, request: Request, **_: Any) -> HttpResponse:
        return self.credentials(request, Tabular.Kind.TABLE)


class SignRequestView(IcebergView):
    @operations.sign_request
    def post(self, request: Request, **_: Any) -> HttpResponse:
        method = _method_to_sign(self.body(request))
        sign_request(actor=self.actor, warehouse_id=self.warehouse_id, table=self.identifier, method=method)


def _method_to_sign(body: dict[str, Any]) -> str:
    """The method of a RemoteSignRequest, all of which is checked. Raises `BadRequest`."""
    for name in ("region", "uri"):
        read_string(body, name, "")
    headers = read_object(body, "headers", "")
    for name in headers:
        read_string_list(headers, name, "headers")
    if body.get("properties") is not None:
        as_string_map(body["properties"], "properties")
    for name in ("body", "provider"):
        optional_string(body, name, "")
    method = read_string(body, "method", "")
    if method not in METHODS:
        raise wrong_type("method", f"one of {', '.join(METHODS)}", method)
    return method
