"""Register tables, also over existing ones, and unregister them without deleting files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Tabular
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from tasks.models import Task
from tenancy.models import Securable
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]
T = "/namespaces/ns/tables/t"


def register(name: str, location: object, **more: Any) -> dict[str, Any]:
    return {"name": name, "metadata-location": location, **more}


def test_unregister_returns_the_table_and_keeps_its_files(
    catalog: ApiClient, create_table: CreateTable, files: Files
) -> None:
    created = create_table()
    before = files()
    response = catalog.post(f"{T}/unregister")
    assert response.status == 200
    assert response.json() == {name: created[name] for name in ("metadata-location", "metadata")}
    assert catalog.get(T).refused(404, "NoSuchTableException")
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert catalog.post(T, commit).refused(404, "NoSuchTableException")
    assert files() == before
    assert not Task.objects.live().exists()
    assert not Securable.objects.filter(type="table").exists()
    assert catalog.post("/namespaces/ns/register", register("t", created["metadata-location"])).json() == created


def test_unregister_rejects_missing_or_protected_tables(catalog: ApiClient, create_table: CreateTable) -> None:
    assert catalog.post(f"{T}/unregister").refused(404, "NoSuchTableException")
    create_table()
    Tabular.objects.update(protected=True)
    assert catalog.post(f"{T}/unregister").refused(409, "ProtectedTabularDeletionWithoutForce")
    assert catalog.head(T).status == 204


def test_register_over_a_table_replaces_it(catalog: ApiClient, create_table: CreateTable, files: Files) -> None:
    first = create_table()
    second = catalog.post(
        T, {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    ).json()
    before = files()
    body = register("T", first["metadata-location"])
    assert catalog.post("/namespaces/ns/register", body).refused(409, "AlreadyExistsException")
    assert catalog.get(T).json()["metadata-location"] == second["metadata-location"]
    back = catalog.post("/namespaces/ns/register", body | {"overwrite": True})
    assert back.status == 200, back.body
    assert back.json()["metadata"] == first["metadata"]
    assert catalog.get(T).json() == back.json()
    assert files() == before
    assert Tabular.objects.count() == Securable.objects.filter(type="table").count() == 1
    assert not Task.objects.live().exists()


def test_register_over_a_table_with_that_of_another(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    other = create_table("u")
    body = register("t", other["metadata-location"], overwrite=True)
    assert catalog.post("/namespaces/ns/register", body).refused(409, "LocationAlreadyTaken"), "the location of u"
    catalog.post("/namespaces/ns/tables/u/unregister")
    assert catalog.post("/namespaces/ns/register", body).json()["metadata"] == other["metadata"]


@pytest.mark.parametrize("overwrite", ["true", 1, [], {}])
def test_overwrite_is_a_boolean(overwrite: object, catalog: ApiClient, create_table: CreateTable) -> None:
    created = create_table()
    body = register("t", created["metadata-location"], overwrite=overwrite)
    assert catalog.post("/namespaces/ns/register", body).refused(400, "BadRequestException", "overwrite")


def test_a_failed_registration_does_not_replace_a_table(
    catalog: ApiClient, create_table: CreateTable, warehouse: Any
) -> None:
    created = create_table()
    body = register("t", f"{warehouse.location}/no/such.metadata.json", overwrite=True)
    assert catalog.post("/namespaces/ns/register", body).refused(404, "NotFoundException")
    Tabular.objects.update(protected=True)
    body = register("t", created["metadata-location"], overwrite=True)
    assert catalog.post("/namespaces/ns/register", body).refused(409, "ProtectedTabularDeletionWithoutForce")
    assert catalog.get(T).json() == created


def misplaced(catalog: ApiClient, create_table: CreateTable, file: str, warehouse: Any) -> dict[str, Any]:
    """Return a body that registers a metadata file at `file` of a table with another location."""
    created = create_table("other")
    document = created["metadata"] | {"location": f"{warehouse.location}/somewhere", "table-uuid": str(new_id())}
    path = Path(file.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(write_json(document))
    return {"name": "g", "metadata-location": file}


def test_a_file_in_the_folder_of_another_table_is_not_registered(
    catalog: ApiClient, create_table: CreateTable, warehouse: Any
) -> None:
    """A purge of the other table would delete it."""
    location = create_table("f")["metadata"]["location"]
    body = misplaced(catalog, create_table, f"{location}/metadata/9.metadata.json", warehouse)
    assert catalog.post("/namespaces/ns/register", body).refused(409, "LocationAlreadyTaken")


def test_the_file_of_a_registered_table_is_its_own(
    catalog: ApiClient, create_table: CreateTable, warehouse: Any
) -> None:
    """Also outside of any table's folder, as in one folder for all metadata files."""
    folder = f"{warehouse.location}/all"
    body = misplaced(catalog, create_table, f"{folder}/9.metadata.json", warehouse)
    assert catalog.post("/namespaces/ns/register", body).status == 200
    assert LocationClaim.objects.get().location == f"{folder}/9.metadata.json"
    around = {"name": "h", "schema": SCHEMA, "location": folder}
    assert catalog.post("/namespaces/ns/tables", around).refused(409, "LocationAlreadyTaken")
    second = misplaced(catalog, lambda _: create_table("more"), f"{folder}/10.metadata.json", warehouse)
    document = Path(folder.removeprefix("file://"), "10.metadata.json")
    document.write_text(document.read_text().replace("/somewhere", "/elsewhere"))
    assert catalog.post("/namespaces/ns/register", second | {"name": "i"}).status == 200
