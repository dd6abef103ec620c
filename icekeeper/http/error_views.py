"""Errors outside the APIs' own stack (`/health`, `/api-docs`, an unknown path): the same envelope."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse

from icekeeper.kernel.errors.responses import error_response
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden, NotFound


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(BadRequest("Malformed request"))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(Forbidden("Forbidden"))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(NotFound("No such resource"))


def server_error(request: HttpRequest) -> HttpResponse:
    """Called while the exception is being handled, so what it was is known and gets into the log."""
    error = sys.exc_info()[1]
    return error_response(error if isinstance(error, Exception) else CatalogError("Unexpected error"))
