"""Whether a client requests an access review as CSV."""

from __future__ import annotations

from rest_framework.request import Request

from icekeeper.kernel.errors.types import BadRequest
from management.csv_files import CSV


def wants_csv(request: Request) -> bool:
    """Whether the query parameter `format`, or without it `Accept`, requests CSV. Raises `BadRequest`."""
    given = request.GET.getlist("format")
    if len(given) > 1 or (given and given[0] not in {"csv", "json"}):
        raise BadRequest("format: must be csv or json, once")
    if given:
        return given[0] == "csv"
    accepted = [each.partition(";") for each in request.META.get("HTTP_ACCEPT", "").split(",")]
    for name, _, parameters in accepted:  # the first known media type counts; of the weights only zero is considered
        if parameters.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}:
            if name.strip().lower() == CSV:
                return True
            if name.strip().lower() in {"application/json", "*/*", "application/*"}:
                return False
    return False
