"""The credentials that warehouses name by their secrets."""

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
"""Credentials in memory. None can be outdated: a secret is never changed, and a deleted one is not requested."""


class CredentialChanged(Busy):
    """The row of the warehouse that the caller read names a secret that is deleted meanwhile."""


@cached(LRUCache(MAX_CACHED_CREDENTIALS), lock=Lock())
def _kept(secret_id: UUID) -> Credential:
    return read_credential(read_secret(secret_id))


def stored_credential(secret_id: UUID | None) -> Credential | None:
    """None for a warehouse without one. Raises as `read_secret`, and `CredentialChanged` (503)."""
    if secret_id is None:
        return None
    try:
        return _kept(secret_id)
    except SecretMissing:
        if Warehouse.objects.using("default").with_secret(secret_id).exists():
            raise  # it is lost
        raise CredentialChanged("The credential of the warehouse was changed just now: try again") from None
