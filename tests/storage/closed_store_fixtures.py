"""Check that stores without users are released."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

from storage.io.object_store import RemoteStore


def require_collected_when_dropped(open_one: Callable[[], RemoteStore], location: str) -> None:
    store = open_one()
    store.put_new(location, b"x")
    store.delete(location)
    bucket = weakref.ref(store.bucket)
    del store
    gc.collect()
    assert bucket() is None
