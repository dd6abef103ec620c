"""Lists the objects of a location with the store of its warehouse: `python -m tests.perf.listing WAREHOUSE LOCATION`.

Run by `tests.perf.tasks` with the environment of the catalog. Prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(warehouse_id: str, location: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    import django

    django.setup()

    from storage.io.object_store import RemoteStore
    from storage.io.stores import store_for
    from storage.models import Warehouse

    store = store_for(Warehouse.objects.get(pk=warehouse_id).storage)
    assert isinstance(store, RemoteStore)
    store.is_empty(location, ignore=lambda _: False)  # connects
    prefix = f"{location.split('/', 3)[3]}/"
    began, objects = time.perf_counter(), 0
    for page in store.bucket.list_names(prefix):
        objects += len(page.objects)
    print(json.dumps({"objects": objects, "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main(*sys.argv[1:])
