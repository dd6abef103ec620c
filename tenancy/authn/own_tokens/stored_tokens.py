"""Stored access tokens: their format; reads them with their users, announces revocations, and records their last use.

    ikp_ + id of the row (22 characters) + _ + 256 random bits (43) + CRC-32 of all before it (6)

A token of a service account starts with `iks_`. Base 62, so that a double click selects all of it; always 76
characters, so that secret scanners find it: `ik[ps]_[0-9A-Za-z]{22}_[0-9A-Za-z]{49}`, with a checksum that they can
verify. The checksum is no protection: it rejects typos and invented tokens without a database query.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from time import time
from typing import Final, Literal
from uuid import UUID
from zlib import crc32

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import execute, fetch_one
from icekeeper.kernel.db.transactions import write_transaction
from tasks.runtime.write_behind import WriteBehind
from tenancy.actor import AuthenticationFailed, GenuineTokenRejected, Identity
from tenancy.authz.permission_epoch import SharedEpoch

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SECRET_BITS: Final = 256
_ID_LENGTH, _SECRET_LENGTH, _CHECKSUM_LENGTH = 22, 43, 6
_SHAPE = re.compile(r"(ikp|iks)_([0-9A-Za-z]{22})_[0-9A-Za-z]{43}([0-9A-Za-z]{6})", re.ASCII)


class TokenKind(StrEnum):
    """Prefix of a token: a personal access token, or a secret of a service account."""

    PERSONAL = "ikp"
    SERVICE = "iks"


@dataclass(frozen=True, slots=True)
class TokenText:
    """A well-formed token, which may not exist."""

    kind: TokenKind
    token_id: UUID


def create_token_text(kind: TokenKind, token_id: UUID) -> str:
    """Return a new random token for the row `token_id`."""
    body = f"{token_prefix(kind, token_id)}_{_write(secrets.randbits(SECRET_BITS), _SECRET_LENGTH)}"
    return body + _checksum(body)


def token_prefix(kind: TokenKind, token_id: UUID) -> str:
    """Return the beginning of a token, which identifies it and contains nothing secret."""
    return f"{kind}_{_write(token_id.int, _ID_LENGTH)}"


def read_token(text: str) -> TokenText | None:
    """Parse a token; None for a text that `create_token_text` cannot have returned."""
    shape = _SHAPE.fullmatch(text)
    if shape is None or shape[3] != _checksum(text[:-_CHECKSUM_LENGTH]):
        return None
    number = _read(shape[2])
    return TokenText(TokenKind(shape[1]), UUID(int=number)) if number < 2**128 else None


def read_prefix(text: str) -> UUID | None:
    """Return the id of the token with this prefix; None for an invalid prefix."""
    kind, _, number = text.partition("_")
    is_one = kind in set(TokenKind) and len(number) == _ID_LENGTH and set(number) <= set(ALPHABET)
    return UUID(int=_read(number)) if is_one and _read(number) < 2**128 else None


def token_digest(text: str) -> str:
    """Return what is stored of a token: its SHA-256 in hex.

    Slow hashes protect passwords, which have little entropy. A token has 256 random bits, so a fast hash is sufficient.
    """
    return sha256(text.encode("ascii")).hexdigest()


def _checksum(body: str) -> str:
    return _write(crc32(body.encode("ascii")), _CHECKSUM_LENGTH)


def _write(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def _read(text: str) -> int:
    number = 0
    for character in text:
        number = number * 62 + ALPHABET.index(character)
    return number


_FIND: Final = """
SELECT t.user_id, t.digest, t.scopes, t.expires_at, t.revoked_at, u.deleted_at, u.is_active, u.name, u.email,
       u.user_type
  FROM tenancy_accesstoken AS t JOIN tenancy_user AS u ON u.id = t.user_id
 WHERE t.id = %s
"""


End = Literal["TokenRevoked", "TokenExpired", "UserBlocked"]


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token and its user. `expires_at` is in seconds since the epoch; `ended_by` is why it is no longer valid."""

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
        """Return the identity of the token's user, limited to `scopes`, without roles of an identity provider."""
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
    """As `find_live_token`, but also for tokens that have ended.

    The caller must verify that the token is genuine before it reports why it has ended.
    """
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
        ended_by=_end(revoked_at, expiry, is_user_active=deleted_at is None and bool(is_active)),
    )


def _end(revoked_at: datetime | None, expiry: datetime, *, is_user_active: bool) -> End | None:
    if revoked_at is not None:
        return "TokenRevoked"
    if expiry <= now():
        return "TokenExpired"
    return None if is_user_active else "UserBlocked"


def require_live(stored: StoredToken) -> None:
    """Raises `GenuineTokenRejected`."""
    if stored.ended_by is None:
        return
    message = f"access token {stored.token_id} of {stored.user_id}: {_REASONS[stored.ended_by]}"
    raise GenuineTokenRejected(message, stored.identity(stored.scopes, is_short_lived=False), stored.ended_by)


_REASONS: Final = {
    "TokenRevoked": "it is revoked",
    "TokenExpired": "it has expired",
    "UserBlocked": "its user is deleted or not active",
}


def _utc(at: datetime) -> datetime:
    """Add the time zone UTC, which SQLite does not store."""
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


MAX_REVOCATION_LAG_SECONDS: Final = 5.0

revocations: Final = SharedEpoch()
"""Epoch of revocations, created at import and thereby shared by all processes that the server forks.

A cache of verified tokens stores the epoch that it read before the look-up, and verifies again when it has changed.
Other servers and commands have another epoch: there, cached results expire after `MAX_REVOCATION_LAG_SECONDS`."""


MAX_NOTED_USES: Final = 10_000
"""Maximum of tokens between two writes; uses of further tokens are not recorded."""

_WRITE: Final = """
UPDATE tenancy_accesstoken SET last_used_at = %s WHERE id = %s AND (last_used_at IS NULL OR last_used_at < %s)
"""


class TokenUses(WriteBehind[UUID, float]):
    """Time of the last use by token, in seconds since the epoch."""

    def __init__(self) -> None:
        super().__init__(max, max_keys=MAX_NOTED_USES)

    def note(self, token_id: UUID) -> None:
        self.add(token_id, time())


token_uses: Final = TokenUses()


def record_uses(used: Mapping[UUID, float]) -> None:
    """Write the times of use; rows are locked in the order of their ids, which prevents deadlocks."""
    with write_transaction():
        for token_id in sorted(used):
            at = datetime.fromtimestamp(used[token_id], UTC)
            execute(_WRITE, [at, token_id, at])


def write_token_uses() -> None:
    """Write the noted uses (`PERIODIC_JOBS`); raises errors of the database, and keeps the uses for the next time."""
    token_uses.write(record_uses)
