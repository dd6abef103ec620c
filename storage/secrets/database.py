"""Secrets in the database, encrypted with Fernet, in the caller's transaction."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from icekeeper.kernel.json.strict import read_stored_json, write_json
from storage.models import Secret
from storage.secrets.owners import is_in_use
from storage.secrets.port import SecretMissing, SecretStore, SecretStoreNotConfigured, SecretUnreadable

_SALT: Final = b"icekeeper: credentials of warehouses, 1"
"""Constant, so that all servers derive the same key from the same text."""

_COST: Final = 2**14
"""Cost of scrypt (RFC 7914): 50 ms and 16 MiB, once a process, against guessing of short texts."""


class WrongKey(Exception):
    """None of the keys can decrypt the secret, or it was modified."""


class KeyRing:
    """Encrypts with the key derived from the first of `texts`, decrypts with those of all; at least one is required.

    `first_id` and `ids` identify the keys by digests, which do not reveal the texts.
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
    """Derive a Fernet key from the text of a setting."""
    return base64.urlsafe_b64encode(hashlib.scrypt(text.encode(), salt=_SALT, n=_COST, r=8, p=1, dklen=32))


def _id_of(key: bytes) -> str:
    return hashlib.blake2b(key, digest_size=6, person=b"key id").hexdigest()


class DatabaseSecrets(SecretStore):
    """Encrypts and decrypts with a `KeyRing` of `texts`; without any it can only delete."""

    shares_transactions: ClassVar = True

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def require_ready(self) -> None:
        self.keys()

    def keys(self) -> KeyRing:
        """Raises as `require_ready`."""
        if not self._texts:
            raise SecretStoreNotConfigured(
                "This server cannot store credentials: set LAKEKEEPER__PG_ENCRYPTION_KEY to a long random text, "
                "the same on every server"
            )
        return KeyRing(self._texts)

    def require_readable(self) -> None:
        """Check one secret for each key that was ever used."""
        kept = Secret.objects.filter(is_in_use("pk"))
        for key_id in kept.order_by().values_list("key_id", flat=True).distinct():
            row = kept.filter(key_id=key_id).order_by("-pk").first()
            if row is not None:  # it may have been replaced meanwhile
                self._require_readable(row)

    def _require_readable(self, row: Secret) -> None:
        try:
            self.keys().decrypt(bytes(row.ciphertext))
        except SecretStoreNotConfigured:
            raise SecretStoreNotConfigured(
                "Warehouses have credentials in the database, and LAKEKEEPER__PG_ENCRYPTION_KEY, which they are "
                "encrypted with, is not set. Set it to what it was"
            ) from None
        except WrongKey:
            raise SecretUnreadable(
                f"Credentials of warehouses are encrypted with another key ({row.key_id or 'not noted'}) than "
                f"LAKEKEEPER__PG_ENCRYPTION_KEY stands for ({self.keys().first_id}). Set it to what it was, or name "
                "the former text in ICEKEEPER__PG_ENCRYPTION_OLD_KEYS"
            ) from None

    def put(self, secret_id: UUID, document: dict[str, Any]) -> None:
        keys = self.keys()
        Secret.objects.create(pk=secret_id, ciphertext=keys.encrypt(write_json(document)), key_id=keys.first_id)

    def get(self, secret_id: UUID) -> dict[str, Any]:
        row = Secret.objects.filter(pk=secret_id).first()
        if row is None:
            raise SecretMissing(f"Secret {secret_id} does not exist")
        try:
            plain = self.keys().decrypt(bytes(row.ciphertext))
        except WrongKey:
            raise SecretUnreadable(
                f"Secret {secret_id} was encrypted with another key: is LAKEKEEPER__PG_ENCRYPTION_KEY what it was?"
            ) from None
        document: dict[str, Any] = read_stored_json(plain)
        return document

    def delete(self, secret_id: UUID) -> None:
        Secret.objects.filter(pk=secret_id).delete()

    def ids(self) -> Iterator[UUID]:
        return Secret.objects.order_by("pk").values_list("pk", flat=True).iterator()
