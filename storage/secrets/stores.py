"""The secret stores of this deployment: create, read and delete secrets, such as the credentials of warehouses.

A secret is stored before a row refers to it, and deleted after the last reference. A store that shares the
caller's transaction does both in it. Any other store does neither while a transaction is open, so a crash can leave a
secret that no row refers to, but never a row without its secret. `manage.py check_secrets` finds orphaned secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any, Final
from uuid import UUID

from cachetools import LRUCache, cached
from django.conf import settings
from django.db import connection, transaction

from icekeeper.kernel.errors.types import Busy, CatalogError, CommitStateUnknown
from icekeeper.kernel.ids import new_id
from storage.credentials import Credential, read_credential
from storage.models import Warehouse
from storage.secrets.database import DatabaseSecrets
from storage.secrets.owners import newest_secrets
from storage.secrets.port import SecretMissing, SecretStore, SecretStoreUnavailable


def secret_store() -> SecretStore:
    """Return the store of new secrets (`LAKEKEEPER__SECRET_BACKEND`)."""
    return secret_stores()[0]


def secret_stores() -> list[SecretStore]:
    """Return that store, then the other if it may still have secrets, which `manage.py move_secrets` moves."""
    own = settings.ICEKEEPER
    if own.kv2.url is None:
        return [database_secrets()]
    from storage.secrets.vault import vault_secrets  # with the library of Vault, which most servers do not need

    stores: list[SecretStore] = [database_secrets(), vault_secrets()]
    return stores[::-1] if own.secret_backend == "kv2" else stores  # noqa: S105 - the name of a store


def database_secrets() -> DatabaseSecrets:
    """Return the store in the database, with `LAKEKEEPER__PG_ENCRYPTION_KEY`, which PostgreSQL requires.

    With SQLite, the signing key is the default: it is in the data folder, as the database is. Secrets that it encrypted
    can still be read when an encryption key is set later.
    """
    own = settings.ICEKEEPER
    chosen = [key for key in (own.pg_encryption_key, *own.pg_encryption_old_keys) if key is not None]
    texts = [key.get_secret_value() for key in chosen]
    return DatabaseSecrets([*texts, settings.SECRET_KEY] if connection.vendor == "sqlite" else texts)


logger = logging.getLogger("icekeeper.secrets")


class NewSecret:
    """A secret to which a row will refer by its `id`."""

    def __init__(self, store: SecretStore, document: dict[str, Any]) -> None:
        self.id = new_id()
        self._secret_store, self._document = store, document

    def store(self) -> None:
        """Store the secret, in the transaction that inserts or updates the row."""
        if self._secret_store.shares_transactions:
            self._secret_store.put(self.id, self._document)


@contextmanager
def new_secret(document: dict[str, Any]) -> Iterator[NewSecret]:
    """Create a secret around the transaction that refers to it; deleted if the transaction fails.

    Raises as `SecretStore.put`.
    """
    store = secret_store()
    secret = NewSecret(store, document)
    if store.shares_transactions:
        store.require_ready()
        yield secret
        return
    try:
        store.put(secret.id, document)
        yield secret
    except CommitStateUnknown:
        raise  # a warehouse may refer to it
    except Exception:
        _delete_from(store, secret.id)
        raise


def delete_secret(secret_id: UUID) -> None:
    """Delete a secret, in the transaction that removes the last reference to it."""
    for store in secret_stores():
        if store.shares_transactions:
            store.delete(secret_id)
        else:
            transaction.on_commit(partial(_delete_from, store, secret_id), robust=True)


def read_secret(secret_id: UUID) -> dict[str, Any]:
    """Read a secret from the store of new secrets, or else from the other one. Raises as `SecretStore.get`."""
    chosen, *others = secret_stores()
    try:
        return chosen.get(secret_id)
    except SecretMissing:
        for store in others:
            with suppress(SecretMissing):
                return store.get(secret_id)
        raise


def _delete_from(store: SecretStore, secret_id: UUID) -> None:
    try:
        store.delete(secret_id)
    except CatalogError as error:
        logger.warning("secret %s is orphaned, as it could not be deleted: %s", secret_id, error.message)


SAMPLE_SIZE: Final = 3
"""Newest secrets that the startup check looks for: one may be lost, but hardly all of them."""


def require_readable_secrets() -> None:
    """Startup check (`STARTUP_JOBS`) of a few secrets.

    Raises `SecretStoreNotConfigured` or `SecretUnreadable` with the setting and how to fix it.
    """
    chosen, *others = secret_stores()
    chosen.require_readable()
    sample = newest_secrets(SAMPLE_SIZE)
    if not sample or any(_has(chosen, secret_id) for secret_id in sample):
        return
    if not any(_has(store, secret_id) for store in others for secret_id in sample):
        raise SecretMissing(
            "Warehouses have credentials, and none is where LAKEKEEPER__SECRET_BACKEND says. Set it, and what belongs "
            "to it, to what they were; docs/secrets.md says how credentials are moved"
        )
    logger.warning("credentials of warehouses are still in the former secret store: manage.py move_secrets moves them")


def _has(store: SecretStore, secret_id: UUID) -> bool:
    """Return whether a store has a secret; true if the store is unavailable."""
    try:
        with suppress(SecretStoreUnavailable):
            store.get(secret_id)
    except SecretMissing:
        return False
    return True


MAX_CACHED_CREDENTIALS: Final = 1024
"""Cached credentials; they cannot be stale, as secrets are never updated."""


class CredentialChanged(Busy):
    """The secret was deleted after the caller read the row of the warehouse."""


@cached(LRUCache(MAX_CACHED_CREDENTIALS), lock=Lock())
def _read_credential(secret_id: UUID) -> Credential:
    return read_credential(read_secret(secret_id))


def stored_credential(secret_id: UUID | None) -> Credential | None:
    """Return the credential; None without a secret. Raises as `read_secret`, and `CredentialChanged` (503)."""
    if secret_id is None:
        return None
    try:
        return _read_credential(secret_id)
    except SecretMissing:
        if Warehouse.objects.using("default").with_secret(secret_id).exists():
            raise  # the secret is lost
        raise CredentialChanged("The credential of the warehouse was just changed: try again") from None
