"""The token endpoint `/catalog/v1/oauth/tokens`: issues session tokens for access tokens and session tokens.

Client credentials follow RFC 6749 §4.4, token exchange RFC 8693, both as Iceberg's clients send them. Only tokens of
this server are accepted: a token of an identity provider is used directly, or renewed at the provider.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote_plus
from uuid import UUID

from tenancy.actor import (
    ANONYMOUS,
    SCOPES,
    Actor,
    AuthenticationFailed,
    GenuineTokenRejected,
    join_scopes,
    narrow_scopes,
)
from tenancy.audit.occurrences import record_sign_in
from tenancy.authn.own_tokens.access_tokens import (
    SESSION_PREFIX,
    AcceptedToken,
    AccessTokenAuthenticator,
    accept,
    accept_access_token,
    accept_session_token,
    create_session_token,
)
from tenancy.authn.own_tokens.stored_tokens import StoredToken
from tenancy.authn.providers import authenticators
from tenancy.models import AccessToken
from tenancy.models.user import SERVICE_ACCOUNT_PREFIX

logger = logging.getLogger("icekeeper.authn")

CLIENT_CREDENTIALS: Final = "client_credentials"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name
_TYPE: Final = "urn:ietf:params:oauth:token-type:"
ACCESS_TOKEN_TYPE: Final = f"{_TYPE}access_token"
OWN_TYPES: Final = frozenset({ACCESS_TOKEN_TYPE, f"{_TYPE}jwt"})
"""Token types that clients use for a token of this server."""

OTHER_TYPES: Final = frozenset(f"{_TYPE}{name}" for name in ("refresh_token", "id_token", "saml1", "saml2"))

Form = Mapping[str, str]


class OAuthError(Exception):
    """An error response of RFC 6749 §5.2: its `code`, and a `description` in ASCII without quotes and backslashes.

    `genuine` is set for a genuine token that has ended: the audit trail records its user, the client does not see it.
    """

    status = 400

    def __init__(self, code: str, description: str, *, failure: AuthenticationFailed | None = None) -> None:
        super().__init__(description)
        self.code, self.description = code, description
        self.genuine = failure if isinstance(failure, GenuineTokenRejected) else None


class InvalidClient(OAuthError):
    """The reason is only logged."""

    status, challenge = 401, 'Basic realm="icekeeper"'

    def __init__(self, *, failure: AuthenticationFailed | None = None) -> None:
        description = "The client id or the client secret is wrong, or the secret has ended"
        super().__init__("invalid_client", description, failure=failure)


@dataclass(frozen=True, slots=True)
class IssuedSessionToken:
    """A new session token of `user_id`, derived from the access token `token_id` and valid for `expires_in` seconds."""

    text: str
    token_id: UUID
    user_id: str
    expires_in: int
    scopes: frozenset[str]


def grant(form: Form, authorization: str | None) -> IssuedSessionToken:
    """Issue a session token for a token request. Of the header `authorization` only the scheme Basic is used.

    Raises `OAuthError`.
    """
    try:
        accepted, issued = _issue(form, authorization)
    except OAuthError as error:
        if error.genuine is not None:
            record_sign_in(actor=error.genuine.claimant, is_accepted=False, reason=error.genuine.reason)
        else:
            record_sign_in(actor=ANONYMOUS, is_accepted=False, reason=error.code)
        raise
    actor = Actor(user_id=issued.user_id, identity=accepted.identity())
    record_sign_in(actor=actor, is_accepted=True, details={"scopes": join_scopes(issued.scopes)})
    return issued


def _issue(form: Form, authorization: str | None) -> tuple[AcceptedToken, IssuedSessionToken]:
    """Return the access token that authorizes the request, and the issued token."""
    if not any(isinstance(each, AccessTokenAuthenticator) for each in authenticators()):
        raise OAuthError(
            "unsupported_grant_type",
            "This server issues no tokens: set ICEKEEPER__ACCESS_TOKENS, or use tokens of its identity provider",
        )
    client = _client(form, authorization)
    grant_type = form.get("grant_type")
    if grant_type is None:
        raise OAuthError("invalid_request", "grant_type is missing")
    if grant_type == TOKEN_EXCHANGE:
        accepted = _subject(form, client)
        _require_valid_actor_token(form)
    elif grant_type != CLIENT_CREDENTIALS:
        raise OAuthError("unsupported_grant_type", f"grant_type must be {CLIENT_CREDENTIALS} or {TOKEN_EXCHANGE}")
    elif client is None:
        raise InvalidClient
    else:
        accepted = client
    scopes = _scopes(form.get("scope"), accepted.scopes)
    shown_at = accepted.session.shown_at if accepted.session is not None else None
    text, seconds = create_session_token(accepted.stored, scopes, shown_at=shown_at)
    if seconds < 1:
        raise OAuthError(
            "invalid_request",
            "The token or its session has ended: authenticate with the client secret",
        )
    stored = accepted.stored
    issued = IssuedSessionToken(
        text=text, token_id=stored.token_id, user_id=stored.user_id, expires_in=seconds, scopes=scopes
    )
    return accepted, issued


def _client(form: Form, authorization: str | None) -> AcceptedToken | None:
    """Return the access token that the client sent as its secret; None without a secret.

    The client id is optional: clients may be configured with a secret alone, which identifies the user.
    """
    client_id, secret = form.get("client_id"), form.get("client_secret")
    basic = _basic(authorization)
    if basic is not None:
        if secret is not None:
            raise OAuthError("invalid_request", "Send the client secret in the header or in the body, not in both")
        client_id, secret = basic
    if secret is None:
        return None
    try:
        accepted = accept_access_token(secret)
    except AuthenticationFailed as failure:
        logger.info("a client was rejected: %s", failure.message)
        raise InvalidClient(failure=failure) from failure
    if client_id and _names(accepted).isdisjoint({client_id, unquote_plus(client_id)}):
        logger.info("a client was rejected: its id does not match access token %s", accepted.stored.token_id)
        raise InvalidClient
    return accepted


def _names(accepted: AcceptedToken) -> set[str]:
    """Return the client ids that are accepted: the user id, the id of the service account, the id of the token."""
    stored = accepted.stored
    return {stored.user_id, stored.user_id.removeprefix(SERVICE_ACCOUNT_PREFIX), str(stored.token_id)}


def _basic(authorization: str | None) -> tuple[str, str] | None:
    """Return id and secret, or None. RFC 6749 §2.3.1 encodes both, Iceberg's clients do not."""
    scheme, _, encoded = (authorization or "").strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise InvalidClient from None
    if not colon:
        raise InvalidClient
    return name, secret


def _subject(form: Form, client: AcceptedToken | None) -> AcceptedToken:
    """Return the token to exchange. An expired session token is renewed for a client that sends its access token.

    With a client, the token must be the client's, and the result depends on the secret: it has the scopes of both.
    """
    token = _own_token(form, "subject")
    if token is None:
        raise OAuthError("invalid_request", "subject_token is missing")
    is_session = token.startswith(SESSION_PREFIX)
    try:
        accepted = (
            accept_session_token(token, may_have_expired=client is not None)
            if is_session
            else accept_access_token(token)
        )
    except AuthenticationFailed as failure:
        logger.info("a token exchange was rejected: %s", failure.message)
        description = "subject_token is invalid or has ended"
        raise OAuthError("invalid_request", description, failure=failure) from failure
    if client is None:
        return accepted
    if not _is_parent(client.stored, accepted.stored):
        logger.info("a token exchange was rejected: access token %s was sent for another one", client.stored.token_id)
        raise OAuthError("invalid_request", "subject_token was not issued for this client secret")
    return replace(client, scopes=narrow_scopes(accepted.scopes, client.scopes))


def _is_parent(sent: StoredToken, subject: StoredToken) -> bool:
    """Return whether the subject was issued for the token that was sent, or for the one that it replaced."""
    if sent.token_id == subject.token_id:
        return True
    return AccessToken.objects.filter(pk=subject.token_id, user_id=sent.user_id, replaced_by=sent.token_id).exists()


def _require_valid_actor_token(form: Form) -> None:
    """Validate the actor token, that of the catalog session in Iceberg's clients; it does not affect the result."""
    token = _own_token(form, "actor")
    if token is None:
        return
    try:
        accept(token)
    except AuthenticationFailed as failure:
        logger.info("a token exchange was rejected: %s", failure.message)
        description = "actor_token is invalid or has ended"
        raise OAuthError("invalid_request", description, failure=failure) from failure


def _own_token(form: Form, role: str) -> str | None:
    """Return the `subject` or `actor` token, which claims to be of this server; None without one."""
    token, kind = form.get(f"{role}_token"), form.get(f"{role}_token_type")
    wanted = form.get("requested_token_type")
    if wanted is not None and wanted not in OWN_TYPES:
        raise OAuthError("invalid_request", "requested_token_type must be an access token")
    if token is None or kind is None:
        if token is kind:
            return None
        raise OAuthError("invalid_request", f"{role}_token and {role}_token_type must be sent together")
    if kind not in OWN_TYPES | OTHER_TYPES:
        raise OAuthError("invalid_request", f"{role}_token_type is unknown")
    if kind in OTHER_TYPES or not AccessTokenAuthenticator().may_accept(token):
        raise OAuthError(
            "invalid_request",
            f"{role}_token was not issued by this server, which exchanges only its own tokens: "
            "send a token of an identity provider directly",
        )
    return token


def _scopes(requested: str | None, granted: frozenset[str]) -> frozenset[str]:
    """Return the scopes of the new token: those requested, or all of the parent token."""
    wanted = frozenset((requested or "").split()) or granted
    scopes = narrow_scopes(wanted, granted)
    if not wanted <= set(SCOPES) or not scopes:
        raise OAuthError(
            "invalid_scope", f"scope must be of {', '.join(SCOPES)}; this client has {join_scopes(granted)}"
        )
    return scopes
