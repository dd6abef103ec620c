"""A kill at any line of a write leaves the old state or the new one, never anything between.

Each case runs in a forked process that dies by itself, without any clean-up, at its n-th line of our code; n grows
until the process lives to answer. After every death the catalog is read again, on another connection.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections

from catalog.models import Snapshot, Tabular, TabularMetadata
from catalog.selectors.metadata_cache import MetadataCache
from storage.models import Warehouse
from tasks.queue.models import Task
from tenancy.models import Securable
from tests.catalog_fixtures import SCHEMA, snapshot
from tests.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.timeout(600)]

ROOMS = tuple(
    str(Path(settings.BASE_DIR) / room)
    for room in (
        "catalog/services",
        "catalog/selectors/targets.py",
        "storage/io",
        "tenancy/authz/securables.py",
        "icekeeper/kernel/sql.py",
        "catalog/api/tables.py",
        "catalog/api/render.py",
    )
)
DIED, ANSWERED = 9, 0


def dies_at_line(number: int) -> Any:
    """A trace function that ends the process at the `number`-th line executed in `ROOMS`."""
    seen = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(ROOMS):
            return None
        if event == "line":
            seen += 1
            if seen == number:
                os._exit(DIED)
        return trace

    return trace


def run_and_die(act: Callable[[], Any], line: int) -> bool:
    """Run `act` in a process that dies at that line; whether it lived to the end."""
    for each in connections.all():
        each.close()
    child = os.fork()
    if child == 0:
        try:
            sys.settrace(dies_at_line(line))
            answer = act()
            sys.settrace(None)
            if answer.status < 300:
                os._exit(ANSWERED)
            os.write(2, answer.body)
        finally:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    wait_until_the_database_noticed()
    assert code in {DIED, ANSWERED}, f"the process neither died nor answered: {code}"
    return code == ANSWERED


@pytest.fixture(autouse=True)
def no_pool(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forked processes must not inherit the threads of a pool, which may hold a lock just then."""
    if connection.vendor == "postgresql":
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", False)
    yield
    connection.close()


def wait_until_the_database_noticed() -> None:
    """PostgreSQL finishes the statement of a dead client first; only then what it left behind can be judged."""
    if connection.vendor != "postgresql":
        return
    place = connection.settings_dict
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    )
    address = {"host": place["HOST"], "port": place["PORT"], "user": place["USER"], "password": place["PASSWORD"]}
    with psycopg.connect(dbname=place["NAME"], autocommit=True, **address) as witness:
        for _ in range(2000):
            if witness.execute(others).fetchone() == (0,):
                return
            time.sleep(0.005)
    raise AssertionError("the session of the dead process does not end")


@pytest.fixture
def state(catalog: ApiClient, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """What the catalog says now, by name, after checking that every part of it agrees."""

    def read() -> dict[str, Any]:
        from catalog.selectors import tables, targets

        for module in (tables, targets):  # a new process knows nothing
            monkeypatch.setattr(module, "metadata_cache", MetadataCache(max_bytes=1_000_000))
        found = {}
        for identifier in catalog.get("/namespaces/ns/tables").json()["identifiers"]:
            loaded = catalog.get(f"/namespaces/ns/tables/{identifier['name']}")
            assert loaded.status == 200, loaded.body
            found[identifier["name"]] = loaded.json()
        rows = list(Tabular.objects.all())
        assert {row.name for row in rows} == set(found)
        assert set(Securable.objects.filter(type="table").values_list("object_id", flat=True)) == {
            str(row.pk) for row in rows
        }
        assert set(TabularMetadata.objects.values_list("tabular_id", flat=True)) == {row.pk for row in rows}
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


def test_commit(catalog: ApiClient, make_table: Any, state: Any) -> None:
    created = make_table()
    at = created["metadata"]["last-updated-ms"]
    numbers = iter(range(1, 10_000))
    last: dict[str, Any] = {"snapshot": None, "sequence": 0}

    def act() -> Any:
        number = last["next"]
        return catalog.post(
            "/namespaces/ns/tables/t",
            {
                "requirements": [
                    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": last["snapshot"]},
                ],
                "updates": [
                    {
                        "action": "add-snapshot",
                        "snapshot": snapshot(
                            number, parent=last["snapshot"], sequence_number=last["sequence"] + 1, at=at
                        ),
                    },
                    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
                ],
            },
        )

    deaths_before = deaths_after = 0
    for line in range(1, 2000):
        last["next"] = next(numbers)
        has_lived = run_and_die(act, line)
        current = state()["t"]["metadata"].get("current-snapshot-id")
        current = None if current == -1 else current
        assert current in {last["snapshot"], last["next"]}, f"neither old nor new after a death at line {line}"
        if current == last["next"]:
            last.update(snapshot=current, sequence=last["sequence"] + 1)
            deaths_after += not has_lived
        else:
            assert not has_lived, "acknowledged, and yet not there"
            deaths_before += 1
        if has_lived:
            break
    else:
        raise AssertionError("the process never lived to answer")
    assert deaths_before > 30
    assert deaths_after > 3


def test_create(catalog: ApiClient, namespace: str, state: Any) -> None:
    line = made = 0
    has_lived = False
    while not has_lived:
        line += 1
        name = f"t{line}"
        has_lived = run_and_die(
            lambda name=name: catalog.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA}),
            line,  # type: ignore[misc]
        )
        made += name in state()
        assert made <= 1 or name in state()
    assert name in state()
    assert line > 50


def test_drop_with_purge(catalog: ApiClient, make_table: Any, state: Any, warehouse: Warehouse) -> None:
    line = 0
    has_lived = False
    while not has_lived:
        line += 1
        if not Tabular.objects.exists():
            Task.objects.all().delete()
            make_table()
        has_lived = run_and_die(lambda: catalog.delete("/namespaces/ns/tables/t?purgeRequested=true"), line)
        # The table is there and nothing is queued, or it is gone and its purge is queued.
        assert ("t" in state()) is not Task.objects.exists()
    assert Task.objects.exists()
    assert line > 20


def test_rename_to_another_namespace(catalog: ApiClient, make_table: Any, state: Any) -> None:
    created = make_table("here")
    assert catalog.post("/namespaces", {"namespace": ["away"]}).status == 200
    names = [("ns", "here"), ("ns", "there")]
    line = 0
    has_lived = False
    while not has_lived:
        line += 1
        (source_ns, source), (target_ns, target) = names
        body = {
            "source": {"namespace": [source_ns], "name": source},
            "destination": {"namespace": [target_ns], "name": target},
        }
        has_lived = run_and_die(lambda body=body: catalog.post("/tables/rename", body), line)  # type: ignore[misc]
        found = state()
        assert set(found) in ({source}, {target})
        assert next(iter(found.values())) == created
        if target in found:
            names.reverse()
    assert line > 20
