"""Requests to the object store that engines send signed: one route for each way to say whose files they are about."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse

from catalog.api.base import IcebergView, json_answer
from catalog.api.operations import signing as operations
from catalog.api.shapes.signing import METHODS
from catalog.errors import no_such_object
from catalog.iceberg.json_fields import (
    as_string_map,
    optional_string,
    read_object,
    read_string,
    read_string_list,
    wrong_type,
)
from catalog.services.signing import (
    Signed,
    refuse_without_warehouse,
    sign_by_id,
    sign_by_location,
    sign_by_name,
    sign_staged,
)
from catalog.services.tables.staging import StagingTicket
from icekeeper.kernel.http.raw_path import decode_id, decode_segment
from storage.signing.request import READING_METHODS, RequestToSign


class SigningView(IcebergView):
    """Nothing is changed here; but a signature for a change needs what a change needs."""

    posts_read: ClassVar = True

    def given(self, request: HttpRequest) -> RequestToSign:
        """Return the RemoteSignRequest. Raises `BadRequest`, and what `authenticate_request` raises for writes."""
        given = _request_to_sign(self.body(request))
        if given.method not in READING_METHODS:
            self.admit_change(request)
        return given

    def answer(self, given: RequestToSign, signed: Signed) -> HttpResponse:
        """RemoteSignResult. Java's clients keep it where the header says exactly `private`."""
        answer = json_answer({"uri": given.uri, "headers": signed.headers})
        answer.headers["Cache-Control"] = "private" if signed.may_be_kept else "no-cache"
        return answer


class SignForTableView(SigningView):
    @operations.sign_for_table
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        given = self.given(request)
        signed = sign_by_name(actor=self.actor, warehouse_id=self.warehouse_id, identifier=self.identifier, given=given)
        return self.answer(given, signed)


class SignForTabularView(SigningView):
    @operations.sign_for_tabular
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        given = self.given(request)
        tabular_id = decode_id(self.kwargs["tabular_id"])
        if tabular_id is None:
            raise no_such_object("table", self.kwargs["tabular_id"][:100])
        signed = sign_by_id(actor=self.actor, warehouse_id=self.warehouse_id, tabular_id=tabular_id, given=given)
        return self.answer(given, signed)


class SignForStagedView(SigningView):
    @operations.sign_for_staged
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        given = self.given(request)
        ticket = StagingTicket.read(decode_segment(self.kwargs["ticket"]))
        signed = sign_staged(actor=self.actor, warehouse_id=self.warehouse_id, ticket=ticket, given=given)
        return self.answer(given, signed)


class SignInWarehouseView(SigningView):
    @operations.sign_in_warehouse
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        given = self.given(request)
        signed = sign_by_location(actor=self.actor, warehouse_id=self.warehouse_id, given=given)
        return self.answer(given, signed)


class SignAnywhereView(SigningView):
    @operations.sign_anywhere
    def post(self, request: HttpRequest) -> HttpResponse:
        raise refuse_without_warehouse()


def _request_to_sign(body: dict[str, Any]) -> RequestToSign:
    headers = read_object(body, "headers", "")
    for name in headers:
        read_string_list(headers, name, "headers")
    if body.get("properties") is not None:
        as_string_map(body["properties"], "properties")
    provider = optional_string(body, "provider", "")
    if provider not in {None, "s3"}:
        raise wrong_type("provider", '"s3"', provider)
    method = read_string(body, "method", "")
    if method not in METHODS:
        raise wrong_type("method", f"one of {', '.join(METHODS)}", method)
    return RequestToSign(
        region=read_string(body, "region", ""),
        method=method,
        uri=read_string(body, "uri", ""),
        headers=headers,
        body=optional_string(body, "body", ""),
    )
