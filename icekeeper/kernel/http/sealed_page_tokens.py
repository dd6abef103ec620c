"""Page tokens for lists that may end behind what their caller must not see: they tell nothing, and none can be made up.

A nonce, and what AES-GCM makes of the sort key for one kind of list. All are of one length, which would tell, too. They
are good at every server with the same signing key.
"""

from __future__ import annotations

import os
from typing import Final

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from icekeeper.kernel.derived_keys import derived_keys
from icekeeper.kernel.errors.types import InvalidPageToken
from icekeeper.kernel.http.page_tokens import bytes_of, text_of

_PURPOSE: Final = "icekeeper page tokens 1"
_NONCE: Final = 12
_LENGTH: Final = 128
"""Of what is sealed, filled up with spaces."""


def seal_page_token(kind: str, *after: str) -> str:
    """A token that continues a listing of `kind` behind the sort key `after`, which must be short."""
    plain = orjson.dumps(after)
    if len(plain) > _LENGTH:
        raise ValueError("too long for a page token that tells nothing")
    nonce = os.urandom(_NONCE)
    return text_of(nonce + _ciphers()[0].encrypt(nonce, plain.ljust(_LENGTH), kind.encode()))


def open_page_token(token: str, kind: str) -> list[str]:
    """The sort key that was sealed for `kind`. Raises `InvalidPageToken` (400) for what this server did not seal so."""
    sealed = bytes_of(token)
    if token != text_of(sealed):
        raise InvalidPageToken("Invalid page token")
    for cipher in _ciphers():
        try:
            after: list[str] = orjson.loads(cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], kind.encode()))
        except (InvalidTag, ValueError):  # ValueError: too short a nonce
            continue
        return after
    raise InvalidPageToken("Invalid page token")


def _ciphers() -> list[AESGCM]:
    """The first seals, all open."""
    return [AESGCM(key) for key in derived_keys(_PURPOSE)]
