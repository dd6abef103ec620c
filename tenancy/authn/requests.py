"""Who a request comes from, and whether it may come at all."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request

from icekeeper.kernel.errors.types import CatalogError, Forbidden, Unauthorized
from icekeeper.kernel.http.base_url import base_url
from tenancy import maintenance
from tenancy.actor import ANONYMOUS, Actor
from tenancy.audit.occurrences import record_token_use
from tenancy.authn.assumed_roles import assume_role
from tenancy.authn.own_tokens.scopes import require_scope
from tenancy.authn.providers import authenticators
from tenancy.authn.token_verification import identify


class UnderMaintenance(CatalogError):
    """Nothing may change: see `tenancy.maintenance`."""

    status, wire_type, retry_after, is_on_purpose = 503, "MaintenanceModeError", 60, True


class MissingAuthorizationHeader(Unauthorized):
    wire_type = "MissingAuthorizationHeader"


def authenticate_request(request: HttpRequest | Request, *, is_reading: bool) -> Actor:
    """The caller of an API, for the view that serves the request; `is_reading` when it changes nothing.

    Raises `UnderMaintenance` (503) for a change in maintenance mode, `ForeignOrigin` (403) for one that a page of
    another site sends where authentication is off. Where it is on, it raises
    `MissingAuthorizationHeader` or `AuthenticationFailed` (401), `InsufficientScope` (403), `ProviderUnavailable`
    (503), `BadRequest` for a user id that is none, and what `assume_role` raises for the header `x-assume-role`.
    """
    if not is_reading and maintenance.is_read_only():
        raise UnderMaintenance("The server is in maintenance mode: it answers reads only")
    if not authenticators():
        if not is_reading:
            require_own_page(request.META)
        return ANONYMOUS
    meta = request.META
    identity = identify(_bearer_token(meta.get("HTTP_AUTHORIZATION")))
    actor = Actor(user_id=identity.user_id, identity=identity)
    meta["icekeeper.user"] = identity.user_id
    if identity.access_token_id is not None:
        meta["icekeeper.access_token"] = identity.access_token_id
    try:
        require_scope(identity, meta["icekeeper.path"], is_reading=is_reading)
        wanted_role = meta.get("HTTP_X_ASSUME_ROLE")
        if wanted_role is not None:
            actor = assume_role(actor, wanted_role)
            meta["icekeeper.user"] = actor.name
    finally:
        _tell_of_use(meta, actor)
    return actor


def _tell_of_use(meta: dict[str, Any], actor: Actor) -> None:
    """Once a request, however often it is asked who sends it; the end of the request wants to know it, too."""
    if "icekeeper.actor" not in meta:
        record_token_use(actor)
    meta["icekeeper.actor"] = actor


def _bearer_token(header: str | None) -> str:
    scheme, _, token = (header or "").strip().partition(" ")
    token = token.strip()
    if not token or scheme.lower() != "bearer":
        raise MissingAuthorizationHeader("This server wants a token: Authorization: Bearer ...")
    return token


class ForeignOrigin(Forbidden):
    wire_type = "ForeignOrigin"


def require_own_page(meta: Mapping[str, object]) -> None:
    """Browsers say by `Origin` which page sends a change; programs say nothing. Raises `ForeignOrigin` (403).

    Own pages are those of the host that was called, or of the address that clients are told; others need
    LAKEKEEPER__ALLOW_ORIGIN. Where tokens are asked for, a page without one can do nothing anyway.
    """
    origin = meta.get("HTTP_ORIGIN")
    if origin is None or settings.CORS_ALLOW_ALL_ORIGINS or origin in settings.CORS_ALLOWED_ORIGINS:
        return
    if _host_of(str(origin)) not in _own_hosts(meta):
        raise ForeignOrigin(
            f"Authentication is off, so pages of {str(origin)[:200]!r} may change nothing here: "
            "LAKEKEEPER__ALLOW_ORIGIN names those that may"
        )


def _own_hosts(meta: Mapping[str, object]) -> set[str]:
    hosts = {str(meta.get("HTTP_HOST", "")).lower()}
    with suppress(CatalogError):  # the request names no host
        hosts.add(_host_of(base_url(meta, settings.ICEKEEPER)))
    return hosts - {""}


def _host_of(address: str) -> str:
    """Host and port, empty when `address` has none, as the origin `null` of a page in a sandbox."""
    try:
        return urlsplit(address).netloc.lower()
    except ValueError:
        return ""
