"""Writes that are killed at any line: they leave the old state or the new one, never anything between.

Each case runs in a forked process that exits without any clean-up at its n-th line of the product's code; n grows until
the process completes. After every kill the catalog is read on another connection. A plain commit is killed at every
line, other writes at every third or sixth one; the runs on SQLite and on PostgreSQL share these lines between them.
Around the end of a write, and with ICEKEEPER_TEST_LONG=1, each write is killed at every line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections

from catalog.models import Namespace, Snapshot, Tabular, TabularMetadata
from catalog.selectors.tables.metadata_cache import MetadataCache
from tenancy.models import Securable
from tests.harness.wsgi_client import ApiClient

TRACED = tuple(
    str(Path(settings.BASE_DIR) / path)
    for path in (
        "catalog/services",
        "catalog/selectors/tables/targets.py",
        "storage/io",
        "tasks/leases.py",
        "tasks/models.py",
        "tasks/worker.py",
        "tenancy/authz/securables.py",
        "icekeeper/kernel/db/sql.py",
        "icekeeper/kernel/db/transactions.py",
        "catalog/api/base.py",
        "catalog/api/namespaces.py",
        "catalog/api/tables.py",
        "catalog/api/render.py",
        "management/api/warehouse_objects",
    )
)
DIED, RESPONDED = 9, 0
OWN_STRIDE, STRIDE, WIDE_STRIDE = (1, 1, 1) if os.environ.get("ICEKEEPER_TEST_LONG") == "1" else (2, 6, 12)
"""Of each run; the other run has the lines in between."""
LAST_LINE, LAST_STEPS = 2_000, 12


def dies_at_line(number: int) -> Any:
    """Return a trace function that ends the process at the `number`-th executed line of `TRACED`."""
    seen = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(TRACED):
            return None
        if event == "line":
            seen += 1
            if seen == number:
                os._exit(DIED)
        return trace

    return trace


def run_and_die(act: Callable[[], Any], line: int) -> bool:
    """Run `act` in a process that exits at that line; return whether it completed."""
    for each in connections.all():
        each.close()
    with witness() as sessions:
        known = sessions()
        child = os.fork()
        if child == 0:
            try:
                sys.settrace(dies_at_line(line))
                response = act()
                sys.settrace(None)
                if response.status < 300:
                    os._exit(RESPONDED)
                os.write(2, response.body)
            finally:
                os._exit(4)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        wait_until_the_database_noticed(sessions, known)
    assert code in {DIED, RESPONDED}, f"the process neither died nor completed: {code}"
    return code == RESPONDED


@pytest.fixture(autouse=True)
def no_pool(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forked processes must not inherit the threads of a pool, which may hold a lock at that moment."""
    for each in connections.all():
        each.close()
        if each.vendor == "postgresql":
            each.close_pool()  # type: ignore[attr-defined]
    if connection.vendor == "postgresql":
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", False)
    yield
    connection.close()


@contextmanager
def witness() -> Iterator[Callable[[], set[int]]]:
    """Return a function that lists the other PostgreSQL sessions of the test database; there are none on SQLite."""
    if connection.vendor != "postgresql":
        yield set
        return
    location = connection.settings_dict
    others = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    )
    address = {
        "host": location["HOST"],
        "port": location["PORT"],
        "user": location["USER"],
        "password": location["PASSWORD"],
    }
    with psycopg.connect(dbname=location["NAME"], autocommit=True, **address) as own:
        yield lambda: {pid for (pid,) in own.execute(others)}


def wait_until_the_database_noticed(sessions: Callable[[], set[int]], known: set[int]) -> None:
    """Wait until PostgreSQL has finished the statement of a dead client; only then is its state final.

    `known` are the sessions that existed before.
    """
    for _ in range(5000):
        if sessions() <= known:
            return
        time.sleep(0.002)
    raise AssertionError("the session of the dead process does not end")


@pytest.fixture
def state(catalog: ApiClient, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """Return the catalog's content by name, after checking that all parts of it agree."""

    def read() -> dict[str, Any]:
        from catalog.selectors.tables import load, metadata_cache, targets

        for module in (load, targets, metadata_cache):  # a new process has empty caches
            monkeypatch.setattr(module, "metadata_cache", MetadataCache(max_bytes=1_000_000))
        found = {}
        for (space,) in catalog.get("/namespaces").json()["namespaces"]:
            for identifier in catalog.get(f"/namespaces/{space}/tables").json()["identifiers"]:
                loaded = catalog.get(f"/namespaces/{space}/tables/{identifier['name']}")
                assert loaded.status == 200, loaded.body
                found[identifier["name"]] = loaded.json()
        kept = set(Tabular.objects.values_list("pk", flat=True))  # including soft-deleted ones
        assert set(Securable.objects.filter(type="table").values_list("object_id", flat=True)) == {
            str(key) for key in kept
        }
        assert set(TabularMetadata.objects.values_list("tabular_id", flat=True)) == kept
        rows = list(Tabular.objects.filter(deleted_at=None))
        assert {row.name for row in rows} == set(found)
        assert set(Securable.objects.filter(type="namespace").values_list("object_id", flat=True)) == {
            str(key) for key in Namespace.objects.values_list("pk", flat=True)
        }
        for row in rows:
            result = found[row.name]
            assert row.metadata_location == result["metadata-location"]
            written = Path(row.metadata_location.removeprefix("file://")).read_bytes()
            assert written == bytes(TabularMetadata.objects.get(pk=row.pk).document), "the file and the row differ"
            assert set(Snapshot.objects.filter(tabular=row).values_list("snapshot_id", flat=True)) == {
                each["snapshot-id"] for each in result["metadata"].get("snapshots", [])
            }
        return found

    return read


def lines_of_this_run(stride: int) -> range:
    first = 1 if connection.vendor == "sqlite" else 1 + stride // 2
    return range(first, LAST_LINE, stride)


def kill_at_line_after_line(
    act: Callable[[int], Callable[[], Any]], check: Callable[[int], bool], stride: int = STRIDE
) -> None:
    """Kill `act(line)` at each line in turn until it completes.

    `check(line)` asserts the state and returns whether it is the new one: some kills must leave the old state, some the
    new one, and an acknowledged write must be present.
    """
    deaths = {False: 0, True: 0}

    def lives(line: int) -> bool:
        has_lived = run_and_die(act(line), line)
        is_new = check(line)
        assert is_new or not has_lived, "acknowledged, and yet not there"
        deaths[is_new] += not has_lived
        return has_lived

    tried = set()
    for first_to_live in lines_of_this_run(stride):
        tried.add(first_to_live)
        if lives(first_to_live):
            break
    else:
        raise AssertionError("the process ended before it responded")
    first_of_the_last = max(1, first_to_live - max(stride, LAST_STEPS))
    for line in range(first_of_the_last, first_to_live):  # around the commit, every line is tested
        if line not in tried:
            lives(line)
    assert deaths[False] > 10
    assert deaths[True] > 0
