"""The actor of an operation: user ids, the identity that a token proves, and the user or role whose grants apply.

A user id is `<provider>~<subject>`, split at the first `~`; a subject may contain further ones. A token may identify an
engine that is trusted to name views and their owners (`LAKEKEEPER__TRUSTED_ENGINES__*`).

Scopes restrict the rights of the user of an access token and never add any. `catalog` covers the paths below `/catalog`
and `/lakekeeper`, `management` those below `/management`; with `:read` only requests that change nothing. Tokens of
identity providers have no scopes: only rights limit them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.errors.types import BadRequest, Forbidden, Unauthorized
from icekeeper.kernel.names import hidden_character

MAX_SUBJECT_BYTES = 127
"""Bytes of UTF-8."""

RESERVED_PROVIDERS = frozenset({"icekeeper", "lakekeeper", "system"})
"""Providers of this server: users of `icekeeper` are service accounts, the others have no users."""

OWN_PROVIDERS = RESERVED_PROVIDERS | {"local"}
"""Providers of users that no identity provider knows."""

_LOCAL_ID = re.compile(r"local~[a-z0-9][a-z0-9._@-]{0,119}", re.ASCII)
_PROVIDER = re.compile(r"[a-z0-9-]{1,127}")


class EmptyUserId(BadRequest):
    wire_type = "EmptyUserIdError"


class UserIdTooLong(BadRequest):
    wire_type = "UserIdTooLongError"


class InvalidUserId(BadRequest):
    wire_type = "InvalidUserIdError"


def require_user_id(text: str) -> str:
    """Return `text` if it can be the id of a user; it is kept letter by letter.

    Raises `EmptyUserId`, `UserIdTooLong` or `InvalidUserId` (400).
    """
    if not text:
        raise EmptyUserId("A user id must not be empty")
    provider, tilde, subject = text.partition("~")
    if not tilde or not _PROVIDER.fullmatch(provider):
        raise InvalidUserId("A user id is <provider>~<subject>, the provider of lower-case letters, digits and -")
    if hidden_character(subject) is not None:
        raise InvalidUserId("A user id must not contain invisible characters")
    if not subject.strip():
        raise EmptyUserId("A user id must have a subject after the first ~")
    if len(subject.encode()) > MAX_SUBJECT_BYTES:
        raise UserIdTooLong(f"The subject of a user id is longer than {MAX_SUBJECT_BYTES} bytes")
    return text


def require_new_user_id(text: str) -> str:
    """`require_user_id` for a user who is created or restored by another caller.

    Raises `InvalidUserId` (400) also for reserved providers, and for invalid names of local users.
    """
    provider = require_user_id(text).partition("~")[0]
    if provider in RESERVED_PROVIDERS:
        raise InvalidUserId(f"Users of the provider {provider} are created by the server alone")
    return require_local_user_id(text) if provider == "local" else text


def require_local_user_id(text: str) -> str:
    """Return `text` if it is the id of a local user, whom no identity provider knows. Raises `InvalidUserId` (400)."""
    if not _LOCAL_ID.fullmatch(text):
        raise InvalidUserId(
            "The id of a local user is local~<name>: lower-case letters, digits and . _ @ -, at most 120, the first "
            "one a letter or digit"
        )
    return text


@dataclass(frozen=True, slots=True)
class Identity:
    """The verified claims of a token.

    `user_id` is `<provider id>~<subject>`. `name` and `email` are None where the token has none. `roles` are the
    names that the provider gives the user, each the `source-id` of a role with the provider's id. `scopes` bound what
    may be done with the token, None when nothing does; `access_token_id` is set for a token that this server issued:
    for a session token (`is_short_lived`) it is the id of its parent. `audiences` are those of a
    provider's token; tokens of this server have none.
    """

    user_id: str
    provider_id: str
    user_type: Literal["human", "application"]
    name: str | None = None
    email: str | None = None
    roles: tuple[str, ...] = ()
    scopes: frozenset[str] | None = None
    access_token_id: UUID | None = None
    is_short_lived: bool = False
    audiences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Actor:
    """`user_id` is `<provider>~<subject>`, None for anonymous callers; `is_internal` marks the server's commands.

    With `assumed_role` (`x-assume-role`) only the rights of the role apply; operations on the user's own account, such
    as `whoami`, still refer to the user. `identity` contains the verified claims of the user's token.
    `is_check_subject` marks an actor whose permissions another caller checks; `is_blocked` marks a blocked user.

    `delegated_by` is the engine that reads a view owned by this user, without a token of the user. Then only grants to
    the user and to stored role memberships apply, not roles from a token.
    """

    user_id: str | None = None
    is_internal: bool = False
    assumed_role: UUID | None = None
    is_check_subject: bool = False
    is_blocked: bool = False
    identity: Identity | None = field(default=None, compare=False)
    delegated_by: Actor | None = None

    @property
    def name(self) -> str:
        if self.is_internal:
            return "internal"
        if self.assumed_role is not None:
            return f"role {self.assumed_role} assumed by {self.user_id}"
        if self.delegated_by is not None:
            return f"{self.user_id} (owner of a view that {self.delegated_by.name} reads)"
        return self.user_id or "anonymous"

    @property
    def is_anonymous(self) -> bool:
        return self.user_id is None and not self.is_internal


ANONYMOUS = Actor()
INTERNAL = Actor(is_internal=True)


@dataclass(frozen=True, slots=True)
class Grantee:
    """A user or a role with all its members: exactly one of the two is set."""

    user_id: str | None = None
    role_id: UUID | None = None

    def __str__(self) -> str:
        return self.user_id if self.user_id is not None else f"role {self.role_id}"


def acting_as(actor: Actor) -> Grantee | None:
    """Return the grantee whose rights `actor` has: the assumed role, else the user; None for anonymous callers."""
    if actor.assumed_role is not None:
        return Grantee(role_id=actor.assumed_role)
    return None if actor.user_id is None else Grantee(user_id=actor.user_id)


class InstanceAdminRequired(Forbidden):
    wire_type = "InstanceAdminRequired"


def is_instance_admin(actor: Actor) -> bool:
    """Return whether the actor is an instance admin: never in an assumed role, a delegated read, or a check for others.

    The server's own commands always are.
    """
    if actor.is_internal:
        return True
    acts_directly = actor.assumed_role is None and actor.delegated_by is None and not actor.is_check_subject
    return acts_directly and actor.user_id in settings.ICEKEEPER.instance_admins


def require_instance_admin(actor: Actor) -> None:
    """Raises `InstanceAdminRequired` (403)."""
    if not is_instance_admin(actor):
        raise InstanceAdminRequired(f"{actor.name} is not an instance admin: LAKEKEEPER__INSTANCE_ADMINS lists them")


class AuthenticationFailed(Unauthorized):
    """The token is not accepted; only the log contains the reason."""

    wire_type = "AuthenticationFailed"
    challenge = 'Bearer error="invalid_token"'


class SignedTokenRejected(AuthenticationFailed):
    """A token with a valid signature that was rejected for its claims; keys of other providers cannot help."""


class GenuineTokenRejected(SignedTokenRejected):
    """A genuine token that is no longer valid; the audit trail gets its user and `reason`, the caller does not."""

    def __init__(self, message: str, claimant: Identity, reason: str) -> None:
        super().__init__(message)
        self.claimant = Actor(user_id=claimant.user_id, identity=claimant)
        self.reason = reason


def owner_properties() -> frozenset[str]:
    """Return the view properties of all trusted engines that name the owner; only the engine itself sets them."""
    return frozenset(engine.owner_property for engine in settings.ICEKEEPER.trusted_engines.values())


def owner_properties_of(actor: Actor) -> frozenset[str]:
    """Return the owner properties of the engines that the token of `actor` identifies; empty for other callers."""
    identity = actor.identity
    if identity is None:
        return frozenset()
    engines = settings.ICEKEEPER.trusted_engines.values()
    return frozenset(engine.owner_property for engine in engines if _is_token_of(engine, identity))


def _is_token_of(engine: Any, identity: Identity) -> bool:
    its = engine.identities.get(identity.provider_id)
    if its is None:
        return False
    subject = identity.user_id.partition("~")[2]
    return subject in its.subjects or not set(its.audiences).isdisjoint(identity.audiences)


class Scope(StrEnum):
    CATALOG = "catalog"
    CATALOG_READ = "catalog:read"
    MANAGEMENT = "management"
    MANAGEMENT_READ = "management:read"


DEFAULT_SCOPES: Final = frozenset({Scope.CATALOG.value, Scope.MANAGEMENT.value})
"""Scopes of a token that is created without any."""

SCOPES: Final = tuple(scope.value for scope in Scope)
_IMPLIED: Final = {
    Scope.CATALOG.value: Scope.CATALOG_READ.value,
    Scope.MANAGEMENT.value: Scope.MANAGEMENT_READ.value,
}
"""The scope that another one implies."""

_API_OF: Final = {"catalog": Scope.CATALOG, "lakekeeper": Scope.CATALOG, "management": Scope.MANAGEMENT}
"""Scope by the first segment of the path."""


class InsufficientScope(Forbidden):
    """The token lacks a scope (RFC 6750 §3.1)."""

    wire_type = "InsufficientScope"
    challenge = 'Bearer error="insufficient_scope"'


class UnknownScope(BadRequest):
    wire_type = "InvalidScope"


def require_scope(identity: Identity, path: str, *, is_reading: bool) -> None:
    """Raises `InsufficientScope` (403) unless the scopes of `identity` cover the request for the raw `path`."""
    granted = identity.scopes
    if granted is None:
        return
    api = _API_OF.get(path.split("/", 2)[1])
    needed = None if api is None else _IMPLIED[api] if is_reading else api.value
    if needed is None or not (needed in granted or (api in granted and is_reading)):
        has = join_scopes(granted)
        raise InsufficientScope(f"This token lacks the scope {needed or 'for this path'}: it has {has}")


def may_change_catalog(identity: Identity | None) -> bool:
    """Return whether the scopes, if any, allow changes in the catalog."""
    return identity is None or identity.scopes is None or Scope.CATALOG.value in identity.scopes


def expand_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return the scopes with those that they imply: `catalog` implies `catalog:read`."""
    given = frozenset(scopes)
    return given | {_IMPLIED[scope] for scope in given if scope in _IMPLIED}


def narrow_scopes(wanted: frozenset[str], granted: frozenset[str]) -> frozenset[str]:
    """Return the part of `wanted` that `granted` covers; `catalog` becomes `catalog:read` if only that is granted."""
    return remove_implied_scopes(expand_scopes(wanted) & expand_scopes(granted))


def remove_implied_scopes(scopes: frozenset[str]) -> frozenset[str]:
    """Return the scopes without those that another one implies."""
    return scopes - {_IMPLIED[scope] for scope in scopes if scope in _IMPLIED}


def validate_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return the scopes without implied ones. Raises `UnknownScope` (400) for unknown scopes or none."""
    given = frozenset(scopes)
    if not given or not given <= set(SCOPES):
        raise UnknownScope(f"scopes: must be one or more of {', '.join(SCOPES)}", field="scopes")
    return remove_implied_scopes(given)


def join_scopes(scopes: Iterable[str]) -> str:
    """Return the scopes as one text, as in RFC 6749 §3.3 and in the database."""
    return " ".join(sorted(scopes))
