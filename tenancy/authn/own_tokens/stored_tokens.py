"""Access tokens as the database knows them: the row of one and its user, in one statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.db.write_transaction import write_transaction
from tenancy.authentication_errors import AuthenticationFailed, GenuineTokenRejected
from tenancy.identity import Identity
from tenancy.shared_epoch import SharedEpoch

_FIND: Final = """
SELECT t.user_id, t.digest, t.scopes, t.expires_at, t.revoked_at, u.deleted_at, u.is_active, u.name, u.email,
       u.user_type
  FROM tenancy_accesstoken AS t JOIN tenancy_user AS u ON u.id = t.user_id
 WHERE t.id = %s
"""


End = Literal["TokenRevoked", "TokenExpired", "UserBlocked"]


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token and its user. `expires_at` is in seconds since the epoch; `ended_by` says why it is no longer good."""

    token_id: UUID
    user_id: str
    digest: str
    scopes: frozenset[str]
    expires_at: float
    name: str
    email: str
    user_type: Literal["human", "application"]
    ended_by: End | None = None

    def identity(self, scopes: frozenset[str], *, is_short_lived: bool) -> Identity:
        """Whom the token speaks for, bounded by `scopes`. Roles of the user's provider are not known here."""
        return Identity(
            user_id=self.user_id,
            provider_id=self.user_id.partition("~")[0],
            user_type=self.user_type,
            name=self.name or None,
            email=self.email or None,
            scopes=scopes,
            access_token_id=self.token_id,
            is_short_lived=is_short_lived,
        )


def find_live_token(token_id: UUID) -> StoredToken:
    """Return the token `token_id`, read from the primary database.

    Raises `AuthenticationFailed`; `GenuineTokenRejected` for a token that has ended.
    """
    stored = find_token(token_id)
    require_live(stored)
    return stored


def find_token(token_id: UUID) -> StoredToken:
    """As `find_live_token`, also one that has ended: of that nothing may be told before it is known to be genuine."""
    row = fetch_one("default", _FIND, [token_id])
    if row is None:
        raise AuthenticationFailed(f"access token {token_id} does not exist")
    user_id, digest, scopes, expires_at, revoked_at, deleted_at, is_active, name, email, user_type = row
    expiry = _utc(expires_at)
    return StoredToken(
        token_id=token_id,
        user_id=user_id,
        digest=digest,
        scopes=frozenset(scopes.split()),
        expires_at=expiry.timestamp(),
        name=name,
        email=email,
        user_type=user_type,
        ended_by=_end(revoked_at, expiry, is_user_there=deleted_at is None and bool(is_active)),
    )


def _end(revoked_at: datetime | None, expiry: datetime, *, is_user_there: bool) -> End | None:
    if revoked_at is not None:
        return "TokenRevoked"
    if expiry <= now():
        return "TokenExpired"
    return None if is_user_there else "UserBlocked"


def require_live(stored: StoredToken) -> None:
    """Raises `GenuineTokenRejected`."""
    if stored.ended_by is None:
        return
    message = f"access token {stored.token_id} of {stored.user_id}: {_SAID[stored.ended_by]}"
    raise GenuineTokenRejected(message, stored.identity(stored.scopes, is_short_lived=False), stored.ended_by)


_SAID: Final = {
    "TokenRevoked": "it is revoked",
    "TokenExpired": "it has expired",
    "UserBlocked": "its user is deleted or not active",
}


def _utc(at: datetime) -> datetime:
    """SQLite keeps no time zone; what Django writes there is UTC."""
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


SECONDS_WITHOUT_A_LOOK: Final = 5.0

revocations: Final = SharedEpoch()
"""Made when the application is loaded, which is before the server forks."""


@contextmanager
def revocation_transaction() -> Iterator[None]:
    """The transaction of a write that ends tokens. Whatever becomes of it, they are looked at again: it may be in
    doubt whether it was committed."""
    try:
        with write_transaction():
            yield
    finally:
        revocations.bump()
