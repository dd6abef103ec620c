"""Authenticates API requests, and rejects changes in maintenance mode and from pages of other origins."""

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
    """A change was rejected in maintenance mode (`tenancy.maintenance`)."""

    status, wire_type, retry_after, is_expected = 503, "MaintenanceModeError", 60, True


class MissingAuthorizationHeader(Unauthorized):
    wire_type = "MissingAuthorizationHeader"


def authenticate_request(request: HttpRequest | Request, *, is_reading: bool) -> Actor:
    """Return the caller of an API request; `is_reading` marks requests that change nothing.

    Raises `UnderMaintenance` (503) for a change in maintenance mode. Without authentication, raises `ForeignOrigin`
    (403) for a change sent by a page of another origin. With authentication, raises `MissingAuthorizationHeader` or
    `AuthenticationFailed` (401), `InsufficientScope` (403), `ProviderUnavailable` (503), `BadRequest` for an invalid
    user id, and the errors of `assume_role` for the header `x-assume-role`.
    """
    if not is_reading and maintenance.is_read_only():
        raise UnderMaintenance("The server is in maintenance mode: it serves reads only")
    if not authenticators():
        if not is_reading:
            require_own_origin(request.META)
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
        _record_use(meta, actor)
    return actor


def _record_use(meta: dict[str, Any], actor: Actor) -> None:
    """Record the token use once per request and keep the actor for the response hooks."""
    if "icekeeper.actor" not in meta:
        record_token_use(actor)
    meta["icekeeper.actor"] = actor


def _bearer_token(header: str | None) -> str:
    scheme, _, token = (header or "").strip().partition(" ")
    token = token.strip()
    if not token or scheme.lower() != "bearer":
        raise MissingAuthorizationHeader("This server requires a token: Authorization: Bearer ...")
    return token


class ForeignOrigin(Forbidden):
    wire_type = "ForeignOrigin"


def require_own_origin(meta: Mapping[str, object]) -> None:
    """Require that the header `Origin`, if there is one, names this server. Raises `ForeignOrigin` (403).

    Without authentication, any page in a browser that reaches the server could change it; other programs send no
    `Origin`. Allowed are the requested host, the base URL of the server, and LAKEKEEPER__ALLOW_ORIGIN. With
    authentication the check is unnecessary, as a page has no token.
    """
    origin = meta.get("HTTP_ORIGIN")
    if origin is None or settings.CORS_ALLOW_ALL_ORIGINS or origin in settings.CORS_ALLOWED_ORIGINS:
        return
    if _host_in(str(origin)) not in _own_hosts(meta):
        raise ForeignOrigin(
            f"Authentication is off, so pages of {str(origin)[:200]!r} are not allowed to send changes: "
            "LAKEKEEPER__ALLOW_ORIGIN lists allowed origins"
        )


def _own_hosts(meta: Mapping[str, object]) -> set[str]:
    hosts = {str(meta.get("HTTP_HOST", "")).lower()}
    with suppress(CatalogError):  # the request names no host
        hosts.add(_host_in(base_url(meta, settings.ICEKEEPER)))
    return hosts - {""}


def _host_in(url: str) -> str:
    """Return host and port; empty for a URL without host, such as the origin `null` of a sandboxed page."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""
