"""Locations have one owner: names with pattern characters, other spellings, locations in properties, and purges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from catalog.errors import LocationAlreadyTaken
from catalog.identifiers import Identifier
from catalog.models import LocationClaim, Namespace, Tabular
from catalog.selectors.tables.targets import Target
from catalog.services.locations.claims import (
    claim,
    require_outside_tabulars,
    require_unclaimed,
    require_unreserved,
    require_valid_locations,
)
from catalog.services.locations.purge import purge
from icekeeper.kernel.errors.types import InvalidLocation
from icekeeper.kernel.ids import new_id
from storage.io.local import LocalStore
from storage.models import Warehouse, WarehouseStorage
from storage.services.warehouses import create_warehouse
from tasks.models import Task
from tasks.queue.leases import lease_task
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]
S3 = "s3://my-bucket/wh"
NO_ONE = UUID(int=0)


@pytest.fixture
def bucket_warehouse(bootstrapped: None) -> Warehouse:
    """A warehouse on S3, whose keys may contain any character. Nothing is read or written there."""
    profile = {"type": "s3", "bucket": "my-bucket", "key-prefix": "wh", "region": "eu-1"}
    return create_warehouse(actor=INTERNAL, project=get_project(None), name="s3", storage_profile=profile)


def lay(warehouse: Warehouse, location: str) -> Tabular:
    """Insert a row at a location."""
    namespace, _ = Namespace.objects.get_or_create(warehouse=warehouse, path="ns", path_key="ns")
    name = f"t{Tabular.objects.count()}"
    return Tabular.objects.create(
        warehouse=warehouse, namespace=namespace, kind="table", uuid=new_id(), name=name, name_key=name,
        location=location, metadata_location="",
    )  # fmt: skip


def target_of(warehouse: Warehouse, **profile: Any) -> Target:
    storage = WarehouseStorage(warehouse.pk, 1, warehouse.storage_profile | profile, None)
    identifier = Identifier(("ns",), "t")
    return Target(
        warehouse.pk, warehouse.project_id, warehouse.location, storage, [2], None, identifier, None, None, None, None
    )


def is_taken(warehouse: Warehouse, location: str) -> bool:
    """Return whether the location is taken, by all checks, which must agree."""
    errors = 0
    for look in (
        lambda: require_unclaimed(warehouse=warehouse, location=location, owner=NO_ONE),
        lambda: require_unreserved(target_of(warehouse), [location], owner=NO_ONE),
    ):
        try:
            look()
        except LocationAlreadyTaken:
            errors += 1
    assert errors in {0, 2}
    return errors == 2


NEIGHBOURS = [
    ("a_b", ["aXb", "a-b", "a", "a_", "A_B", "a_bc"]),
    ("100%", ["100", "1000", "100%25", "100%x"]),
    ("a%2Fb", ["a%2fb", "a%2F", "a%2Fb2"]),
    ("a\\b", ["a", "ab", "a\\", "a\\bc"]),
    ("a*", ["a", "ab", "a**"]),
    ("[a-c]", ["a", "b", "[a-c"]),
    ("a.b", ["aXb", "a.b."]),
    ("a$", ["a", "a$$"]),
    ("(a|b)", ["a", "b"]),
    ("a", ["a ", "a!", "a0", "a-", "a.", "a+", "\uff21", "A"]),
    ("ü", ["u\u0308", "u", "Ü"]),
    ("'; --", ["'", "';"]),
    ("${x}", ["x", "$"]),
]


@pytest.mark.parametrize("is_claim", [False, True])
@pytest.mark.parametrize(("name", "neighbours"), NEIGHBOURS)
def test_names_are_bytes_and_no_patterns(
    bucket_warehouse: Warehouse, name: str, neighbours: list[str], is_claim: bool
) -> None:
    if is_claim:
        owner = lay(bucket_warehouse, f"{S3}/elsewhere")
        claim(warehouse=bucket_warehouse, owner=owner.pk, locations=[f"{S3}/x/{name}"])
    else:
        lay(bucket_warehouse, f"{S3}/x/{name}")
    for taken in ("x", f"x/{name}", f"x/{name}/in", f"x/{name}/in/deep"):
        assert is_taken(bucket_warehouse, f"{S3}/{taken}"), taken
    for neighbour in neighbours:
        for free in (f"x/{neighbour}", f"x/{neighbour}/in", f"x2/{name}", f"y/x/{name}"):
            assert not is_taken(bucket_warehouse, f"{S3}/{free}"), free
        require_outside_tabulars(warehouse=bucket_warehouse, location=f"{S3}/x/{neighbour}")
    require_outside_tabulars(warehouse=bucket_warehouse, location=f"{S3}/x")
    with pytest.raises(LocationAlreadyTaken):
        require_outside_tabulars(warehouse=bucket_warehouse, location=f"{S3}/x/{name}/in")


def test_a_warehouse_of_the_same_texts_is_another_one(bucket_warehouse: Warehouse, warehouse: Warehouse) -> None:
    lay(bucket_warehouse, f"{S3}/t")
    assert is_taken(bucket_warehouse, f"{S3}/t")
    Warehouse.objects.filter(pk=warehouse.pk).update(location=S3)
    warehouse.refresh_from_db()
    assert not is_taken(warehouse, f"{S3}/t")


def paths(location: str, folder: str | None = None) -> dict[str, Any]:
    return {"location": location, "properties": {} if folder is None else {"write.metadata.path": folder}}


OTHER_SPELLING = [
    paths("s3a://my-bucket/wh/t"),
    paths("s3n://my-bucket/wh/t"),
    paths(f"{S3}/t", "s3a://my-bucket/wh/md"),
    paths("s3a://my-bucket/wh/t", f"{S3}/md"),
]


@pytest.mark.parametrize("new", OTHER_SPELLING)
def test_new_locations_with_alternative_protocols_need_the_option(
    bucket_warehouse: Warehouse, new: dict[str, Any]
) -> None:
    target = target_of(bucket_warehouse)
    with pytest.raises(InvalidLocation, match="must begin with s3:"):
        require_valid_locations(target, new)
    with pytest.raises(InvalidLocation, match="must begin with s3:"):
        require_valid_locations(target, new, base=paths(f"{S3}/t"))
    require_valid_locations(target, new, base=new)  # it was allowed before
    require_valid_locations(target_of(bucket_warehouse, **{"allow-alternative-protocols": True}), new)
    require_valid_locations(target, paths(f"{S3}/back"), base=new)


@pytest.mark.parametrize(
    "location", ["s3://my-bucket/wh", "s3://my-bucket/wh2/t", "s3://MY-BUCKET/wh/t", "s3://my-bucket/wh/../t", "s3:x"]
)
def test_new_locations_outside_the_warehouse_are_rejected(bucket_warehouse: Warehouse, location: str) -> None:
    for new in (paths(location), paths(f"{S3}/t", location)):
        for base in (None, paths(f"{S3}/t")):
            with pytest.raises(InvalidLocation):
                require_valid_locations(target_of(bucket_warehouse), new, base=base)


SPELLINGS = ["{t}/", "{t}//", "{short}", "{short}/", "{t}/in", "{t}/in/"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("way", ["create", "stage", "move", "metadata folder", "generic"])
def test_another_spelling_is_the_same_location(
    catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable, files: Files, way: str, spelling: str
) -> None:
    taken = create_table("taken")["metadata"]["location"]
    create_table("t")
    target_location = spelling.format(t=taken, short=taken.replace("file://", "file:"))
    before = files()
    new = {"name": "x", "schema": SCHEMA, "location": target_location}
    folder = {"action": "set-properties", "updates": {"write.metadata.path": target_location}}
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    response = {
        "create": lambda: catalog.post("/namespaces/ns/tables", new),
        "stage": lambda: catalog.post("/namespaces/ns/tables", new | {"stage-create": True}),
        "move": lambda: commit(catalog, {"action": "set-location", "location": target_location}),
        "metadata folder": lambda: commit(catalog, folder),
        "generic": lambda: generic.post(
            "/namespaces/ns/generic-tables", {"name": "x", "format": "lance", "base-location": target_location}
        ),
    }[way]()
    assert response.refused(409, "LocationAlreadyTaken")
    assert files() == before
    assert Tabular.objects.count() == 2
    assert not LocationClaim.objects.exists()


def commit(catalog: ApiClient, update: dict[str, Any]) -> Any:
    return catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": [update]})


@pytest.mark.parametrize("dotted", ["{t}/.", "{t}/../{name}", "{t}/in/..", "{base}/./x", "{t}/./in"])
def test_dot_segments_are_refused_everywhere(
    catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable, dotted: str
) -> None:
    taken = create_table("t")["metadata"]["location"]
    target_location = dotted.format(t=taken, base=warehouse.location, name=taken.rpartition("/")[2])
    new = {"name": "x", "schema": SCHEMA}
    for response in (
        catalog.post("/namespaces/ns/tables", new | {"location": target_location}),
        catalog.post("/namespaces/ns/tables", new | {"properties": {"write.metadata.path": target_location}}),
        commit(catalog, {"action": "set-location", "location": target_location}),
        commit(catalog, {"action": "set-properties", "updates": {"write.metadata.path": target_location}}),
    ):
        assert response.refused(400, "InvalidLocation")
    assert Tabular.objects.count() == 1


DATA = ["write.data.path", "write.object-storage.path", "write.folder-storage.path", "write.location-provider.impl"]


@pytest.mark.parametrize("way", ["drop", "recursive", "expired"])
@pytest.mark.parametrize("key", DATA)
def test_files_at_a_location_in_a_property_are_kept(
    catalog: ApiClient, create_table: CreateTable, storage_root: Path, do_tasks: Callable[[], int], key: str, way: str
) -> None:
    """Engines may write there if their own permissions allow it. The catalog neither writes nor deletes there."""
    victim = create_table("victim")["metadata"]["location"]
    outside = storage_root / "outside"
    outside.mkdir()
    (outside / "x.parquet").write_text("x")
    data = Path(victim.removeprefix("file://")) / "data"
    data.mkdir()
    (data / "x.parquet").write_text("x")
    assert catalog.post("/namespaces", {"namespace": ["aside"]}).status == 200
    for name, target_location in (
        ("a", victim),
        ("b", f"{victim}/data"),
        ("c", f"file://{outside}"),
        ("d", "s3://other/x"),
    ):
        body = {
            "name": name,
            "schema": SCHEMA,
            "properties": {key: target_location, "write.object-storage.enabled": "true"},
        }
        assert catalog.post("/namespaces/aside/tables", body).status == 200
        assert catalog.head(f"/namespaces/aside/tables/{name}").status == 204
    if way == "recursive":
        assert catalog.delete("/namespaces/aside?recursive=true&purge=true").status == 204
    else:
        if way == "expired":
            Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 1})
        for name in "abcd":
            assert catalog.delete(f"/namespaces/aside/tables/{name}?purgeRequested=true").status == 204
    assert do_tasks() == (8 if way == "expired" else 4)
    assert (outside / "x.parquet").exists()
    assert (data / "x.parquet").exists()
    assert catalog.get("/namespaces/ns/tables/victim").json()["metadata"]["location"] == victim
    assert [Tabular.objects.get().name, LocationClaim.objects.count()] == ["victim", 0]


def test_a_generic_table_is_purged_with_its_namespace(
    catalog: ApiClient, warehouse: Warehouse, namespace: str, do_tasks: Callable[[], int]
) -> None:
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    folders = []
    for name in ("g", "h"):
        created = generic.post("/namespaces/ns/generic-tables", {"name": name, "format": "lance"}).json()["table"]
        folders.append(Path(created["base-location"].removeprefix("file://")))
        folders[-1].mkdir(parents=True)
        (folders[-1] / "data.lance").write_text("x")
    assert generic.delete("/namespaces/ns/generic-tables/g").status == 204
    assert catalog.delete("/namespaces/ns?recursive=true&purge=true").status == 204
    assert do_tasks() == 2
    assert not any(folder.exists() for folder in folders)


def test_no_table_is_created_during_a_purge_of_the_location(
    catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable, files: Files
) -> None:
    """Create a table before each step of the purge, from the first (all files exist) to the last."""
    target_location = f"{warehouse.location}/deep/t"
    dropped = create_table("t", location=target_location)
    kept = create_table("u", location=f"{warehouse.location}/deep/t2")
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    create_table("t")
    lease = lease_task(Task.objects.live().get().pk)
    assert lease is not None
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    steps = []

    def intrude() -> None:
        steps.append(Tabular.objects.count())
        register = {"name": "x", "metadata-location": dropped["metadata-location"]}
        assert catalog.post("/namespaces/ns/register", register).refused(409, "LocationAlreadyTaken")
        for location in (target_location, f"{target_location}/in", f"{warehouse.location}/deep"):
            vectors = {"name": "x", "format": "lance", "base-location": location}
            assert generic.post("/namespaces/ns/generic-tables", vectors).refused(409, "LocationAlreadyTaken")
            move = {"action": "set-location", "location": location}
            assert commit(catalog, move).refused(409, "LocationAlreadyTaken")
        inner = {"namespace": ["n"], "properties": {"location": f"{target_location}/in"}}
        assert catalog.post("/namespaces", inner).refused(409, "LocationAlreadyTaken")

    purge(lease, intrude)
    assert len(steps) > 3
    assert set(steps) == {2}
    assert not LocationClaim.objects.exists()
    assert not Path(target_location.removeprefix("file://")).exists()
    assert catalog.get("/namespaces/ns/tables/u").json() == kept
    assert create_table("again", location=target_location)
    assert len(files()) == 3


def test_a_file_that_a_purge_will_delete_is_not_read(
    catalog: ApiClient, create_table: CreateTable, monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    """The purge could end between reading the file and checking the owner of its location."""
    dropped = create_table()
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    get = LocalStore.get

    def get_and_purge(self: LocalStore, location: str, *, limit: int) -> bytes:
        found = get(self, location, limit=limit)
        lease = lease_task(Task.objects.live().get().pk)
        assert lease is not None
        purge(lease, lambda: None)
        return found

    monkeypatch.setattr(LocalStore, "get", get_and_purge)
    register = {"name": "t", "metadata-location": dropped["metadata-location"]}
    assert catalog.post("/namespaces/ns/register", register).refused(409, "LocationAlreadyTaken")
    assert not Tabular.objects.exists()
    assert Task.objects.live().get().status == "scheduled"
    assert len(files()) == 1


@pytest.mark.parametrize("is_active", [True, False])
def test_a_warehouse_whose_profile_changed_meanwhile_is_purged_where_it_is(
    catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable, storage_root: Path,
    do_tasks: Callable[[], int], is_active: bool,
) -> None:  # fmt: skip
    folder = Path(create_table()["metadata"]["location"].removeprefix("file://"))
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    api = ApiClient(f"/management/v1/warehouse/{warehouse.pk}")
    moved = {"storage-profile": {"type": "local", "path": str(storage_root / "other")}}
    assert api.post("/storage", moved).refused(400, "UpdateError")
    layout = {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{name}"}
    profile = {"type": "local", "path": warehouse.storage_profile["path"], "storage-layout": layout}
    assert api.post("/storage", {"storage-profile": profile}).status == 200
    if not is_active:
        assert api.post("/deactivate").status == 200
    assert do_tasks() == 1
    assert not folder.exists()
