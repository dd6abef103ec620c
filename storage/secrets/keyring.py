"""The keys that secrets in the database are encrypted with."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

_SALT: Final = b"icekeeper: credentials of warehouses, 1"
"""Constant, as every server must come to the same key from the same text."""

_COST: Final = 2**14
"""Of scrypt (RFC 7914): some 50 ms and 16 MiB, once a process, against guessing short texts."""


class WrongKey(Exception):
    """What was encrypted cannot be read with any of the keys, or was changed."""


class KeyRing:
    """Encrypts with the key that the first of `texts` stands for, and reads what was encrypted with any of them.

    At least one text is needed. `first_id` names the first key, `ids` all of them: digests that identify keys, and
    nothing of the texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        keys = [_key_of(text) for text in texts]
        self._fernet = MultiFernet([Fernet(key) for key in keys])
        self.ids = [_id_of(key) for key in keys]

    @property
    def first_id(self) -> str:
        return self.ids[0]

    def encrypt(self, plain: bytes) -> bytes:
        return self._fernet.encrypt(plain)

    def decrypt(self, ciphertext: bytes) -> bytes:
        """Raises `WrongKey`."""
        try:
            return self._fernet.decrypt(ciphertext)
        except InvalidToken:
            raise WrongKey from None


@lru_cache(maxsize=32)
def _key_of(text: str) -> bytes:
    """The key that the text of a setting stands for, in the form of Fernet."""
    return base64.urlsafe_b64encode(hashlib.scrypt(text.encode(), salt=_SALT, n=_COST, r=8, p=1, dklen=32))


def _id_of(key: bytes) -> str:
    return hashlib.blake2b(key, digest_size=6, person=b"key id").hexdigest()
