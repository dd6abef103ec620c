"""Read the credential of a warehouse from the secret store, through a cache."""

from __future__ import annotations

from threading import Lock
from typing import Final
from uuid import UUID

from cachetools import LRUCache, cached

from icekeeper.kernel.errors.types import Busy
from storage.credentials import Credential, read_credential
from storage.models import Warehouse
from storage.secrets.port import SecretMissing
from storage.secrets.stores import read_secret

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
