"""CPU time of a load by layer: nested layers of one request in one process, without a socket.

Run by `make bench` as `python -m tests.perf.layers TARGET`, with the environment of the catalog that it measures.
Prints JSON: microseconds of CPU by layer, the minimum of several rounds.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any
from uuid import UUID

CALLS, ROUNDS = 400, 7


def measure(act: Callable[[], Any]) -> float:
    """Return the CPU microseconds of one call, in the fastest round."""
    for _ in range(CALLS):
        act()
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(CALLS):
            act()
        rounds.append((time.process_time() - started) / CALLS * 1e6)
    return min(rounds)


def environ_of(target: str, **headers: str) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": "GET", "RAW_URI": target, "PATH_INFO": target, "QUERY_STRING": "", "SCRIPT_NAME": "",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "localhost",
        "CONTENT_LENGTH": "", "wsgi.url_scheme": "http", "wsgi.input": BytesIO(), "wsgi.errors": sys.stderr,
        "wsgi.multithread": True, "wsgi.multiprocess": True, "wsgi.run_once": False, "wsgi.version": (1, 0), **headers,
    }  # fmt: skip


def layers(target: str) -> dict[str, float]:
    """Return the layers of a load of the table path `target`; the first ones contain the later ones."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    from icekeeper.wsgi import application

    for handler in logging.getLogger().handlers:
        handler.setStream(open(os.devnull, "w"))  # type: ignore[attr-defined]  # noqa: PTH123, SIM115

    from django.conf import settings
    from django.db import connections

    from catalog.identifiers import Identifier
    from catalog.models import Tabular
    from catalog.selectors.tables import load
    from catalog.selectors.tables.metadata_cache import metadata_cache
    from icekeeper.kernel.db.sql import fetch_one
    from icekeeper.kernel.names import lookup_key, path_key
    from management.call_counter import count_request
    from tenancy.actor import ANONYMOUS

    def ask(path: str, **headers: str) -> bytes:
        response = application(environ_of(path, **headers), lambda *_: None)
        try:
            return b"".join(response)
        finally:
            response.close()  # type: ignore[attr-defined]

    *_, prefix, _, namespace, _, name = target.split("/")
    warehouse_id, table = UUID(prefix), Identifier((namespace,), name)

    def pooled() -> None:
        connection = connections[settings.READ_DATABASE]
        connection.ensure_connection()
        connection.close()

    def served() -> tuple[Any, Any]:
        """Return a request and its response, as the observers of the API get them."""
        observers, pairs = application._api._observers, []
        application._api._observers = [lambda *pair: pairs.append(pair)]
        ask(target)
        application._api._observers = observers
        return pairs[0]

    pair = served()
    found = {
        "request": measure(lambda: ask(target)),
        "request, gzip": measure(lambda: ask(target, HTTP_ACCEPT_ENCODING="gzip")),
        "request that no route matches": measure(lambda: ask("/catalog/none")),
        "counted for the endpoint statistics": measure(lambda: count_request(*pair)),
        "connection from the pool and back": measure(pooled),
        "selector": measure(
            lambda: load.load_tabular_for(
                actor=ANONYMOUS, warehouse_id=warehouse_id, identifier=table, kind=Tabular.Kind.TABLE
            )
        ),
    }
    seen, _ = metadata_cache.last_seen((warehouse_id, path_key(table.levels), lookup_key(table.name)))
    assert seen is not None
    params = [seen.tabular_id, seen.metadata_location, path_key(table.levels), lookup_key(table.name), warehouse_id]
    found["statement"] = measure(lambda: fetch_one(settings.READ_DATABASE, load._LOAD, params))
    return found


if __name__ == "__main__":
    print(json.dumps(layers(sys.argv[1])))
