"""What stands in the queries of grants and access reviews: whose they are."""

from __future__ import annotations

from typing import Final

from rest_framework.request import Request

from icekeeper.kernel.errors.types import BadRequest
from management.api.principals import InvalidGetAccessQuery, asked_principal
from management.api.schema import BAD_USER_ID
from tenancy.grantee import Grantee

PRINCIPAL_NAMES: Final = ("principalUser", "principalRole")
PAGE_NAMES: Final = ("pageToken", "pageSize")
BAD_PRINCIPAL: Final = f"`AmbiguousGrantPrincipal`, {BAD_USER_ID}"


class MissingGrantPrincipal(BadRequest):
    wire_type = "MissingGrantPrincipal"


class AmbiguousGrantPrincipal(BadRequest):
    wire_type = "AmbiguousGrantPrincipal"


def given_principal(request: Request) -> Grantee | None:
    """Raises `AmbiguousGrantPrincipal` for more than one, and what `asked_principal` raises."""
    try:
        return asked_principal(request.GET)
    except InvalidGetAccessQuery as error:
        raise AmbiguousGrantPrincipal(error.message) from error


def required_principal(request: Request, question: str) -> Grantee:
    """Raises `MissingGrantPrincipal`, with the question, and what `given_principal` raises."""
    grantee = given_principal(request)
    if grantee is None:
        raise MissingGrantPrincipal(f"{question} One of principalUser and principalRole must be there")
    return grantee
