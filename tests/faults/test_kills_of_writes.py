"""A kill at any step of a create, registration, commit or rename leaves the old state or the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import GenericTable, IdempotencyRecord, LocationClaim, Tabular
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.models import Securable
from tests.catalog_fixtures import SCHEMA, chosen, finishing_updates, snapshot
from tests.faults.kill_fixtures import TRACED, kill_at_step_after_step, no_pool, state
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.timeout(600)]

__all__ = ["no_pool", "state"]


def test_traced_paths_exist() -> None:
    assert [path for path in TRACED if not Path(path).exists()] == []


def table_files(storage_root: Path) -> set[str]:
    return {f"file://{path}" for path in storage_root.rglob("*.metadata.json")}


def have_content(files: set[str]) -> list[bool]:
    """Return for each file whether it is more than an empty one, which a death right after its creation leaves."""
    return [Path(file.removeprefix("file://")).stat().st_size > 0 for file in files]


def test_commit(catalog: ApiClient, create_table: Any, state: Any, storage_root: Path) -> None:
    created = create_table()
    at = created["metadata"]["last-updated-ms"]
    last: dict[str, Any] = {"snapshot": None, "sequence": 0}

    def act(step: int) -> Callable[[], Any]:
        added = snapshot(step, parent=last["snapshot"], sequence_number=last["sequence"] + 1, at=at)
        body = {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": last["snapshot"]}],
            "updates": [
                {"action": "add-snapshot", "snapshot": added},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": step},
            ],
        }
        return lambda: catalog.post("/namespaces/ns/tables/t", body)

    def check(step: int) -> bool:
        current = state()["t"]["metadata"].get("current-snapshot-id")
        current = None if current == -1 else current
        assert current in {last["snapshot"], step}
        is_new = current == step
        if is_new:
            last.update(snapshot=current, sequence=last["sequence"] + 1)
        else:
            left.update(have_content(table_files(storage_root) - known))
        known.update(table_files(storage_root))
        return is_new

    known = table_files(storage_root)
    left: set[bool] = set()
    kill_at_step_after_step(act, check, old=5)
    assert left == {False, True}, "no death left an empty file, or none a complete one"


def test_create(catalog: ApiClient, namespace: str, state: Any) -> None:
    def act(step: int) -> Callable[[], Any]:
        return lambda: catalog.post("/namespaces/ns/tables", {"name": f"t{step}", "schema": SCHEMA})

    before: set[str] = set()

    def check(step: int) -> bool:
        found = set(state())
        assert found - before in (set(), {f"t{step}"})
        is_new = found != before
        before.update(found)
        return is_new

    kill_at_step_after_step(act, check, old=14)


def test_staging(catalog: ApiClient, namespace: str, state: Any, storage_root: Path) -> None:
    """The location is reserved or not, once per name; nothing else exists."""
    before: set[str] = set()

    def act(step: int) -> Callable[[], Any]:
        body = {"name": f"t{step}", "schema": SCHEMA, "stage-create": True, "location": f"{base}/t{step}"}
        return lambda: catalog.post("/namespaces/ns/tables", body)

    def check(step: int) -> bool:
        assert state() == {}
        found = {claim.location.rpartition("/")[2] for claim in LocationClaim.objects.all()}
        assert found - before in (set(), {f"t{step}"})
        assert LocationClaim.objects.count() == len(found)
        assert table_files(storage_root) == set()
        is_new = found != before
        before.update(found)
        return is_new

    base = Warehouse.objects.get().location
    kill_at_step_after_step(act, check, old=10)


def test_create_that_was_staged(catalog: ApiClient, namespace: str, state: Any) -> None:
    """The commit that asserts create, with a snapshot: rows of every type in one transaction."""

    def act(step: int) -> Callable[[], Any]:
        body = {"name": f"t{step}", "schema": SCHEMA, "stage-create": True}
        metadata = catalog.post("/namespaces/ns/tables", body).json()["metadata"]
        return lambda: catalog.post(
            f"/namespaces/ns/tables/t{step}",
            {
                "requirements": [{"type": "assert-create"}],
                "updates": [
                    *finishing_updates(metadata),
                    {"action": "add-snapshot", "snapshot": snapshot(step, at=metadata["last-updated-ms"])},
                    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": step},
                ],
            },
        )

    before: set[str] = set()

    def check(step: int) -> bool:
        found = state()
        assert found.keys() - before in (set(), {f"t{step}"})
        is_new = set(found) != before
        if is_new:
            assert found[f"t{step}"]["metadata"]["current-snapshot-id"] == step
        before.update(found)
        return is_new

    kill_at_step_after_step(act, check, old=17)


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

    kill_at_step_after_step(act, check, old=10)


def test_commit_that_moves_the_table(catalog: ApiClient, create_table: Any, state: Any) -> None:
    """Several statements: the metadata pointer, and the claim on the former location."""
    first = create_table()["metadata"]["location"]
    last = [first]
    left: set[str] = set()

    def act(step: int) -> Callable[[], Any]:
        updates = [
            {"action": "set-location", "location": f"{first}-{step}"},
            {"action": "set-properties", "updates": {"step": str(step)}},
        ]
        return lambda: catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})

    def check(step: int) -> bool:
        metadata = state()["t"]["metadata"]
        assert metadata["location"] in {last[0], f"{first}-{step}"}
        is_new = metadata["location"] != last[0]
        if is_new:
            assert metadata["properties"]["step"] == str(step)
            left.add(last[0])
            last[0] = metadata["location"]
        assert Tabular.objects.get().location == last[0]
        assert set(LocationClaim.objects.values_list("location", flat=True)) == left
        return is_new

    kill_at_step_after_step(act, check, old=14)


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

    kill_at_step_after_step(act, check, old=11)


def test_create_namespace(catalog: ApiClient, namespace: str, state: Any) -> None:
    before = {"ns"}

    def act(step: int) -> Callable[[], Any]:
        body = {"namespace": ["ns", f"n{step}"], "properties": {"step": str(step)}}
        return lambda: catalog.post("/namespaces", body)

    def check(step: int) -> bool:
        state()
        found = {name for _, name in catalog.get("/namespaces?parent=ns").json()["namespaces"]} | {"ns"}
        assert found - before in (set(), {f"n{step}"})
        is_new = found != before
        if is_new:
            assert chosen(catalog.get(f"/namespaces/ns%1Fn{step}").json()["properties"]) == {"step": str(step)}
        before.update(found)
        return is_new

    kill_at_step_after_step(act, check, old=6)


def test_create_generic_table(catalog: ApiClient, namespace: str) -> None:
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    before: set[str] = set()

    def act(step: int) -> Callable[[], Any]:
        body = {"name": f"g{step}", "format": "lance", "schema": {"step": step}}
        return lambda: generic.post("/namespaces/ns/generic-tables", body)

    def check(step: int) -> bool:
        listed = generic.get("/namespaces/ns/generic-tables").json()["identifiers"]
        found = {each["name"] for each in listed}
        assert found - before in (set(), {f"g{step}"})
        ids = {each["id"] for each in listed}
        for kept in (
            Tabular.objects.values_list("pk", flat=True),
            GenericTable.objects.values_list("pk", flat=True),
            Securable.objects.filter(type="generic-table").values_list("object_id", flat=True),
        ):
            assert {str(key) for key in kept} == ids
        is_new = found != before
        if is_new:
            loaded = generic.get(f"/namespaces/ns/generic-tables/g{step}")
            assert loaded.json()["table"]["schema"] == {"step": step}
        before.update(found)
        return is_new

    kill_at_step_after_step(act, check, old=9)


LONG_LOG = {"write.metadata.previous-versions-max": "2000"}


def test_transaction_that_is_sent_again(catalog: ApiClient, create_table: Any, state: Any, storage_root: Path) -> None:
    """Two tables change together or not at all; repeated with the same key, the request is applied exactly once."""
    for name in ("a", "b"):
        create_table(name, properties=LONG_LOG)
    keys: dict[int, str] = {}
    done: list[str] = []

    def send(step: int) -> Any:
        changes = [
            {
                "identifier": {"namespace": ["ns"], "name": name},
                "requirements": [],
                "updates": [{"action": "set-properties", "updates": {f"step{step}": "x"}}],
            }
            for name in ("b", "a")
        ]
        return catalog.post("/transactions/commit", {"table-changes": changes}, idempotency_key=keys[step])

    def act(step: int) -> Callable[[], Any]:
        keys[step] = str(new_id())
        return lambda: send(step)

    def check(step: int) -> bool:
        found = state()
        has_step = {f"step{step}" in each["metadata"]["properties"] for each in found.values()}
        assert len(has_step) == 1, "some tables have changed and some have not"
        left.add(tuple(sorted(have_content(table_files(storage_root) - known))))
        assert IdempotencyRecord.objects.filter(key=keys[step]).exists() is has_step.copy().pop()
        assert send(step).status == 204
        done.append(f"step{step}")
        for name in found:
            metadata = catalog.get(f"/namespaces/ns/tables/{name}").json()["metadata"]
            assert metadata["properties"].keys() == {*done, *LONG_LOG}
            assert len(metadata["metadata-log"]) == len(done), "it was done twice"
        known.update(table_files(storage_root))
        return has_step.pop()

    known = table_files(storage_root)
    left: set[tuple[bool, ...]] = set()
    kill_at_step_after_step(act, check, old=13)
    assert left & {(False,), (True,), (False, True)}, "no death while one of the two files was written"


def test_commit_that_is_sent_again(catalog: ApiClient, create_table: Any, state: Any) -> None:
    create_table(properties=LONG_LOG)
    keys: dict[int, str] = {}
    sent: list[int] = []

    def send(step: int) -> Any:
        body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"step": str(step)}}]}
        return catalog.post("/namespaces/ns/tables/t", body, idempotency_key=keys[step])

    def act(step: int) -> Callable[[], Any]:
        keys[step] = str(new_id())
        return lambda: send(step)

    def check(step: int) -> bool:
        is_new = state()["t"]["metadata"]["properties"].get("step") == str(step)
        assert IdempotencyRecord.objects.filter(key=keys[step]).exists() is is_new
        assert send(step).status == 200
        sent.append(step)
        metadata = catalog.get("/namespaces/ns/tables/t").json()["metadata"]
        assert len(metadata["metadata-log"]) == len(sent), "it was done twice"
        return is_new

    kill_at_step_after_step(act, check, old=6)


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

    kill_at_step_after_step(act, check, old=15)
