"""The credentials that warehouses name by their secrets."""

from __future__ import annotations

from threading import Lock
from typing import Final
from uuid import UUID

from cachetools import LRUCache, cached

from storage.credentials.credential import Credential
from storage.credentials.kinds import read_credential
from storage.secrets.keeping import read_secret

MOST_KEPT: Final = 1024
"""Credentials in memory. None can be out of date: a secret is never changed, and one that is gone is not asked for."""


@cached(LRUCache(MOST_KEPT), lock=Lock())
def _kept(secret_id: UUID) -> Credential:
    return read_credential(read_secret(secret_id))


def stored_credential(secret_id: UUID | None) -> Credential | None:
    """None for a warehouse without one. Raises as `read_secret`."""
    return None if secret_id is None else _kept(secret_id)
