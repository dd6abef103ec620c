"""Which store serves a warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from icekeeper.kernel.errors import BadRequest, CatalogError, Unsupported
from storage.io.local import LocalStore
from storage.io.port import ObjectStore
from storage.storage import Storage


def store_for(storage: Storage) -> ObjectStore:
    """The store of a warehouse.

    Raises `Unsupported` (406) when this server cannot serve its kind, `BadRequest` when local ones are off.
    """
    require_served(storage)
    return _open_local()


def _open_local() -> LocalStore:
    root = settings.ICEKEEPER.local_storage_root
    if root is None:
        raise BadRequest("Local warehouses are off: ICEKEEPER__LOCAL_STORAGE_ROOT is not set")
    return _local_store(root)


def require_served(storage: Storage) -> None:
    """Raises `Unsupported` (406) for a warehouse in which nothing can be that has files, or will leave some."""
    kind = storage.profile["type"]
    if kind != "local":
        raise Unsupported(
            f"Warehouses on storage of type {kind} cannot hold tables, views or generic tables in this version yet"
        )


@contextmanager
def made_base(storage_profile: dict[str, Any], location: str) -> Iterator[None]:
    """The location can be the base of a warehouse, for which only folders must be made.

    One that was made is taken away again when what follows fails. Should another warehouse be there by then, its
    folder comes back with the first file.
    """
    if storage_profile["type"] != "local":
        yield
        return
    store = _open_local()
    is_new = store.make_folder(location)
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
