"""Open the object store of a warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final
from uuid import UUID

from cachetools import LRUCache
from django.conf import settings

from icekeeper.kernel.errors.types import BadRequest, CatalogError
from storage.credentials import Credential
from storage.errors import StoreRefused, StoreUnavailable
from storage.io.bucket import Bucket
from storage.io.local import LocalStore, unwritable_storage
from storage.io.object_store import RemoteStore
from storage.io.port import ObjectNotFound, ObjectStore
from storage.models import WarehouseStorage
from storage.profiles.addresses import require_permitted_addresses
from storage.profiles.azure import AdlsProfile, OneLakeProfile
from storage.profiles.gcs import GcsProfile
from storage.profiles.kinds import read_stored_profile
from storage.profiles.profile import Profile
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.secrets.stores import stored_credential
from storage.vending.delegation import Vended

VERIFY_METADATA: Final = "verify-metadata-on-load"
"""Member of the storage profile: whether a load checks that the metadata file exists, although its bytes come from the
database. On local files, where the check costs one system call and finds files that were deleted without the catalog,
it is on by default; on object stores it would cost a request for each load."""

MAX_OPEN_STORES: Final = 512
"""Open stores with their connections; a change of a warehouse changes the cache key."""

_open: LRUCache[tuple[UUID, int], ObjectStore] = LRUCache(MAX_OPEN_STORES)
_opening = Lock()


def store_for(storage: WarehouseStorage) -> ObjectStore:
    """Return the store of a warehouse, opened once a process.

    Raises the errors of the secret store, and as `open_store`.
    """
    if storage.profile["type"] == "local":
        return _open_local()
    with _opening:
        store = _open.get(storage.key)
    if store is not None:
        return store
    credential = stored_credential(storage.secret_id)
    profile = read_stored_profile(storage.profile)
    require_permitted_addresses(profile, credential)
    with _opening:
        store = _open.get(storage.key)
        if store is None:
            store = _open[storage.key] = RemoteStore(_bucket(profile, credential), profile.location)
        return store


def verify_metadata_file(storage: WarehouseStorage, location: str) -> None:
    """Raise `ObjectNotFound` when a metadata file is missing, if the warehouse has loads verify that."""
    profile = storage.profile
    if profile.get(VERIFY_METADATA, profile["type"] == "local"):
        store_for(storage).require_exists(location)


def open_store(profile: Profile, credential: Credential | None) -> ObjectStore:
    """Open the store of a profile, which need not belong to a warehouse. Only its host name is resolved.

    Raises `BadRequest` when local warehouses are off, `EndpointNotPermitted`, `StoreUnavailable`,
    `CredentialNotIssued`.
    """
    if profile.type == "local":
        return _open_local()
    require_permitted_addresses(profile, credential)
    return RemoteStore(_bucket(profile, credential), profile.location)


def open_vended_store(profile: Profile, vended: Vended) -> RemoteStore:
    """Open the store with vended credentials, as a client does. Raises as `open_store`."""
    require_permitted_addresses(profile, None)
    return RemoteStore(_bucket(profile, vended), profile.location)


def _bucket(profile: Profile, credential: Credential | Vended | None) -> Bucket:
    """Return the client of a bucket. The libraries of each cloud are imported when the first warehouse needs them."""
    match profile:
        case S3Profile() | StackitProfile():
            from storage.io.s3 import S3Bucket

            return S3Bucket.of(profile.as_s3(), credential)
        case AdlsProfile() | OneLakeProfile():
            from storage.io.azure import AzureContainer

            return AzureContainer.of(profile, credential)
        case GcsProfile():
            from storage.io.gcs import GcsBucket

            return GcsBucket.of(profile, credential)
    raise AssertionError(f"no store of type {profile.type}")


def _open_local() -> LocalStore:
    root = settings.ICEKEEPER.local_storage_root
    if root is None:
        raise BadRequest("Local warehouses are off: ICEKEEPER__LOCAL_STORAGE_ROOT is not set")
    return _local_store(root)


@contextmanager
def create_base_folder(storage_profile: dict[str, Any], location: str) -> Iterator[None]:
    """Create the base folder of a local warehouse; other stores have none.

    A new folder is removed when the block fails. Should another warehouse use it by then, its first file creates it
    again. Raises `StoreRefused` when the root folder of local warehouses does not exist or is not writable.
    """
    if storage_profile["type"] != "local":
        yield
        return
    store = _open_local()
    try:
        is_new = store.create_folder(location)
    except (ObjectNotFound, StoreUnavailable):
        problem = unwritable_storage(settings.ICEKEEPER.local_storage_root)
        if problem is not None:
            raise StoreRefused(problem) from None
        raise
    try:
        yield
    except Exception:
        if is_new:
            with suppress(CatalogError):
                store.remove_empty_folder(location)
        raise


@lru_cache(maxsize=8)
def _local_store(root: Path) -> LocalStore:
    return LocalStore(root.resolve())
