"""Which store serves a warehouse."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from icekeeper.kernel.errors import BadRequest
from storage.io.local import LocalStore
from storage.io.port import ObjectStore


def store_for(storage_profile: dict[str, Any]) -> ObjectStore:
    """The store of a warehouse with this profile. Raises `BadRequest` when this server cannot serve its kind."""
    if storage_profile.get("type") != "local":
        raise BadRequest(f"Storage of type {storage_profile.get('type')!r} is not supported")
    root = settings.ICEKEEPER.local_storage_root
    if root is None:
        raise BadRequest("Local warehouses are off: ICEKEEPER__LOCAL_STORAGE_ROOT is not set")
    return _local_store(root)


@lru_cache(maxsize=8)
def _local_store(root: Path) -> LocalStore:
    return LocalStore(root.resolve())
