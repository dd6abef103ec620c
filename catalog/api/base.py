"""The one way into `/catalog`: decode the address, know the caller, read strict JSON, answer bytes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from catalog.identifiers import Identifier, Levels
from catalog.selectors.paging import Page
from icekeeper.kernel.errors import BadRequest
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.json_text import read_json_object, write_json
from icekeeper.kernel.raw_path import decode_levels, decode_segment
from tenancy.actor import Actor
from tenancy.authn.requests import actor_of


class PrefixIsNotWarehouseId(BadRequest):
    wire_type = "PrefixIsNotWarehouseID"


class IcebergView(APIView):
    """A resource of the REST catalog. Subclasses read `self.actor`, `self.warehouse_id`, `self.levels`, `self.name`."""

    actor: Actor

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Instead of DRF's negotiation, versions and throttles, which this API has no use for."""
        self.actor = actor_of(request)

    @property
    def warehouse_id(self) -> UUID:
        warehouse_id = parse_id(self.kwargs["prefix"])
        if warehouse_id is None:
            raise PrefixIsNotWarehouseId("The prefix of the path must be the id of a warehouse")
        return warehouse_id

    @property
    def levels(self) -> Levels:
        return decode_levels(self.kwargs["namespace"])

    @property
    def table(self) -> Identifier:
        return Identifier(self.levels, decode_segment(self.kwargs["table"]))

    def body(self, request: Request) -> dict[str, Any]:
        return read_json_object(request._request.body)  # noqa: SLF001

    def page(self, request: Request, kind: str) -> Page:
        """Without `pageToken` everything is asked for; an empty one asks for the first page."""
        token = request.GET.get("pageToken")
        if token is None:
            return Page(kind, None, None)
        limits = settings.ICEKEEPER
        size = limits.pagination_size_default
        given = request.GET.get("pageSize")
        if given is not None:
            if not (given.isascii() and given.isdigit() and 0 < len(given) < 10 and int(given) > 0):  # noqa: PLR2004
                raise BadRequest("pageSize must be a positive number")
            size = int(given)
        return Page(kind, token, min(size, limits.pagination_size_max))


def json_answer(value: Any) -> HttpResponse:
    return HttpResponse(write_json(value), content_type="application/json")


def no_content() -> HttpResponse:
    answer = HttpResponse(status=204)
    del answer.headers["Content-Type"]
    return answer
