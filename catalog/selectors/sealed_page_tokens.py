"""Encrypted page tokens, for listings whose last row may be hidden from the caller.

A token is a nonce and the AES-GCM ciphertext of the sort key, bound to one kind of listing. All tokens have one length,
so that the length discloses nothing. They are valid at every server with the same signing key.
"""

from __future__ import annotations

import os
from typing import Final

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from icekeeper.kernel.errors.types import InvalidPageToken
from icekeeper.kernel.http.paging import decode_token, encode_token
from tenancy.signing_keys import derived_keys

_PURPOSE: Final = "icekeeper page tokens 1"
_NONCE_BYTES: Final = 12
_PLAIN_BYTES: Final = 128
"""Length of the plain text, padded with spaces."""


def seal_page_token(kind: str, *after: str) -> str:
    """Return the token that continues a listing of `kind` after the sort key `after`, which must be short."""
    plain = orjson.dumps(after)
    if len(plain) > _PLAIN_BYTES:
        raise ValueError("too long for a sealed page token")
    nonce = os.urandom(_NONCE_BYTES)
    return encode_token(nonce + _ciphers()[0].encrypt(nonce, plain.ljust(_PLAIN_BYTES), kind.encode()))


def open_page_token(token: str, kind: str) -> list[str]:
    """Return the sort key that was sealed for `kind`. Raises `InvalidPageToken` (400) for any other token."""
    sealed = decode_token(token)
    if token != encode_token(sealed):
        raise InvalidPageToken("Invalid page token")
    for cipher in _ciphers():
        try:
            after: list[str] = orjson.loads(cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], kind.encode()))
        except (InvalidTag, ValueError):  # ValueError: the nonce is too short
            continue
        return after
    raise InvalidPageToken("Invalid page token")


def _ciphers() -> list[AESGCM]:
    """Return the ciphers of all keys; the first one encrypts."""
    return [AESGCM(key) for key in derived_keys(_PURPOSE)]
