"""Secrets in the database, encrypted, in the caller's transaction."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from icekeeper.kernel.json_text import read_stored_json, write_json
from storage.models import Secret
from storage.secrets.port import SecretStore, SecretStoreNotConfigured, SecretUnreadable

_SALT: Final = b"icekeeper: credentials of warehouses, 1"
"""Constant, as every server must come to the same key from the same text."""

_COST: Final = 2**14
"""Of scrypt (RFC 7914): some 50 ms and 16 MiB, once a process, against guessing short texts."""


class DatabaseSecrets(SecretStore):
    """Encrypts with the key that the first of `texts` stands for, and reads what was encrypted with any of them.

    Without any it can only delete.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def require_ready(self) -> None:
        if not self._texts:
            raise SecretStoreNotConfigured(
                "This server keeps no credentials: set LAKEKEEPER__PG_ENCRYPTION_KEY to a long random text, "
                "the same on every server"
            )
        for text in self._texts:
            _key_of(text)

    def put(self, document: dict[str, Any]) -> UUID:
        return Secret.objects.create(ciphertext=self._fernet().encrypt(write_json(document))).pk

    def get(self, secret_id: UUID) -> dict[str, Any]:
        row = Secret.objects.filter(pk=secret_id).first()
        if row is None:
            raise SecretUnreadable(f"There is no secret {secret_id}")
        try:
            plain = self._fernet().decrypt(bytes(row.ciphertext))
        except InvalidToken:
            raise SecretUnreadable(
                f"Secret {secret_id} was encrypted with another key: is LAKEKEEPER__PG_ENCRYPTION_KEY what it was?"
            ) from None
        document: dict[str, Any] = read_stored_json(plain)
        return document

    def delete(self, secret_id: UUID) -> None:
        Secret.objects.filter(pk=secret_id).delete()

    def _fernet(self) -> MultiFernet:
        self.require_ready()
        return MultiFernet([Fernet(_key_of(text)) for text in self._texts])


@lru_cache(maxsize=8)
def _key_of(text: str) -> bytes:
    """The key that the text of a setting stands for, in the form of Fernet."""
    return base64.urlsafe_b64encode(hashlib.scrypt(text.encode(), salt=_SALT, n=_COST, r=8, p=1, dklen=32))
