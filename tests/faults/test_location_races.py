"""Concurrent requests for overlapping locations, of every kind: one succeeds, and the others leave no file."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import requests

from tests.catalog_fixtures import SCHEMA
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.timeout(600)

ROUNDS = 8
VERSION = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    "default-namespace": ["locations"],
}
ERRORS = {
    (409, "LocationAlreadyTaken"),
    (400, "InvalidLocation"),  # the file of a concurrent request that has no row yet
}


def ways(round_: int, base: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return requests for the location `t` and folders in it and around it: object type, name, body."""
    t = f"{base}round{round_}/t"

    def commit(update: dict[str, Any]) -> dict[str, Any]:
        return {"requirements": [], "updates": [update]}

    new: dict[str, Any] = {"schema": SCHEMA}
    return [
        ("tables", f"a{round_}", new | {"location": t}),
        ("tables", f"b{round_}", new | {"location": f"{t}/"}),
        ("tables", f"c{round_}", new | {"location": f"{t}/x"}),
        ("tables", f"d{round_}", new | {"properties": {"write.metadata.path": f"{t}/metadata"}}),
        ("views", f"e{round_}", new | {"view-version": VERSION, "location": t.replace("file://", "file:")}),
        ("generic-tables", f"f{round_}", {"format": "lance", "base-location": f"{t}/x/y"}),
        ("staged", f"s{round_}", new | {"location": f"{t}/z", "stage-create": True}),
        ("move", "mover1", commit({"action": "set-location", "location": f"{t}/data"})),
        ("move", "mover2", commit({"action": "set-properties", "updates": {"write.metadata.path": t}})),
    ]


@pytest.fixture
def ask(live_catalog: CatalogServer) -> Callable[[str, str, dict[str, Any]], requests.Response]:
    prefix = f"{live_catalog.uri}/v1/{live_catalog.warehouse_id}/namespaces/locations"

    def ask(kind: str, name: str, body: dict[str, Any]) -> requests.Response:
        if kind == "move":
            return requests.post(f"{prefix}/tables/{name}", json=body, timeout=60)
        own = prefix.replace("/catalog/", "/lakekeeper/") if kind == "generic-tables" else prefix
        created_as = "tables" if kind == "staged" else kind
        return requests.post(f"{own}/{created_as}", json=body | {"name": name}, timeout=60)

    return ask


def test_overlapping_locations_are_assigned_once(live_catalog: CatalogServer, ask: Any) -> None:
    namespaces = f"{live_catalog.uri}/v1/{live_catalog.warehouse_id}/namespaces"
    base = requests.post(namespaces, json={"namespace": ["locations"]}, timeout=30).json()["properties"]["location"]
    for name in ("mover1", "mover2"):
        assert ask("tables", name, {"schema": SCHEMA}).status_code == 200
    with ThreadPoolExecutor(11) as pool:
        for round_ in range(ROUNDS):
            rivals = ways(round_, base)
            apart = [("tables", f"{name}{round_}", {"schema": SCHEMA, "location": f"{base}round{round_}/{location}"})
                     for name, location in (("apart", "t2"), ("sibling", "t_"))]  # fmt: skip
            start = Barrier(len(rivals) + len(apart))

            def at_once(kind: str, name: str, body: dict[str, Any], start: Barrier = start) -> tuple[int, str]:
                start.wait(60)
                response = ask(kind, name, body)
                return response.status_code, "" if response.ok else response.json()["error"]["type"]

            asked = [*rivals, *apart]
            responses = list(pool.map(lambda one: at_once(*one), asked))
            assert responses[-2:] == [(200, ""), (200, "")], "neighbours do not conflict"
            contested = responses[: len(rivals)]
            assert {response for response in contested if response[0] != 200} <= ERRORS, responses
            winners = {
                name: kind for (kind, name, _), response in zip(rivals, contested, strict=True) if response[0] == 200
            }
            require_apart(winners, round_)
            require_no_file_but_theirs(Path(base.removeprefix("file://")) / f"round{round_}", ask, winners)


def require_apart(winners: dict[str, str], round_: int) -> None:
    """Of the nine locations, only these do not overlap: folders of `t` that are neither equal nor nested."""
    locations = {
        f"a{round_}": "t/", f"b{round_}": "t/", f"c{round_}": "t/x/", f"d{round_}": "t/metadata/", f"e{round_}": "t/",
        f"f{round_}": "t/x/y/", f"s{round_}": "t/z/", "mover1": "t/data/", "mover2": "t/",
    }  # fmt: skip
    held = [locations[name] for name in winners]
    for number, one in enumerate(held):
        for other in held[number + 1 :]:
            assert not one.startswith(other), winners
            assert not other.startswith(one), winners


def require_no_file_but_theirs(folder: Path, ask: Any, winners: dict[str, str]) -> None:
    """Check for one metadata file per winner that writes one, and the two of the neighbours."""
    with_files = [name for name, kind in winners.items() if kind not in {"generic-tables", "staged"}]
    assert len(list(folder.rglob("*.metadata.json"))) == len(with_files) + 2, winners


def test_dropped_and_recreated_by_many(live_catalog: CatalogServer, ask: Any) -> None:
    """A purge, a create with the same name and a register of the dropped file: a successful request keeps its file."""
    namespaces = f"{live_catalog.uri}/v1/{live_catalog.warehouse_id}/namespaces"
    created = requests.post(namespaces, json={"namespace": ["locations"]}, timeout=30)
    assert created.status_code in {200, 409}
    base = requests.get(f"{namespaces}/locations", timeout=30).json()["properties"]["location"]
    location, tables = f"{base}again/t", f"{namespaces}/locations/tables"
    with ThreadPoolExecutor(6) as pool:
        for round_ in range(ROUNDS):
            first = ask("tables", f"g{round_}", {"schema": SCHEMA, "location": location})
            assert first.status_code == 200, first.text
            dropped = requests.delete(f"{tables}/g{round_}?purgeRequested=true", timeout=60)
            assert dropped.status_code == 204
            register = {"name": f"r{round_}", "metadata-location": first.json()["metadata-location"]}
            start = Barrier(6)

            def create(number: int, start: Barrier = start, round_: int = round_) -> requests.Response:
                start.wait(60)
                return ask("tables", f"h{round_}-{number}", {"schema": SCHEMA, "location": location})

            def take_over(_: int, start: Barrier = start, register: dict[str, str] = register) -> requests.Response:
                start.wait(60)
                return requests.post(f"{namespaces}/locations/register", json=register, timeout=60)

            responses = list(pool.map(lambda act, n: act(n), [create] * 4 + [take_over] * 2, range(6)))
            won = [response.json() for response in responses if response.status_code == 200]
            assert len(won) <= 1, [response.text for response in responses]
            for response in responses:
                assert response.status_code in {200, 400, 404, 409, 503}, response.text
            listed = requests.get(tables, timeout=30).json()["identifiers"]
            for name in (each["name"] for each in listed if each["name"][0] in "hr"):
                loaded = requests.get(f"{tables}/{name}", timeout=30)
                assert loaded.status_code == 200, "its metadata file is there"
                assert loaded.json()["metadata-location"] == won[0]["metadata-location"]
                assert requests.delete(f"{tables}/{name}?purgeRequested=true", timeout=60).status_code == 204
