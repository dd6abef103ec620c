"""Counts of statements and object-store calls by operation, and their record, `tests/query_counts.json`.

The counter sees statements of Django and of psycopg; BEGIN, COMMIT and savepoints are left out. A count changes only on
purpose: `UPDATE_QUERY_COUNTS=1` rewrites the file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.db import connection

from icekeeper.kernel.db.sql import ReusableCursor
from storage.io.local import LocalStore
from storage.io.object_store import RemoteStore

RECORD = Path(__file__).resolve().parents[1] / "query_counts.json"
TRANSACTION_WORDS = ("SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "COMMIT", "SET ")
Counts = dict[str, dict[str, int]]
"""Operation, what is counted, how many."""


@contextmanager
def counting() -> Iterator[Counter[str]]:
    seen: Counter[str] = Counter()

    def through_django(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith(TRANSACTION_WORDS):
            seen["statements"] += 1
        return execute(sql, params, many, context)

    def through_psycopg(cursor: Any, *args: Any, **options: Any) -> Any:
        seen["statements"] += 1
        return original(cursor, *args, **options)

    original = ReusableCursor.execute
    with ExitStack() as patched:
        patched.enter_context(connection.execute_wrapper(through_django))
        patched.enter_context(patch.object(ReusableCursor, "execute", through_psycopg))
        for method in ("put_new", "get", "delete", "require_exists", "is_empty", "delete_below", "create_folder"):
            for store in (LocalStore, RemoteStore):
                counted = _counted(getattr(store, method), seen, f"store.{method}")
                patched.enter_context(patch.object(store, method, counted))
        yield seen


def _counted(function: Callable[..., Any], seen: Counter[str], name: str) -> Callable[..., Any]:
    def counted(*args: Any, **options: Any) -> Any:
        seen[name] += 1
        return function(*args, **options)

    return counted


def recorded() -> dict[str, dict[str, Counts]]:
    """Return the recorded counts by database and API."""
    record: dict[str, dict[str, Counts]] = json.loads(RECORD.read_text())
    return record


def require_as_recorded(api: str, counted: Counts) -> None:
    """Fail when the counts of `api` differ from the record of this database."""
    record = recorded()
    if os.environ.get("UPDATE_QUERY_COUNTS") == "1":
        record.setdefault(connection.vendor, {})[api] = counted
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    assert counted == record[connection.vendor][api]
