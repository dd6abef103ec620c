"""Credentials for the clients of a warehouse: downscoped to one folder, short-lived, issued once for many."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from django.conf import settings

from storage.documents import read_document
from storage.models.warehouse import WarehouseStorage
from storage.profiles.kinds import TYPES
from storage.profiles.options import vends_credentials
from storage.profiles.profile import Profile
from storage.secrets.credentials import stored_credential
from storage.vending.cache import CacheStatistics, CredentialCache
from storage.vending.issue import issue_credential
from storage.vending.rights import FileAccess
from storage.vending.vended import Vended

CLOUDS: Final = {"s3": "s3", "stackit": "s3", "adls": "azure", "onelake": "azure", "gcs": "gcs"}
"""By the type of a profile; the credentials of each are kept apart, so that none drives out the others'."""


def vend(storage: WarehouseStorage, *, location: str, rights: FileAccess) -> Vended | None:
    """A credential for the folder of a table, which others may have got before; None where none can be had at all.

    Raises `InvalidLocation` for what does not lie below the warehouse's base, `CredentialNotIssued` (412),
    `MissingCredential` and `EndpointNotPermitted` (400), `UnsupportedCredential` (501), `StoreUnavailable` and `Busy`
    (503).
    """
    if not vends_credentials(storage.profile):
        return None
    cache = _cache_of(CLOUDS[storage.profile["type"]])
    if cache is None:
        return _issued_for(storage, location, rights)
    return cache.get((storage.key, location, rights), lambda: _issued_for(storage, location, rights))


def statistics() -> dict[str, CacheStatistics]:
    """What the memory of this process did, by cloud; empty when none is kept."""
    caches = {cloud: _cache_of(cloud) for cloud in CLOUDS.values()}
    return {cloud: cache.statistics() for cloud, cache in caches.items() if cache is not None}


def _issued_for(storage: WarehouseStorage, location: str, rights: FileAccess) -> Vended:
    credential = stored_credential(storage.secret_id)
    return issue_credential(_typed(storage.profile), credential, location=location, rights=rights)


def _typed(profile: dict[str, Any]) -> Profile:
    return read_document(TYPES[profile["type"]], profile, "storage-profile")


@lru_cache(maxsize=len(set(CLOUDS.values())))
def _cache_of(cloud: str) -> CredentialCache | None:
    """Each cloud's own, None where the settings want none."""
    own = settings.ICEKEEPER.cache.stc
    return CredentialCache(own.capacity) if own.enabled else None
