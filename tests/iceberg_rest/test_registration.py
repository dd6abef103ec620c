"""Tables handed in and out with their files: register over an existing one, unregister."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Tabular
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from tasks.queue.models import Task
from tenancy.models import Securable
from tests.catalog_fixtures import SCHEMA
from tests.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

MakeTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]
T = "/namespaces/ns/tables/t"


def register(name: str, location: object, **more: Any) -> dict[str, Any]:
    return {"name": name, "metadata-location": location, **more}


def test_unregister_gives_the_table_away(catalog: ApiClient, make_table: MakeTable, files: Files) -> None:
    made = make_table()
    before = files()
    answer = catalog.post(f"{T}/unregister")
    assert answer.status == 200
    assert answer.json() == {name: made[name] for name in ("metadata-location", "metadata")}
    assert catalog.get(T).refused(404, "NoSuchTableException")
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert catalog.post(T, commit).refused(404, "NoSuchTableException")
    assert files() == before
    assert not Task.objects.exists()
    assert not Securable.objects.filter(type="table").exists()
    assert catalog.post("/namespaces/ns/register", register("t", made["metadata-location"])).json() == made


def test_unregister_refuses_what_is_missing_or_protected(catalog: ApiClient, make_table: MakeTable) -> None:
    assert catalog.post(f"{T}/unregister").refused(404, "NoSuchTableException")
    make_table()
    Tabular.objects.update(protected=True)
    assert catalog.post(f"{T}/unregister").refused(409, "ProtectedTabularDeletionWithoutForce")
    assert catalog.head(T).status == 204


def test_register_over_a_table_replaces_it(catalog: ApiClient, make_table: MakeTable, files: Files) -> None:
    first = make_table()
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
    assert not Task.objects.exists()


def test_register_over_a_table_with_that_of_another(catalog: ApiClient, make_table: MakeTable) -> None:
    make_table()
    other = make_table("u")
    body = register("t", other["metadata-location"], overwrite=True)
    assert catalog.post("/namespaces/ns/register", body).refused(409, "LocationAlreadyTaken"), "of u"
    catalog.post("/namespaces/ns/tables/u/unregister")
    assert catalog.post("/namespaces/ns/register", body).json()["metadata"] == other["metadata"]


@pytest.mark.parametrize("overwrite", ["true", 1, [], {}])
def test_overwrite_is_a_boolean(overwrite: object, catalog: ApiClient, make_table: MakeTable) -> None:
    made = make_table()
    body = register("t", made["metadata-location"], overwrite=overwrite)
    assert catalog.post("/namespaces/ns/register", body).refused(400, "BadRequestException", "overwrite")


def test_what_cannot_be_registered_does_not_replace(catalog: ApiClient, make_table: MakeTable, warehouse: Any) -> None:
    made = make_table()
    body = register("t", f"{warehouse.location}/no/such.metadata.json", overwrite=True)
    assert catalog.post("/namespaces/ns/register", body).refused(404, "NotFoundException")
    Tabular.objects.update(protected=True)
    body = register("t", made["metadata-location"], overwrite=True)
    assert catalog.post("/namespaces/ns/register", body).refused(409, "ProtectedTabularDeletionWithoutForce")
    assert catalog.get(T).json() == made


def misplaced(catalog: ApiClient, make_table: MakeTable, file: str, warehouse: Any) -> dict[str, Any]:
    """The body that registers a metadata file at `file` of a table that lies somewhere else."""
    made = make_table("other")
    document = made["metadata"] | {"location": f"{warehouse.location}/somewhere", "table-uuid": str(new_id())}
    path = Path(file.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(write_json(document))
    return {"name": "g", "metadata-location": file}


def test_a_file_in_the_folder_of_another_table_is_not_registered(
    catalog: ApiClient, make_table: MakeTable, warehouse: Any
) -> None:
    """A purge of that one would delete it."""
    place = make_table("f")["metadata"]["location"]
    body = misplaced(catalog, make_table, f"{place}/metadata/9.metadata.json", warehouse)
    assert catalog.post("/namespaces/ns/register", body).refused(409, "LocationAlreadyTaken")


def test_the_file_of_a_registered_table_is_its_own(catalog: ApiClient, make_table: MakeTable, warehouse: Any) -> None:
    """Also where it lies in nobody's folder, as in one for all metadata files."""
    folder = f"{warehouse.location}/all"
    body = misplaced(catalog, make_table, f"{folder}/9.metadata.json", warehouse)
    assert catalog.post("/namespaces/ns/register", body).status == 200
    assert LocationClaim.objects.get().location == f"{folder}/9.metadata.json"
    around = {"name": "h", "schema": SCHEMA, "location": folder}
    assert catalog.post("/namespaces/ns/tables", around).refused(409, "LocationAlreadyTaken")
    second = misplaced(catalog, lambda _: make_table("more"), f"{folder}/10.metadata.json", warehouse)
    document = Path(folder.removeprefix("file://"), "10.metadata.json")
    document.write_text(document.read_text().replace("/somewhere", "/elsewhere"))
    assert catalog.post("/namespaces/ns/register", second | {"name": "i"}).status == 200
