"""The signing key that the servers of one PostgreSQL share where none of them is given one (`ICEKEEPER__SECRET_KEY`).

It is derived from a random text in the database, created by the first process that needs it, and from
`LAKEKEEPER__PG_ENCRYPTION_KEY` where that is set. The random text protects that setting from
guessing by the holder of a token; the setting prevents the holder of a copy of the database from signing tokens.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from functools import lru_cache
from typing import Any, ClassVar, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from pydantic import SecretStr

from icekeeper.kernel.errors.types import CatalogError

_PURPOSE: Final = b"icekeeper signing key 1"
_SALT: Final = b"icekeeper: signing key, 1"
"""Constant, as every server must come to the same key; not the one that credentials are encrypted with."""
_COST: Final = 2**14
"""Of scrypt (RFC 7914): some 50 ms and 16 MiB, once a process."""


class SigningKeyUnavailable(CatalogError, ImproperlyConfigured):
    """The database, which stores the signing secret, cannot be read."""

    status: ClassVar = 503
    wire_type: ClassVar = "SigningKeyUnavailable"
    retry_after: ClassVar = 5


def require_signing_keys() -> None:
    """Load the signing keys before the server forks (`STARTUP_JOBS`), so that all processes have them.

    Raises `SigningKeyUnavailable`.
    """
    for key in (settings.SECRET_KEY, *settings.FORMER_SECRET_KEYS):
        bool(key)  # those that the database keeps are read when they are first used


def shared_signing_key(encryption_key: SecretStr | None) -> str:
    """The same on every server whose `LAKEKEEPER__PG_ENCRYPTION_KEY` is this one. Raises `SigningKeyUnavailable`."""
    try:
        material = _stored_secret().encode()
    except DatabaseError as error:
        raise SigningKeyUnavailable(
            "The signing key of this server is in its database, which cannot be read: check LAKEKEEPER__PG_*, run "
            "manage.py migrate, or set ICEKEEPER__SECRET_KEY to the same random text on every server"
        ) from error
    if encryption_key is not None:
        text = encryption_key.get_secret_value().encode()
        material += hashlib.scrypt(text, salt=_SALT, n=_COST, r=8, p=1, dklen=32)
    key = HKDF(hashes.SHA256(), length=48, salt=None, info=_PURPOSE).derive(material)
    return base64.urlsafe_b64encode(key).decode()


def _stored_secret() -> str:
    """Return the stored secret, created if it does not exist; concurrent processes all get the first one.

    On a connection of its own, so that the row stays when the caller's transaction is rolled back.
    """
    connection = connections["default"].copy()
    try:
        with connection.cursor() as cursor:
            return _read(cursor) or _create(cursor)
    finally:
        connection.close()


def _read(cursor: Any) -> str | None:
    cursor.execute("SELECT text FROM tenancy_signingsecret")
    row = cursor.fetchone()
    return None if row is None else str(row[0])


def _create(cursor: Any) -> str:
    insert = "INSERT INTO tenancy_signingsecret (singleton, text) VALUES (1, %s) ON CONFLICT DO NOTHING"
    cursor.execute(insert, [secrets.token_urlsafe(48)])
    stored = _read(cursor)
    if stored is None:
        raise DatabaseError("the signing secret disappeared after it was created")
    return stored


def derived_keys(purpose: str) -> list[bytes]:
    """Return keys of 32 bytes, the same on every server of the deployment.

    The first one signs and encrypts; all of them verify and decrypt.
    """
    return [_derive(str(secret), purpose) for secret in (settings.SECRET_KEY, *settings.FORMER_SECRET_KEYS)]


@lru_cache(maxsize=128)
def _derive(secret: str, purpose: str) -> bytes:
    return HKDF(hashes.SHA256(), length=32, salt=None, info=purpose.encode()).derive(secret.encode())
