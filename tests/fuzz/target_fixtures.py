"""A small catalog, and the replacement of names, ids and locations in generated requests by existing ones.

A generated request names no existing object, so it would be rejected early; with existing ones it reaches more code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from django.db import transaction

from catalog.identifiers import Levels
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.names import LEVEL_SEPARATOR
from storage.models import Warehouse
from tests.catalog_fixtures import SCHEMA, snapshot
from tests.fuzz.object_id_fixtures import Connect, Locations, find_locations
from tests.harness.fingerprint import list_below

Json = Any

VIEW_VERSION: dict[str, Json] = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1_700_000_000_000,
    "summary": {"engine-name": "test"},
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    "default-namespace": ["ns"],
}
FILLINGS: dict[str, Json] = {
    "schema": SCHEMA,
    "view-version": VIEW_VERSION,
    "representations": VIEW_VERSION["representations"],
    "allowed-format-versions": [2, 3],
    "destination": ["new"],
}
"""What an empty object or list becomes, where an empty one is never any use."""

TABLES, VIEWS = ("t", "u"), ("v",)
NAMESPACES = (("ns",), ("ns",), ("ns", "inner"), ("empty",))


@dataclass(frozen=True)
class World:
    """The contents: tables `ns.t` (two snapshots) and `ns.u`, the view `ns.v`, two files that can be registered."""

    warehouse: Warehouse
    storage_root: Path
    table_uuid: str
    view_uuid: str
    free_table: str
    free_view: str
    project_id: UUID
    locations: Locations
    paths: frozenset[str]
    """Of all its folders and files."""

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Undo every change inside the context: rows by a savepoint, new files by deletion."""
        savepoint = transaction.savepoint()
        try:
            yield
        finally:
            transaction.set_rollback(False)  # a statement timeout on a busy machine is undone as well
            transaction.savepoint_rollback(savepoint)
            folders, files = list_below(self.storage_root)
            for path in files:
                if path not in self.paths:
                    Path(path).unlink()
            for path in reversed(folders):
                if path not in self.paths:
                    Path(path).rmdir()


def create_world(connect: Connect, warehouse: Warehouse, storage_root: Path) -> World:
    catalog = connect(f"/catalog/v1/{warehouse.pk}")

    def done(target: str, body: Json) -> Json:
        response = catalog.post(target, body)
        assert response.status in {200, 204}, response.body
        return response.json() if response.body else None

    for levels in (["ns"], ["ns", "inner"], ["empty"]):
        done("/namespaces", {"namespace": levels, "properties": {"owner": "ann"}})
    table = done("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, "properties": {"owner": "ann"}})
    at = table["metadata"]["last-updated-ms"]
    for number, parent in ((1, None), (2, 1)):
        created = snapshot(number, parent=parent, sequence_number=number, at=at + number)
        main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}
        updates = [{"action": "add-snapshot", "snapshot": created}, main]
        done("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})
    done("/namespaces/ns/tables", {"name": "u", "schema": SCHEMA})
    new_view = {"schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    view = done("/namespaces/ns/views", {"name": "v", **new_view})
    free_table = done("/namespaces/ns/tables", {"name": "f", "schema": SCHEMA})
    done("/namespaces/ns/tables/f/unregister", {})
    free_view = done("/namespaces/ns/views", {"name": "f", **new_view})
    assert catalog.delete("/namespaces/ns/views/f").status == 204
    locations = find_locations(connect, warehouse, storage_root)
    folders, files = list_below(storage_root)
    return World(
        warehouse=warehouse,
        storage_root=storage_root,
        table_uuid=table["metadata"]["table-uuid"],
        view_uuid=view["metadata"]["view-uuid"],
        free_table=free_table["metadata-location"],
        free_view=free_view["metadata-location"],
        project_id=warehouse.project_id,
        locations=locations,
        paths=frozenset([*folders, *files]),
    )


OBJECT = "object_id"
"""A parameter that several routes share; what stands before it says of what kind it is."""

LOCATIONS_OF_HEADERS = {"x-project-id": "project_id", "x-assume-role": "role_id"}

A_MISS = 7
"""A seed of an aim that replaces nothing."""


class Aim:
    """Replace most values by those of existing objects; `seed` decides which.

    `locations` are the ids for the management API, by default those at the creation of the world.
    """

    def __init__(self, world: World, seed: int, locations: Locations | None = None) -> None:
        self._world, self._random = world, Random(seed)
        self._locations = world.locations if locations is None else locations
        self.hits = seed % 8 != A_MISS
        """Whether this aim replaces anything: one in eight requests is sent as it was generated."""

    def path(self, template: str, parameters: dict[str, Json]) -> dict[str, Json]:
        """Return the path; `template` is the operation's path: `/table/{object_id}` takes the id of a table."""
        is_of_tabular = "table" in parameters or "view" in parameters
        return {
            name: self._parameter(
                re.sub(rf".*/([\w-]+)/{{{OBJECT}}}.*", r"\1_id", template) if name == OBJECT else name,
                given,
                NAMESPACES[:1] if is_of_tabular else NAMESPACES,
            )
            for name, given in parameters.items()
        }

    def _parameter(self, name: str, given: Json, namespaces: tuple[Levels, ...]) -> Json:
        if self._random.random() < 0.03:
            return given
        match name:
            case "prefix":
                return str(self._world.warehouse.pk)
            case "namespace":
                return LEVEL_SEPARATOR.join(self._random.choice(namespaces))
            case "table":
                return self._random.choice(TABLES)
            case "view":
                return self._random.choice(VIEWS)
            case _:
                return self._location(name, given)

    def _location(self, name: str, given: Json) -> Json:
        known = self._locations.get(_as_location(name))
        return self._random.choice(known) if known else given

    def query(self, parameters: dict[str, Json]) -> dict[str, Json]:
        fitting = {"warehouse": self._world.warehouse.name, "parent": "ns", "pageToken": ""}
        return {
            name: fitting.get(name, self._location(name, given)) if self._random.random() < 0.5 else given
            for name, given in parameters.items()
        }

    def headers(self, given: dict[str, str]) -> dict[str, str]:
        return {
            name: self._location(LOCATIONS_OF_HEADERS[name.lower()], value)
            if name.lower() in LOCATIONS_OF_HEADERS and self._random.random() < 0.8
            else value
            for name, value in given.items()
        }

    def body(self, value: Json, key: str = "", kind: str = "table") -> Json:
        """Return the body with its leaves replaced; values of the wrong type are kept."""
        if value in ({}, []) and type(value) is type(FILLINGS.get(key)):
            return FILLINGS[key]
        if isinstance(value, dict):
            return self._object(value, key, kind)
        if isinstance(value, list):
            return [self.body(each, key, kind) for each in value]
        if type(value) not in {int, str} or self._random.random() < 0.1:
            return value
        if key == "name" and value == "":
            return self._new_name()
        fitting = self._numbers(key) if isinstance(value, int) else self._texts(key, kind)
        return self._random.choice(fitting) if fitting else value

    def _object(self, value: dict[str, Json], key: str, kind: str) -> Json:
        if isinstance(value.get("namespace"), list) and isinstance(value.get("name"), str):
            return {**value, **self._identifier(kind)}
        aimed = {name: self.body(each, name, kind) for name, each in value.items()}
        if not key and "requirements" in aimed:
            aimed.pop("identifier", None)  # the path contains it
        if isinstance(value.get("requirements"), list) and self._random.random() < 0.5:
            aimed["requirements"] = []
        if not key and isinstance(value.get("namespace"), list):
            aimed["namespace"] = ["ns", self._new_name()]
        return aimed

    def _new_name(self) -> str:
        return f"n{self._random.randrange(1_000_000)}"

    def _identifier(self, kind: str) -> dict[str, Json]:
        names = VIEWS if kind == "view" else TABLES
        return {"namespace": ["ns"], "name": self._random.choice([*names, "new"])}

    @staticmethod
    def _numbers(key: str) -> list[int]:
        return {
            "snapshot-id": [1, 2, 3],
            "parent-snapshot-id": [2],
            "sequence-number": [3],
            "snapshot-ids": [1],
            "schema-id": [0, -1, 1],
            "spec-id": [0, -1, 1],
            "order-id": [0, 1],
            "sort-order-id": [0, -1, 1],
            "view-version-id": [1, -1],
            "version-id": [1, 2],
            "source-id": [1, 2],
            "format-version": [2, 3],
            "timestamp-ms": [now_ms()],
        }.get(key, [])

    def _texts(self, key: str, kind: str) -> list[str]:
        world = self._world
        return (
            {
                "uuid": [world.view_uuid if kind == "view" else world.table_uuid],
                "ref": ["main"],
                "ref-name": ["main", "b"],
                "location": [f"{world.warehouse.location}/{self._random.randrange(3)}"],
                "metadata-location": [world.free_view if kind == "view" else world.free_table],
                "warehouse-name": ["other"],
                "path": [str(world.storage_root / "other")],
                "dialect": ["spark"],
                "report-type": ["scan-report", "commit-report"],
            }.get(key)
            or self._locations.get(key)
            or self._locations.get(_as_location(key), [])
        )


def _as_location(name: str) -> str:
    """Return the parameter's name in one spelling: `role-id` and `roleIds[]` become `role_id`."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name.removesuffix("[]").removesuffix("s")).replace("-", "_").lower()
