"""Permission changes reach every process of real servers that cache decisions.

On PostgreSQL two servers share one database; on SQLite there is one server.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import requests

from tests.catalog_fixtures import SCHEMA
from tests.harness.identity_provider import IdentityProvider, running
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.both_databases

WORKERS = 2
CLIENTS = 24
"""Connections to each server: so many that every process has some."""

SEES_WITHIN = 15
"""Seconds for what is promised within 3, as the machine may be slow."""

ALICE, BOB = "oidc~alice", "oidc~bob"
NOTHING: dict[str, Any] = {"requirements": [], "updates": []}
NEVER, EARLIER = None, "2026-01-01 00:00:00+00:00"

Responses = list[list[int]]
"""The responses of each connection, in order."""


@dataclass(frozen=True)
class Lake:
    """The servers, first the one where changes are requested through the API, and a table of Alice's on them."""

    servers: list[CatalogServer]
    provider: IdentityProvider
    database: str
    warehouse_id: str = ""
    table_id: str = ""

    def manage(self, method: str, path: str, body: object = None) -> Any:
        """A client of the first server for Alice, who may do everything."""
        response = requests.request(
            method,
            f"{self.servers[0].base_url}/management/v1{path}",
            json=body,
            headers=self.bearer("alice"),
            timeout=60,
        )
        assert response.ok, response.text
        return response.json() if response.content else None

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.provider.token(sub=name, exp=2**32)}"}

    def grant(self, what: str, to: dict[str, str], *, on: str = "writes") -> None:
        at = f"/permissions/warehouse/{self.warehouse_id}/table/{self.table_id}/assignments"
        self.manage("POST", at, {on: [{"type": what, **to}]})

    def quietly(self, statement: str, *values: object) -> None:
        """Change the database directly, without a notice to the servers."""
        if self.database.startswith("postgres"):
            with psycopg.connect(self.database) as postgres:
                postgres.execute(statement.replace("?", "%s"), values)
            return
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            connection.execute(statement, values)

    def ends_quietly(self, at: str | None) -> None:
        """Grants to Bob and to roles expire, without a notice to the servers."""
        self.quietly("UPDATE tenancy_grant SET expires_at = ? WHERE user_id = ? OR role_id IS NOT NULL", at, BOB)


class Bob:
    """Connections of Bob to one server."""

    def __init__(self, lake: Lake, server: CatalogServer, stack: ExitStack) -> None:
        self._at = f"{server.uri}/v1/{lake.warehouse_id}/namespaces/ns/tables/t"
        self._sessions = [stack.enter_context(requests.Session()) for _ in range(CLIENTS)]
        for session in self._sessions:
            session.headers.update(lake.bearer("bob"))
        self.server = server

    def loads(self) -> list[int]:
        return [session.get(self._at, timeout=60).status_code for session in self._sessions]

    def commits(self) -> list[int]:
        return [session.post(self._at, json=NOTHING, timeout=60).status_code for session in self._sessions]

    def processes(self) -> int:
        """The number of processes of the server that his connections reach."""
        found = set()
        for process in psutil.Process(self.server.pid).children(recursive=True):
            for each in process.net_connections("tcp"):
                if each.status == psutil.CONN_ESTABLISHED and each.laddr.port == self.server.port:
                    found.add(process.pid)
        return len(found)


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    yield from running()


@pytest.fixture(scope="module")
def lake(
    provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment
) -> Iterator[Lake]:
    home = tmp_path_factory.mktemp("changes")
    url = run_environment.own_database("changes_of_rights")
    settings = {
        "LAKEKEEPER__AUTHZ_BACKEND": "builtin",
        **provider.settings,
        "ICEKEEPER__SECRET_KEY": "of-several-servers-0123456789-0123456789",
        "ICEKEEPER__LOCAL_STORAGE_ROOT": str(home / "storage"),
    }
    homes = [home / "first", home / "second"] if url else [home / "first"]
    servers = [CatalogServer(each, database_url=url, workers=WORKERS, settings=settings) for each in homes]
    with ExitStack() as ending:
        for each in servers:
            each.home.mkdir()
            each.storage_root = home / "storage"
        servers[0].prepare()
        servers[0].manage("bootstrap", "--admin", ALICE, "--operator")
        for each in servers:
            ending.callback(each.stop)
            each.start()
        yield _with_a_table(Lake(servers, provider, url or _sqlite_of(homes[0])))


def _sqlite_of(home: Path) -> str:
    found = [path for path in (home / "state").iterdir() if path.suffix == ".sqlite3"]
    assert len(found) == 1
    return str(found[0])


def _with_a_table(lake: Lake) -> Lake:
    first, alice = lake.servers[0], lake.bearer("alice")
    warehouse_id = first.create_warehouse("wh", token=alice["Authorization"].split()[1])
    at = f"{first.uri}/v1/{warehouse_id}/namespaces"
    assert requests.post(at, json={"namespace": ["ns"]}, headers=alice, timeout=60).status_code == 200
    created = requests.post(f"{at}/ns/tables", json={"name": "t", "schema": SCHEMA}, headers=alice, timeout=60)
    assert created.status_code == 200, created.text
    lake.manage("POST", "/user", {"id": BOB, "name": "Bob", "user-type": "human"})
    return Lake(lake.servers, lake.provider, lake.database, warehouse_id, created.json()["metadata"]["table-uuid"])


@pytest.fixture
def bobs(lake: Lake) -> Iterator[list[Bob]]:
    """A connection to each server, first the one on which changes are requested.

    Revokes all grants of Bob at the end.
    """
    with ExitStack() as stack:
        created = [Bob(lake, server, stack) for server in lake.servers]
        yield created
        lake.quietly("DELETE FROM tenancy_grant WHERE user_id = ? OR role_id IS NOT NULL", BOB)
        lake.quietly("UPDATE tenancy_rightsversion SET number = number + 1")
        for bob in created:
            takes_effect(bob.loads, 200, 404)


@pytest.fixture
def team(lake: Lake, request: pytest.FixtureRequest) -> str:
    """An empty role whose members may read the table."""
    created: str = lake.manage("POST", "/role", {"name": f"of {request.node.name}"})["id"]
    lake.grant("select", {"role": created})
    return created


def until_cached(lake: Lake, bobs: list[Bob]) -> None:
    """Wait until every process has cached that Bob may load the table, and no row allows it; then restore the rows."""
    give_up = time.monotonic() + 60
    is_cached = False
    while not is_cached:
        assert time.monotonic() < give_up, "no process has cached it"
        for bob in bobs:
            assert bob.loads() == [200] * CLIENTS
            assert bob.processes() == WORKERS
        with ended_quietly(lake):
            is_cached = all(bob.loads() == [200] * CLIENTS for bob in bobs)


@contextmanager
def ended_quietly(lake: Lake) -> Iterator[None]:
    lake.ends_quietly(EARLIER)
    try:
        yield
    finally:
        lake.ends_quietly(NEVER)


def takes_effect(ask: Callable[[], list[int]], before: int, after: int) -> None:
    """Every connection gets the new response within the limit, and no connection gets the old one after that."""
    responses: Responses = []
    give_up = time.monotonic() + SEES_WITHIN
    while not responses or responses[-1] != [after] * CLIENTS:
        assert time.monotonic() < give_up, responses[-1:]
        responses.append(ask())
    responses += [ask(), ask()]
    for of_one in map(list, zip(*responses, strict=True)):
        first = of_one.index(after)
        assert of_one == [before] * first + [after] * (len(of_one) - first)


def comes_to_read(lake: Lake, bobs: list[Bob]) -> None:
    """After a change that allows Bob to load the table: every process has read and cached it."""
    for bob in bobs:
        takes_effect(bob.loads, 404, 200)
    until_cached(lake, bobs)


def takes_effect_from_here(asks: list[Callable[[], list[int]]], before: int, after: int) -> None:
    """Immediately on the first server, where the change was requested, and within the limit on the others."""
    here, *elsewhere = asks
    assert here() + here() == [after] * 2 * CLIENTS
    for ask in elsewhere:
        takes_effect(ask, before, after)


@pytest.mark.timeout(300)
def test_a_revoked_grant(lake: Lake, bobs: list[Bob]) -> None:
    lake.grant("select", {"user": BOB})
    comes_to_read(lake, bobs)
    lake.grant("select", {"user": BOB}, on="deletes")
    takes_effect_from_here([bob.loads for bob in bobs], 200, 404)


@pytest.mark.timeout(300)
def test_a_membership_that_ends(lake: Lake, bobs: list[Bob], team: str) -> None:
    lake.manage("POST", f"/role/{team}/members", {"members": [{"type": "user", "id": BOB}]})
    comes_to_read(lake, bobs)
    lake.manage("DELETE", f"/role/{team}/members/user/{BOB}")
    takes_effect_from_here([bob.loads for bob in bobs], 200, 404)


@pytest.mark.timeout(300)
def test_a_membership_that_begins(lake: Lake, bobs: list[Bob], team: str) -> None:
    """The roles of a user are cached, also an empty set."""
    lake.grant("describe", {"user": BOB})
    comes_to_read(lake, bobs)
    lake.grant("modify", {"role": team})
    for bob in bobs:
        assert bob.commits() == [403] * CLIENTS
    until_cached(lake, bobs)
    lake.manage("POST", f"/role/{team}/members", {"members": [{"type": "user", "id": BOB}]})
    takes_effect_from_here([bob.commits for bob in bobs], 403, 200)


@pytest.mark.timeout(300)
def test_a_new_grant(lake: Lake, bobs: list[Bob]) -> None:
    """A cached decision about the same table exists."""
    lake.grant("describe", {"user": BOB})
    comes_to_read(lake, bobs)
    for bob in bobs:
        assert bob.commits() == [403] * CLIENTS
    lake.grant("modify", {"user": BOB})
    takes_effect_from_here([bob.commits for bob in bobs], 403, 200)


@pytest.mark.timeout(300)
def test_nothing_is_trusted_where_the_epoch_is_unreadable(lake: Lake, bobs: list[Bob]) -> None:
    lake.grant("select", {"user": BOB})
    comes_to_read(lake, bobs)
    lake.quietly("ALTER TABLE tenancy_rightsversion RENAME TO tenancy_away")
    try:
        with ended_quietly(lake):
            for bob in bobs:
                takes_effect(bob.loads, 200, 404)
    finally:
        lake.quietly("ALTER TABLE tenancy_away RENAME TO tenancy_rightsversion")
    for server in lake.servers:
        said = [line["message"] for line in server.log_lines("icekeeper.jobs")]
        assert any(text.startswith("job permission-epoch failed") for text in said)
    until_cached(lake, bobs)
