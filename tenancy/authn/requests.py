"""Authenticates API requests, and rejects changes in maintenance mode and from pages of other origins.

Bearer tokens are verified with the configured authenticators; results are cached for up to a minute. With an assumed
role (`x-assume-role`) the caller acts with the rights of that role instead of their own.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from cachetools import LRUCache, TTLCache
from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request

from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden, Unauthorized
from icekeeper.kernel.http.base_url import base_url
from icekeeper.kernel.ids import parse_id
from tenancy import maintenance
from tenancy.actor import (
    ANONYMOUS,
    Actor,
    AuthenticationFailed,
    GenuineTokenRejected,
    Identity,
    SignedTokenRejected,
    require_scope,
    require_user_id,
)
from tenancy.audit.occurrences import record_token_use
from tenancy.authn.authenticator import Authenticator, ProviderUnavailable, VerifiedToken
from tenancy.authn.oidc.jwt import NotAJwt, read_jwt
from tenancy.authn.own_tokens.stored_tokens import revocations
from tenancy.authn.providers import authenticators
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable


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


logger = logging.getLogger("icekeeper.authn")

CACHE_SECONDS: Final = 60.0
MAX_CACHED: Final = 10_000
"""Tokens, and roles."""
MAX_TOKEN_LENGTH: Final = 16_384
_IS_ACTIVE: Final = "SELECT is_active FROM tenancy_user WHERE id = %s"
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750 §2.1."""


class VerifiedTokens:
    """Cache of verified tokens by the hash of the token; the token itself is not stored.

    Tokens of this server are verified again after any of them was revoked.
    """

    def __init__(self) -> None:
        self._verified: LRUCache[bytes, VerifiedToken] = LRUCache(MAX_CACHED)
        self._lock = Lock()

    def get(self, digest: bytes) -> Identity | None:
        try:
            with self._lock:
                known = self._verified[digest]
        except KeyError:
            return None
        if time.time() >= known.expires_at:
            return None
        if known.revocations is not None and known.revocations != revocations.current():
            return None
        return known.identity

    def put(self, digest: bytes, verified: VerifiedToken) -> None:
        until = min(verified.expires_at, time.time() + CACHE_SECONDS)
        with self._lock:
            self._verified[digest] = replace(verified, expires_at=until)

    def clear(self) -> None:
        with self._lock:
            self._verified.clear()


verified_tokens = VerifiedTokens()


def identify(token: str) -> Identity:
    """Return the identity that `token` stands for.

    Every provider that the token claims to be from is tried until one accepts it: first those that know the key that it
    names, last those that have not been reached yet, so that they do not delay tokens of others. After a provider has
    verified the signature and rejected the token, others are tried only if they know that key, after a refresh of at
    most a second. For a token that none of them claims, metadata is refreshed, as a provider may have changed its
    issuer. Raises `AuthenticationFailed` (401) if no provider accepts the token, and `ProviderUnavailable` (503) if its
    signature could not be verified because the keys of a provider are missing.
    """
    if len(token) > MAX_TOKEN_LENGTH:
        raise _rejection(f"it is longer than {MAX_TOKEN_LENGTH} characters")
    digest = sha256(token.encode(errors="surrogatepass")).digest()
    known = verified_tokens.get(digest)
    if known is not None:
        return known
    if not _BEARER.fullmatch(token):
        raise _rejection("it contains characters that no token has; was the Authorization header sent twice?")
    unavailable: ProviderUnavailable | None = None
    failures: list[AuthenticationFailed] = []
    is_signed = False
    for authenticator in _candidates(token):
        if is_signed and not authenticator.has_key_of(token):
            authenticator.refresh_briefly()
            if not authenticator.has_key_of(token):
                continue
        try:
            verified = authenticator.verify(token)
            require_user_id(verified.identity.user_id)
            _require_active(verified.identity)
        except AuthenticationFailed as failure:
            failures.append(failure)
            is_signed = is_signed or isinstance(failure, SignedTokenRejected)
        except ProviderUnavailable as failure:
            logger.info("a token could not be verified: %s", failure.reason)
            unavailable = failure
        else:
            verified_tokens.put(digest, verified)
            return verified.identity
    if unavailable is not None and not is_signed:
        raise unavailable
    reasons = "; ".join(each.message for each in failures)
    genuine = next((each for each in failures if isinstance(each, GenuineTokenRejected)), None)
    raise _rejection(reasons or f"no provider of this server accepts it ({_describe(token)})", genuine)


def _candidates(token: str) -> Iterator[Authenticator]:
    """Yield the authenticators to try in order; those that need a refresh only if no other accepts the token."""
    configured = authenticators()
    candidates = [authenticator for authenticator in configured if authenticator.may_accept(token)]
    if any(candidate.has_key_of(token) for candidate in candidates):
        for candidate in candidates:  # several authenticators of one provider may have keys of different age
            if candidate.is_ready and not candidate.has_key_of(token):
                candidate.refresh_briefly()
    yield from sorted(candidates, key=lambda candidate: (not candidate.has_key_of(token), not candidate.is_ready))
    if not any(candidate.is_exclusive for candidate in candidates):
        yield from (other for other in configured if other not in candidates and other.may_accept_after_refresh(token))


def _require_active(identity: Identity) -> None:
    """Reject blocked users of identity providers; users without a row are accepted.

    The tokens of this server are looked up together with their users.
    """
    if identity.access_token_id is None:
        row = fetch_one(settings.READ_DATABASE, _IS_ACTIVE, [identity.user_id])
        if row is not None and not row[0]:
            raise GenuineTokenRejected(f"{identity.user_id} is not active", identity, "UserBlocked")


def _rejection(reason: str, genuine: GenuineTokenRejected | None = None) -> AuthenticationFailed:
    """Log the reason and return an error without it; the caller learns only that the token is not accepted."""
    logger.info("a token was rejected: %s", reason)
    message = "The token was not accepted"
    if genuine is None or genuine.claimant.identity is None:
        return AuthenticationFailed(message)
    return GenuineTokenRejected(message, genuine.claimant.identity, genuine.reason)


def _describe(token: str) -> str:
    try:
        return str(read_jwt(token))
    except NotAJwt as reason:
        return f"as a JWT: {reason}"


ROLE_CACHE_SECONDS: Final = 5.0
K = TypeVar("K")

_ROLE_EXISTS: Final = "SELECT 1 FROM tenancy_role WHERE id = %s"


class InvalidRoleId(BadRequest):
    wire_type = "InvalidRoleIdError"


class UnknownAssumedRole(BadRequest):
    wire_type, is_final = "InvalidAssumeRoleId", False


class AssumeRoleForbidden(Forbidden):
    wire_type = "AssumeRoleForbidden"


class KnownIds(Generic[K]):
    """Ids of rows that exist, per process. A deletion here evicts the id; one on another node takes effect later."""

    def __init__(self, *, seconds: float) -> None:
        self._ids: TTLCache[K, None] = TTLCache(MAX_CACHED, seconds)
        self._lock = Lock()

    def contains(self, row_id: K) -> bool:
        with self._lock:
            return row_id in self._ids

    def add(self, row_id: K) -> None:
        with self._lock:
            self._ids[row_id] = None

    def evict(self, *row_ids: K) -> None:
        with self._lock:
            for row_id in row_ids:
                self._ids.pop(row_id, None)

    def clear(self) -> None:
        with self._lock:
            self._ids.clear()


known_roles: Final[KnownIds[UUID]] = KnownIds(seconds=ROLE_CACHE_SECONDS)
"""Roles that exist. One that was deleted meanwhile has no rights left to use."""


def unknown_assumed_role(role_id: UUID) -> UnknownAssumedRole:
    return UnknownAssumedRole(f"Role {role_id} of x-assume-role does not exist")


def assume_role(actor: Actor, wanted: str) -> Actor:
    """Return `actor` with the role `wanted`, of any project, assumed.

    Raises `InvalidRoleId` or `UnknownAssumedRole` (400), or `AssumeRoleForbidden` (403).
    """
    role_id = parse_id(wanted.strip())
    if role_id is None:
        raise InvalidRoleId("x-assume-role must be the UUID of one role")
    if not known_roles.contains(role_id):
        if fetch_one(settings.READ_DATABASE, _ROLE_EXISTS, [role_id]) is None:
            raise unknown_assumed_role(role_id)
        known_roles.add(role_id)
    try:
        require_permission(actor, Can.ASSUME, Securable.Type.ROLE, role_id)
    except Forbidden as error:
        raise AssumeRoleForbidden(f"{actor.name} may not assume the role {role_id}") from error
    return replace(actor, assumed_role=role_id)
