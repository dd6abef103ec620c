"""Secrets beside transactions of the database: put before one is named, deleted when none names it any more.

A store that shares the caller's transaction does both in it. Any other does neither while a transaction is open, so a
crash in between can leave a secret that no warehouse names, never a warehouse whose secret is gone:
`manage.py check_secrets` finds such.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from icekeeper.kernel.errors.types import CatalogError, CommitStateUnknown
from icekeeper.kernel.ids import new_id
from storage.secrets.port import SecretMissing, SecretStore
from storage.secrets.stores import secret_store, secret_stores

logger = logging.getLogger("icekeeper.secrets")


class NewSecret:
    """A secret that a row of a transaction is to name by its `id`."""

    def __init__(self, store: SecretStore, document: dict[str, Any]) -> None:
        self.id = new_id()
        self._store, self._document = store, document

    def keep(self) -> None:
        """To be called in that transaction."""
        if self._store.shares_transactions:
            self._store.put(self.id, self._document)


@contextmanager
def new_secret(document: dict[str, Any]) -> Iterator[NewSecret]:
    """To be entered before the transaction, and left after it; one that fails leaves no secret.

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
        raise  # a warehouse may name it
    except Exception:
        _delete_elsewhere(store, secret.id)
        raise


def delete_secret(secret_id: UUID) -> None:
    """To be called in the transaction in which a warehouse ceases to name it."""
    for store in secret_stores():
        if store.shares_transactions:
            store.delete(secret_id)
        else:
            transaction.on_commit(partial(_delete_elsewhere, store, secret_id), robust=True)


def read_secret(secret_id: UUID) -> dict[str, Any]:
    """From the store where it is: it may not have been moved to the chosen one yet. Raises as `SecretStore.get`."""
    chosen, *others = secret_stores()
    try:
        return chosen.get(secret_id)
    except SecretMissing:
        for store in others:
            with suppress(SecretMissing):
                return store.get(secret_id)
        raise


def _delete_elsewhere(store: SecretStore, secret_id: UUID) -> None:
    try:
        store.delete(secret_id)
    except CatalogError as error:
        logger.warning(
            "secret %s is not needed, and may be left because it could not be deleted: %s", secret_id, error.message
        )
