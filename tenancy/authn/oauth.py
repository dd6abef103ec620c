"""What `/catalog/v1/oauth/tokens` does: a stored token, or a short-lived one, is traded for a new short-lived one.

Client credentials as RFC 6749 §4.4, token exchange as RFC 8693, both as Iceberg's clients send them. Only tokens of
this server count: who has one of an identity provider uses it as it is, or asks the provider.
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

from tenancy.actor import ANONYMOUS, Actor
from tenancy.audit.occurrences import record_sign_in
from tenancy.authn.access_tokens import Accepted, AccessTokens, accept, accept_session, accept_stored
from tenancy.authn.authenticator import AuthenticationFailed, GenuineTokenRefused
from tenancy.authn.providers import authenticators
from tenancy.authn.scopes import ALL, joined, narrowed
from tenancy.authn.session_tokens import PREFIX as SESSION_PREFIX
from tenancy.authn.session_tokens import make_session_token
from tenancy.authn.stored_tokens import StoredToken
from tenancy.models import AccessToken
from tenancy.models.service_account import USER_ID_PREFIX

logger = logging.getLogger("icekeeper.authn")

CLIENT_CREDENTIALS: Final = "client_credentials"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name
_TYPE: Final = "urn:ietf:params:oauth:token-type:"
ACCESS_TOKEN_TYPE: Final = f"{_TYPE}access_token"
OWN_TYPES: Final = frozenset({ACCESS_TOKEN_TYPE, f"{_TYPE}jwt"})
"""What clients call a token of ours."""

OTHER_TYPES: Final = frozenset(f"{_TYPE}{name}" for name in ("refresh_token", "id_token", "saml1", "saml2"))

Form = Mapping[str, str]


class OAuthRefusal(Exception):
    """`code` is one of RFC 6749 §5.2, `description` for people, in ASCII without quotes and backslashes.

    `genuine` tells whose token was refused because it is good no more: for the audit trail, not for the client.
    """

    status = 400

    def __init__(self, code: str, description: str, *, failure: AuthenticationFailed | None = None) -> None:
        super().__init__(description)
        self.code, self.description = code, description
        self.genuine = failure if isinstance(failure, GenuineTokenRefused) else None


class InvalidClient(OAuthRefusal):
    """Why is said in the log only."""

    status, challenge = 401, 'Basic realm="icekeeper"'

    def __init__(self, *, failure: AuthenticationFailed | None = None) -> None:
        description = "The client id or the client secret is wrong, or the secret has ended"
        super().__init__("invalid_client", description, failure=failure)


@dataclass(frozen=True, slots=True)
class Granted:
    """A new token for `user_id` on the grounds of the stored one `token_id`, which works for `expires_in` seconds."""

    text: str
    token_id: UUID
    user_id: str
    expires_in: int
    scopes: frozenset[str]


def grant(form: Form, authorization: str | None) -> Granted:
    """Answer a request of a token. `authorization` is the header, of which only the scheme Basic is looked at.

    Raises `OAuthRefusal`.
    """
    try:
        accepted, granted = _grant(form, authorization)
    except OAuthRefusal as refusal:
        if refusal.genuine is not None:
            record_sign_in(actor=refusal.genuine.claimant, is_accepted=False, reason=refusal.genuine.reason)
        else:
            record_sign_in(actor=ANONYMOUS, is_accepted=False, reason=refusal.code)
        raise
    actor = Actor(user_id=granted.user_id, identity=accepted.identity())
    record_sign_in(actor=actor, is_accepted=True, details={"scopes": joined(granted.scopes)})
    return granted


def _grant(form: Form, authorization: str | None) -> tuple[Accepted, Granted]:
    """With the token that it stands on."""
    if not any(isinstance(each, AccessTokens) for each in authenticators()):
        raise OAuthRefusal(
            "unsupported_grant_type",
            "This server gives out no tokens: set ICEKEEPER__ACCESS_TOKENS, or use those of its identity provider",
        )
    client = _client(form, authorization)
    grant_type = form.get("grant_type")
    if grant_type is None:
        raise OAuthRefusal("invalid_request", "grant_type is missing")
    if grant_type == TOKEN_EXCHANGE:
        accepted = _subject(form, client)
        _require_good_actor(form)
    elif grant_type != CLIENT_CREDENTIALS:
        raise OAuthRefusal("unsupported_grant_type", f"grant_type must be {CLIENT_CREDENTIALS} or {TOKEN_EXCHANGE}")
    elif client is None:
        raise InvalidClient
    else:
        accepted = client
    scopes = _scopes(form.get("scope"), accepted.scopes)
    shown_at = accepted.session.shown_at if accepted.session is not None else None
    text, seconds = make_session_token(accepted.stored, scopes, shown_at=shown_at)
    if seconds < 1:
        raise OAuthRefusal(
            "invalid_request",
            "The token ends, or was renewed for as long as a secret needs not be shown: show the client secret",
        )
    stored = accepted.stored
    granted = Granted(text=text, token_id=stored.token_id, user_id=stored.user_id, expires_in=seconds, scopes=scopes)
    return accepted, granted


def _client(form: Form, authorization: str | None) -> Accepted | None:
    """The token that the client has shown as its secret; None when it has shown nothing.

    Its id may be left out, as clients do that are configured with a secret alone: the secret says whose it is.
    """
    client_id, secret = form.get("client_id"), form.get("client_secret")
    basic = _basic(authorization)
    if basic is not None:
        if secret is not None:
            raise OAuthRefusal("invalid_request", "A client has one secret: in the header, or in the body")
        client_id, secret = basic
    if secret is None:
        return None
    try:
        accepted = accept_stored(secret)
    except AuthenticationFailed as failure:
        logger.info("a client was refused: %s", failure.message)
        raise InvalidClient(failure=failure) from failure
    if client_id and _names(accepted).isdisjoint({client_id, unquote_plus(client_id)}):
        logger.info("a client was refused: not the id of access token %s", accepted.stored.token_id)
        raise InvalidClient
    return accepted


def _names(accepted: Accepted) -> set[str]:
    """What a client may be called: as a user, by the id of a service account, by the id of the token."""
    stored = accepted.stored
    return {stored.user_id, stored.user_id.removeprefix(USER_ID_PREFIX), str(stored.token_id)}


def _basic(authorization: str | None) -> tuple[str, str] | None:
    """Id and secret; None without a header of this scheme. RFC 6749 §2.3.1 encodes both, Iceberg's clients do not."""
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


def _subject(form: Form, client: Accepted | None) -> Accepted:
    """The token that is exchanged. One that has expired is renewed for a client that shows the secret behind it.

    With a client it must be the client's, and what is granted stands on the secret: it is within the scopes of both.
    """
    token = _own_token(form, "subject")
    if token is None:
        raise OAuthRefusal("invalid_request", "subject_token is missing")
    is_session = token.startswith(SESSION_PREFIX)
    try:
        accepted = accept_session(token, may_have_expired=client is not None) if is_session else accept_stored(token)
    except AuthenticationFailed as failure:
        logger.info("an exchange was refused: %s", failure.message)
        told = "subject_token was not accepted, or has ended"
        raise OAuthRefusal("invalid_request", told, failure=failure) from failure
    if client is None:
        return accepted
    if not _is_behind(client.stored, accepted.stored):
        logger.info("an exchange was refused: access token %s shown for another one", client.stored.token_id)
        raise OAuthRefusal("invalid_request", "subject_token is not of the client secret that was shown")
    return replace(client, scopes=narrowed(accepted.scopes, client.scopes))


def _is_behind(shown: StoredToken, subject: StoredToken) -> bool:
    """Whether the token that was shown is the one that the subject stands on, or has replaced it by rotation."""
    if shown.token_id == subject.token_id:
        return True
    return AccessToken.objects.filter(pk=subject.token_id, user_id=shown.user_id, replaced_by=shown.token_id).exists()


def _require_good_actor(form: Form) -> None:
    """Iceberg's clients show beside a user's token that of the catalog session; what is granted is the user's alone."""
    token = _own_token(form, "actor")
    if token is None:
        return
    try:
        accept(token)
    except AuthenticationFailed as failure:
        logger.info("an exchange was refused: %s", failure.message)
        told = "actor_token was not accepted, or has ended"
        raise OAuthRefusal("invalid_request", told, failure=failure) from failure


def _own_token(form: Form, role: str) -> str | None:
    """The `subject` or `actor` token, which claims to be of this server; None when it was left out."""
    token, kind = form.get(f"{role}_token"), form.get(f"{role}_token_type")
    wanted = form.get("requested_token_type")
    if wanted is not None and wanted not in OWN_TYPES:
        raise OAuthRefusal("invalid_request", "requested_token_type must be that of an access token")
    if token is None or kind is None:
        if token is kind:
            return None
        raise OAuthRefusal("invalid_request", f"{role}_token and {role}_token_type go together")
    if kind not in OWN_TYPES | OTHER_TYPES:
        raise OAuthRefusal("invalid_request", f"{role}_token_type is unknown")
    if kind in OTHER_TYPES or not AccessTokens().is_for(token):
        raise OAuthRefusal(
            "invalid_request",
            f"{role}_token is not of this server, which exchanges its own alone: "
            "a token of an identity provider is used as it is",
        )
    return token


def _scopes(wanted: str | None, held: frozenset[str]) -> frozenset[str]:
    """The scopes of the new token: all that are held, or what was asked for of them."""
    asked = frozenset((wanted or "").split()) or held
    scopes = narrowed(asked, held)
    if not asked <= set(ALL) or not scopes:
        raise OAuthRefusal("invalid_scope", f"scope must be of {', '.join(ALL)}; this client has {joined(held)}")
    return scopes
