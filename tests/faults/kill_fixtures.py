"""Writes that are killed at any step: they leave the old state or the new one, never anything between.

Each case runs in a forked process that exits without any clean-up at its n-th step; n grows until it completes. Such a
process leaves its files and the effects of its statements. So a step is the first line of the product's code after a
statement, after a file or folder is created or removed, and after a file is written, in each thread: a death at
the next lines leaves the same. With ICEKEEPER_TEST_LONG=1 every line is a step. After every kill the catalog is read on
another connection.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from catalog.iceberg.totals import Totals, read_totals
from catalog.models import Namespace, Snapshot, TableTotals, Tabular, TabularColumns, TabularMetadata
from catalog.selectors.tables.metadata_cache import MetadataCache
from storage.io.local import LocalStore
from tenancy.models import AuditRecord, OutboxEvent, Securable
from tests.harness.wsgi_client import ApiClient

TRACED = tuple(
    str(Path(settings.BASE_DIR) / path)
    for path in (
        "catalog/services",
        "catalog/selectors/tables/targets.py",
        "storage/io",
        "tasks/queue/",
        "tasks/models.py",
        "tasks/workers/",
        "tenancy/authz/securables.py",
        "tenancy/changes",
        "icekeeper/kernel/db/sql.py",
        "icekeeper/kernel/db/transactions.py",
        "catalog/api/base.py",
        "catalog/api/namespaces.py",
        "catalog/api/tables.py",
        "catalog/api/render.py",
        "management/api/warehouse_objects",
    )
)
STATEMENTS = {
    function.__qualname__
    for function in (
        CursorWrapper._execute,  # type: ignore[attr-defined]
        CursorWrapper._executemany,  # type: ignore[attr-defined]
        BaseDatabaseWrapper._commit,  # type: ignore[attr-defined]
        BaseDatabaseWrapper._rollback,  # type: ignore[attr-defined]
        psycopg.Cursor.execute,
    )
}
"""The functions, all those of Django and of psycopg, that send something to the database."""

FILE_CHANGES = {"os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link"}
"""Audit events of changes of files, next to `open` for writing, which leaves an empty file."""

FILE_WRITE = LocalStore.put_new.__qualname__
"""The function that leaves a complete file when it returns."""

IS_LONG = os.environ.get("ICEKEEPER_TEST_LONG") == "1"
DIED, RESPONDED = 9, 0
LAST_STEP = 2_000


def die_at_step(number: int) -> None:
    """Let this process end at its `number`-th step, which is a line of `TRACED` in any of its threads."""
    steps = count(1)
    stepping = {threading.get_ident()}  # the threads whose next line is a step
    is_traced = cache(lambda path: path.startswith(TRACED))

    def notice_files(event: str, arguments: Sequence[Any]) -> None:
        if event in FILE_CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            stepping.add(threading.get_ident())

    def trace_calls(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_qualname in STATEMENTS:
            stepping.add(threading.get_ident())
        return trace_lines if is_traced(frame.f_code.co_filename) else None

    def trace_lines(frame: FrameType, event: str, argument: object) -> Any:
        thread = threading.get_ident()
        if event == "return" and frame.f_code.co_qualname == FILE_WRITE:
            stepping.add(thread)
        if event == "line" and (thread in stepping or IS_LONG):
            stepping.discard(thread)
            if next(steps) == number:
                os._exit(DIED)
        return trace_lines

    sys.addaudithook(notice_files)
    threading.settrace(trace_calls)
    sys.settrace(trace_calls)


def run_and_die(act: Callable[[], Any], step: int) -> bool:
    """Run `act` in a process that exits at that step; return whether it completed."""
    if connection.vendor == "sqlite":  # its locks must not be inherited
        close_connections()
    known = other_sessions()
    child = os.fork()
    if child == 0:
        try:
            gc.disable()  # it would write to all the memory that the processes share
            _kept = detach_connections()
            die_at_step(step)
            response = act()
            sys.settrace(None)
            if response.status < 300:
                os._exit(RESPONDED)
            os.write(2, response.body)
        finally:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    wait_until_the_database_noticed(known)
    assert code in {DIED, RESPONDED}, f"the process neither died nor completed: {code}"
    return code == RESPONDED


def close_connections() -> None:
    for each in connections.all():
        each.close()


def detach_connections() -> list[Any]:
    """Return the connections of the parent, which must stay referenced: otherwise they would end its sessions."""
    kept = [each.connection for each in connections.all()]
    for each in connections.all():
        each.connection = None
    return kept


@pytest.fixture(autouse=True)
def no_pool(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forked processes must not inherit the threads of a pool, which may hold a lock at that moment."""
    close_connections()
    for each in connections.all():
        if each.vendor == "postgresql":
            each.close_pool()  # type: ignore[attr-defined]
    if connection.vendor == "postgresql":
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", False)
    yield
    connection.close()


def other_sessions() -> set[int]:
    """Return the other PostgreSQL sessions of the test database; there are none on SQLite."""
    if connection.vendor != "postgresql":
        return set()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        return {pid for (pid,) in cursor.fetchall()}


def wait_until_the_database_noticed(known: set[int]) -> None:
    """Wait until PostgreSQL has finished the statement of a dead client; only then is its state final.

    `known` are the sessions that existed before.
    """
    for _ in range(5000):
        if other_sessions() <= known:
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
        for model in (TabularMetadata, TabularColumns, TableTotals):
            assert set(model.objects.values_list("tabular_id", flat=True)) == kept
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
            assert (
                TableTotals.objects.values(*Totals._fields).get(pk=row.pk) == read_totals(result["metadata"])._asdict()
            )
            assert set(Snapshot.objects.filter(tabular=row).values_list("snapshot_id", flat=True)) == {
                each["snapshot-id"] for each in result["metadata"].get("snapshots", [])
            }
        return found

    return read


def kill_at_step_after_step(act: Callable[[int], Callable[[], Any]], check: Callable[[int], bool], *, old: int) -> None:
    """Kill `act(step)` at each step in turn until it completes.

    `check(step)` asserts the state and returns whether it is the new one: at least `old` kills must leave the old
    state, some the new one, and an acknowledged write must be present. The old state has no new event and no new audit
    record, the new one the same of them each time.
    """
    deaths = {False: 0, True: 0}
    written: set[tuple[tuple[str, ...], ...]] = set()
    for step in range(1, LAST_STEP):
        doing = act(step)
        events, records = (set(model.objects.values_list("pk", flat=True)) for model in (OutboxEvent, AuditRecord))
        has_lived = run_and_die(doing, step)
        # A task that ended is a change of its own: a purge in the way of a create succeeds although the create dies.
        of_objects = OutboxEvent.objects.exclude(pk__in=events).exclude(object_key__startswith="task:")
        new_events = of_objects.order_by("event_index").values_list("type", flat=True)
        new_records = AuditRecord.objects.exclude(pk__in=records).order_by("event").values_list("event", flat=True)
        recorded = (tuple(new_events), tuple(new_records))
        is_new = check(step)
        if is_new:
            written.add(recorded)
        else:
            assert recorded == ((), ()), "a change that did not happen is recorded"
        assert is_new or not has_lived, "acknowledged, and yet not there"
        if has_lived:
            break
        deaths[is_new] += 1
    else:
        raise AssertionError("the process ended before it responded")
    assert len(written) == 1, written
    assert deaths[False] >= old, f"only {deaths[False]} kills left the old state"
    assert deaths[True] > 0
