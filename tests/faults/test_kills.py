"""A kill at any line of a write leaves the old state or the new one, never anything between.

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
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections

from catalog.models import GenericTable, IdempotencyRecord, LocationClaim, Namespace, Snapshot, Tabular, TabularMetadata
from catalog.selectors.tables.metadata_cache import MetadataCache
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tasks.models import Task
from tasks.worker import Worker
from tenancy.models import Securable
from tests.catalog_fixtures import SCHEMA, chosen, finishing_updates, snapshot
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.timeout(600)]

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


def test_traced_paths_exist() -> None:
    assert [path for path in TRACED if not Path(path).exists()] == []


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


def test_commit(catalog: ApiClient, create_table: Any, state: Any) -> None:
    created = create_table()
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
    for line in lines_of_this_run(OWN_STRIDE):
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
        raise AssertionError("the process ended before it responded")
    assert deaths_before > 30
    assert deaths_after > 3


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


def table_files(storage_root: Path) -> set[str]:
    return {f"file://{path}" for path in storage_root.rglob("*.metadata.json")}


def test_create(catalog: ApiClient, namespace: str, state: Any) -> None:
    def act(line: int) -> Callable[[], Any]:
        return lambda: catalog.post("/namespaces/ns/tables", {"name": f"t{line}", "schema": SCHEMA})

    before: set[str] = set()

    def check(line: int) -> bool:
        found = set(state())
        assert found - before in (set(), {f"t{line}"})
        is_new = found != before
        before.update(found)
        return is_new

    kill_at_line_after_line(act, check)


def test_staging(catalog: ApiClient, namespace: str, state: Any, storage_root: Path) -> None:
    """The location is reserved or not, once per name; nothing else exists."""
    before: set[str] = set()

    def act(line: int) -> Callable[[], Any]:
        body = {"name": f"t{line}", "schema": SCHEMA, "stage-create": True, "location": f"{base}/t{line}"}
        return lambda: catalog.post("/namespaces/ns/tables", body)

    def check(line: int) -> bool:
        assert state() == {}
        found = {claim.location.rpartition("/")[2] for claim in LocationClaim.objects.all()}
        assert found - before in (set(), {f"t{line}"})
        assert LocationClaim.objects.count() == len(found)
        assert table_files(storage_root) == set()
        is_new = found != before
        before.update(found)
        return is_new

    base = Warehouse.objects.get().location
    kill_at_line_after_line(act, check)


def test_create_that_was_staged(catalog: ApiClient, namespace: str, state: Any) -> None:
    """The commit that asserts create, with a snapshot: rows of every type in one transaction."""

    def act(line: int) -> Callable[[], Any]:
        body = {"name": f"t{line}", "schema": SCHEMA, "stage-create": True}
        metadata = catalog.post("/namespaces/ns/tables", body).json()["metadata"]
        return lambda: catalog.post(
            f"/namespaces/ns/tables/t{line}",
            {
                "requirements": [{"type": "assert-create"}],
                "updates": [
                    *finishing_updates(metadata),
                    {"action": "add-snapshot", "snapshot": snapshot(line, at=metadata["last-updated-ms"])},
                    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": line},
                ],
            },
        )

    before: set[str] = set()

    def check(line: int) -> bool:
        found = state()
        assert found.keys() - before in (set(), {f"t{line}"})
        is_new = set(found) != before
        if is_new:
            assert found[f"t{line}"]["metadata"]["current-snapshot-id"] == line
        before.update(found)
        return is_new

    kill_at_line_after_line(act, check)


def test_register(catalog: ApiClient, create_table: Any, state: Any, storage_root: Path) -> None:
    created = create_table()
    files = table_files(storage_root)

    def act(_: int) -> Callable[[], Any]:
        if Tabular.objects.exists():
            assert catalog.delete("/namespaces/ns/tables/t").status == 204
        body = {"name": "t", "metadata-location": created["metadata-location"]}
        return lambda: catalog.post("/namespaces/ns/register", body)

    def check(_: int) -> bool:
        found = state()
        assert found in ({}, {"t": created})
        assert table_files(storage_root) == files, "the file was there before and stays whatever happens"
        return bool(found)

    kill_at_line_after_line(act, check)


def test_commit_that_moves_the_table(catalog: ApiClient, create_table: Any, state: Any) -> None:
    """Several statements: the metadata pointer, and the claim on the former location."""
    first = create_table()["metadata"]["location"]
    last = [first]
    left: set[str] = set()

    def act(line: int) -> Callable[[], Any]:
        updates = [
            {"action": "set-location", "location": f"{first}-{line}"},
            {"action": "set-properties", "updates": {"line": str(line)}},
        ]
        return lambda: catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})

    def check(line: int) -> bool:
        metadata = state()["t"]["metadata"]
        assert metadata["location"] in {last[0], f"{first}-{line}"}
        is_new = metadata["location"] != last[0]
        if is_new:
            assert metadata["properties"]["line"] == str(line)
            left.add(last[0])
            last[0] = metadata["location"]
        assert Tabular.objects.get().location == last[0]
        assert set(LocationClaim.objects.values_list("location", flat=True)) == left
        return is_new

    kill_at_line_after_line(act, check)


def locations_are_held(*, by_tasks: int) -> bool:
    """Check that exactly the queued purges have location claims, one each."""
    tasks = Task.objects.filter(queue="tabular_purge")
    held = LocationClaim.objects.filter(task_id__isnull=False).values_list("task_id", "location")
    assert sorted(held) == sorted((task.pk, task.payload["tabular_location"]) for task in tasks)
    return len(held) == by_tasks


def test_drop_with_purge(catalog: ApiClient, create_table: Any, state: Any) -> None:
    create_table()

    def act(_: int) -> Callable[[], Any]:
        if not Tabular.objects.exists():
            Task.objects.all().delete()
            LocationClaim.objects.all().delete()
            create_table()
        return lambda: catalog.delete("/namespaces/ns/tables/t?purgeRequested=true")

    def check(_: int) -> bool:
        # The table exists and nothing is queued, or it is deleted and its purge is queued.
        is_dropped = "t" not in state()
        assert is_dropped is Task.objects.exists()
        assert locations_are_held(by_tasks=int(is_dropped))
        return is_dropped

    kill_at_line_after_line(act, check)


def test_soft_drop(catalog: ApiClient, create_table: Any, soft_delete: int, state: Any) -> None:
    create_table()

    def act(_: int) -> Callable[[], Any]:
        if "t" not in state():
            create_table()
        return lambda: catalog.delete("/namespaces/ns/tables/t?purgeRequested=true")

    dropped = 0

    def check(_: int) -> bool:
        nonlocal dropped
        is_hidden = "t" not in state()
        dropped += is_hidden
        hidden = set(Tabular.objects.exclude(deleted_at=None).values_list("pk", flat=True))
        assert len(hidden) == dropped
        assert set(Task.objects.values_list("queue", "entity_id")) == {("soft_deletion", key) for key in hidden}
        return is_hidden

    kill_at_line_after_line(act, check)


class Done:
    status, body = 204, b""


def next_worker() -> Callable[[], Any]:
    """Run the only task, as the next worker after one that died."""
    Task.objects.filter(status="running").update(leased_until=now() - timedelta(seconds=1))
    Task.objects.update(scheduled_for=now())

    def act() -> Any:
        assert Worker(poll_interval=60).work()
        return Done

    return act


def test_expiration(catalog: ApiClient, create_table: Any, soft_delete: int, state: Any) -> None:
    create_table("other")

    def act(_: int) -> Callable[[], Any]:
        if not Tabular.objects.filter(name="t").exists():
            Task.objects.all().delete()
            LocationClaim.objects.all().delete()
            create_table()
            assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
        return next_worker()

    def check(_: int) -> bool:
        # The row waits and so does the task, or the row is deleted and its purge is queued.
        assert set(state()) == {"other"}
        is_dropped = not Tabular.objects.filter(name="t").exists()
        assert Task.objects.get().queue == ("tabular_purge" if is_dropped else "soft_deletion")
        assert locations_are_held(by_tasks=int(is_dropped))
        return is_dropped

    kill_at_line_after_line(act, check)


def test_purge(catalog: ApiClient, create_table: Any, state: Any, storage_root: Path) -> None:
    living = Path(
        create_table("living", location=f"file://{storage_root}/wh/t2")["metadata-location"][len("file://") :]
    )
    folder = storage_root / "wh" / "t"

    def act(_: int) -> Callable[[], Any]:
        if not Task.objects.exists():
            create_table(location=f"file://{folder}")
            assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
        for file in ("data/x.parquet", "metadata/left"):  # the next process has the same work
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text("x")
        for metadata_file in folder.rglob("*.metadata.json"):
            metadata_file.unlink()
        return next_worker()

    def check(_: int) -> bool:
        # The remaining files belong to the task, or there are none.
        assert set(state()) == {"living"}
        assert living.exists()
        is_done = not Task.objects.exists()
        assert locations_are_held(by_tasks=int(not is_done))
        assert not (is_done and folder.exists())
        return is_done

    kill_at_line_after_line(act, check)


def test_create_in_place_of_a_purge(catalog: ApiClient, create_table: Any, state: Any, storage_root: Path) -> None:
    folder = storage_root / "wh" / "t"
    body = {"name": "t", "schema": SCHEMA, "location": f"file://{folder}"}

    def act(_: int) -> Callable[[], Any]:
        Task.objects.filter(status="running").update(leased_until=now() - timedelta(seconds=1))
        if not Task.objects.exists():
            if not Tabular.objects.exists():
                for orphan in folder.rglob("*.metadata.json"):  # of a process that died before its table existed
                    orphan.unlink()
                create_table(location=body["location"])
            (folder / "data").mkdir(parents=True)
            (folder / "data" / "x.parquet").write_text("x")
            assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
        return lambda: catalog.post("/namespaces/ns/tables", body)

    def check(_: int) -> bool:
        # The new table alone with its own file, or none, and old files only while their task exists.
        is_there = "t" in state()
        is_purged = not Task.objects.exists()
        assert locations_are_held(by_tasks=int(not is_purged))
        assert is_purged or not is_there
        if is_purged:
            assert not (folder / "data").exists()
        if is_there:
            assert len(list(folder.rglob("*.json"))) == 1
        return is_there

    kill_at_line_after_line(act, check, WIDE_STRIDE)


def test_recursive_drop(catalog: ApiClient, create_table: Any, state: Any) -> None:
    create_table("other")

    def act(_: int) -> Callable[[], Any]:
        if catalog.head("/namespaces/dropped").status == 404:
            Task.objects.all().delete()
            LocationClaim.objects.all().delete()
            for levels in (["dropped"], ["dropped", "inner"]):
                assert catalog.post("/namespaces", {"namespace": levels}).status == 200
                target = "/namespaces/" + "%1F".join(levels) + "/tables"
                assert catalog.post(target, {"name": "-".join(levels), "schema": SCHEMA}).status == 200
            assert Tabular.objects.filter(name="dropped-inner").update(deleted_at=now())
        return lambda: catalog.delete("/namespaces/dropped?recursive=true&purge=true")

    def check(_: int) -> bool:
        is_dropped = "dropped" not in state()
        assert Namespace.objects.count() == (1 if is_dropped else 3)
        assert Tabular.objects.count() == (1 if is_dropped else 3)
        assert Task.objects.count() == (2 if is_dropped else 0)
        assert locations_are_held(by_tasks=2 if is_dropped else 0)
        return is_dropped

    kill_at_line_after_line(act, check)


def test_rename_to_another_namespace(catalog: ApiClient, create_table: Any, state: Any) -> None:
    created = create_table("here")
    assert catalog.post("/namespaces", {"namespace": ["away"]}).status == 200
    names = [("ns", "here"), ("away", "there")]

    def act(_: int) -> Callable[[], Any]:
        source, destination = ({"namespace": [namespace], "name": name} for namespace, name in names)
        return lambda: catalog.post("/tables/rename", {"source": source, "destination": destination})

    def check(_: int) -> bool:
        found = state()
        [old, new] = [name for _, name in names]
        assert found in ({old: created}, {new: created})
        row = Tabular.objects.select_related("namespace").get()
        assert (row.namespace.path, row.name) in names
        parent = Securable.objects.get(type="table").parent
        assert parent is not None
        assert parent.object_id == str(row.namespace_id)
        if new in found:
            names.reverse()
            return True
        return False

    kill_at_line_after_line(act, check)


def test_create_namespace(catalog: ApiClient, namespace: str, state: Any) -> None:
    before = {"ns"}

    def act(line: int) -> Callable[[], Any]:
        body = {"namespace": ["ns", f"n{line}"], "properties": {"line": str(line)}}
        return lambda: catalog.post("/namespaces", body)

    def check(line: int) -> bool:
        state()
        found = {name for _, name in catalog.get("/namespaces?parent=ns").json()["namespaces"]} | {"ns"}
        assert found - before in (set(), {f"n{line}"})
        is_new = found != before
        if is_new:
            assert chosen(catalog.get(f"/namespaces/ns%1Fn{line}").json()["properties"]) == {"line": str(line)}
        before.update(found)
        return is_new

    kill_at_line_after_line(act, check)


def test_create_generic_table(catalog: ApiClient, namespace: str) -> None:
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    before: set[str] = set()

    def act(line: int) -> Callable[[], Any]:
        body = {"name": f"g{line}", "format": "lance", "schema": {"line": line}}
        return lambda: generic.post("/namespaces/ns/generic-tables", body)

    def check(line: int) -> bool:
        listed = generic.get("/namespaces/ns/generic-tables").json()["identifiers"]
        found = {each["name"] for each in listed}
        assert found - before in (set(), {f"g{line}"})
        ids = {each["id"] for each in listed}
        for kept in (
            Tabular.objects.values_list("pk", flat=True),
            GenericTable.objects.values_list("pk", flat=True),
            Securable.objects.filter(type="generic-table").values_list("object_id", flat=True),
        ):
            assert {str(key) for key in kept} == ids
        is_new = found != before
        if is_new:
            loaded = generic.get(f"/namespaces/ns/generic-tables/g{line}")
            assert loaded.json()["table"]["schema"] == {"line": line}
        before.update(found)
        return is_new

    kill_at_line_after_line(act, check)


def test_drop_namespace(catalog: ApiClient, namespace: str, state: Any) -> None:
    def act(_: int) -> Callable[[], Any]:
        if catalog.head("/namespaces/ns%1Fdropped").status == 404:
            assert catalog.post("/namespaces", {"namespace": ["ns", "dropped"]}).status == 200
        return lambda: catalog.delete("/namespaces/ns%1Fdropped")

    def check(_: int) -> bool:
        state()
        found = catalog.get("/namespaces?parent=ns").json()["namespaces"]
        assert found in ([], [["ns", "dropped"]])
        assert catalog.head("/namespaces/ns%1Fdropped").status == (204 if found else 404)
        return not found

    kill_at_line_after_line(act, check)


LONG_LOG = {"write.metadata.previous-versions-max": "2000"}


def test_transaction_that_is_sent_again(catalog: ApiClient, create_table: Any, state: Any) -> None:
    """Two tables change together or not at all; repeated with the same key, the request is applied exactly once."""
    for name in ("a", "b"):
        create_table(name, properties=LONG_LOG)
    keys: dict[int, str] = {}
    done: list[str] = []

    def send(line: int) -> Any:
        changes = [
            {
                "identifier": {"namespace": ["ns"], "name": name},
                "requirements": [],
                "updates": [{"action": "set-properties", "updates": {f"line{line}": "x"}}],
            }
            for name in ("b", "a")
        ]
        return catalog.post("/transactions/commit", {"table-changes": changes}, idempotency_key=keys[line])

    def act(line: int) -> Callable[[], Any]:
        keys[line] = str(new_id())
        return lambda: send(line)

    def check(line: int) -> bool:
        found = state()
        has_line = {f"line{line}" in each["metadata"]["properties"] for each in found.values()}
        assert len(has_line) == 1, "some tables have changed and some have not"
        assert IdempotencyRecord.objects.filter(key=keys[line]).exists() is has_line.copy().pop()
        assert send(line).status == 204
        done.append(f"line{line}")
        for name in found:
            metadata = catalog.get(f"/namespaces/ns/tables/{name}").json()["metadata"]
            assert metadata["properties"].keys() == {*done, *LONG_LOG}
            assert len(metadata["metadata-log"]) == len(done), "it was done twice"
        return has_line.pop()

    kill_at_line_after_line(act, check)


def test_commit_that_is_sent_again(catalog: ApiClient, create_table: Any, state: Any) -> None:
    create_table(properties=LONG_LOG)
    keys: dict[int, str] = {}
    sent: list[int] = []

    def send(line: int) -> Any:
        body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"line": str(line)}}]}
        return catalog.post("/namespaces/ns/tables/t", body, idempotency_key=keys[line])

    def act(line: int) -> Callable[[], Any]:
        keys[line] = str(new_id())
        return lambda: send(line)

    def check(line: int) -> bool:
        is_new = state()["t"]["metadata"]["properties"].get("line") == str(line)
        assert IdempotencyRecord.objects.filter(key=keys[line]).exists() is is_new
        assert send(line).status == 200
        sent.append(line)
        metadata = catalog.get("/namespaces/ns/tables/t").json()["metadata"]
        assert len(metadata["metadata-log"]) == len(sent), "it was done twice"
        return is_new

    kill_at_line_after_line(act, check)


def test_register_over_a_table(catalog: ApiClient, create_table: Any, state: Any) -> None:
    versions = [create_table()]
    for number in range(2):
        update = {"action": "set-properties", "updates": {"n": str(number)}}
        body = {"requirements": [], "updates": [update]}
        versions.append(catalog.post("/namespaces/ns/tables/t", body).json())
    locations = [version["metadata-location"] for version in versions]
    current = [locations[-1]]

    def other() -> str:
        return locations[0] if current[0] != locations[0] else locations[1]

    def act(_: int) -> Callable[[], Any]:
        body = {"name": "t", "metadata-location": other(), "overwrite": True}
        return lambda: catalog.post("/namespaces/ns/register", body)

    def check(_: int) -> bool:
        found = state()["t"]["metadata-location"]
        assert found in {current[0], other()}, "the old table or the new one, never none"
        is_new = found != current[0]
        current[0] = found
        return is_new

    kill_at_line_after_line(act, check)
