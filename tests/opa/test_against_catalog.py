"""The policies with a real catalog: the responses of its batch-check to Trino's requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import requests

from tests.authorization_fixtures import StartOpa
from tests.harness.run_environment import RunEnvironment
from tests.opa.fake_batch_check import BATCH_CHECK
from tests.opa.opa_request_fixtures import POLICIES, batch, catalog, question, schema, table
from tests.opa.test_operations import ROWS
from tests.parts.opa import Opa
from tests.parts.recorder import Recorded, Recorder, Reply
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.part("opa")

SECONDS = 30
STRUCT = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "type": "int", "required": False}]}
VIEW_VERSION = {
    "version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["sales"],
    "representations": [{"type": "sql", "sql": "select 1 as x", "dialect": "trino"}],
}  # fmt: skip
VIEW_OPERATIONS = {"DropView", "RenameView", "SetViewComment"}
NAMES = ['quo"te', "apos'trophe", "per%cent", "%2F", "sla/sh", "que?ry=1&x#y", "space d", "plus+", "Grüße", "😀"]


class Caller:
    """A client with a token."""

    def __init__(self, server: CatalogServer, token: str) -> None:
        self.server, self.token = server, token

    def send(self, method: str, path: str, body: Any = None) -> Any:
        response = requests.request(
            method,
            self.server.base_url + path,
            json=body,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=SECONDS,
        )
        assert response.ok, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def create_namespace(self, warehouse: str, *levels: str) -> None:
        self.send("POST", f"/catalog/v1/{warehouse}/namespaces", {"namespace": list(levels)})

    def create_table(self, warehouse: str, namespace: str, name: str) -> None:
        body = {"name": name, "schema": STRUCT}
        self.send("POST", f"/catalog/v1/{warehouse}/namespaces/{quote(namespace, safe='')}/tables", body)

    def create_view(self, warehouse: str, namespace: str, name: str) -> None:
        body = {"name": name, "schema": STRUCT, "view-version": VIEW_VERSION, "properties": {}}
        self.send("POST", f"/catalog/v1/{warehouse}/namespaces/{quote(namespace, safe='')}/views", body)

    def table_id(self, warehouse: str, namespace: str, name: str) -> str:
        listed = self.send("GET", f"/catalog/v1/{warehouse}/namespaces/{namespace}/tables?returnUuids=true")
        names = [each["name"] for each in listed["identifiers"]]
        table_id: str = listed["table-uuids"][names.index(name)]
        return table_id

    def grant(self, resource: str, privilege: str, user: str) -> None:
        """Grant a privilege; `resource` is a path below `/management/v1`."""
        body = {"writes": [{"privilege": privilege, "principal": {"user": user}}]}
        self.send("POST", f"/management/v1/{resource}/grants", body)


@pytest.fixture(scope="module")
def server(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """A server with authorization that accepts only its own access tokens."""
    server = CatalogServer(
        tmp_path_factory.mktemp("server"),
        database_url=run_environment.own_database("opa_server"),
        settings={"ICEKEEPER__ACCESS_TOKENS": "true", "LAKEKEEPER__AUTHZ_BACKEND": "builtin"},
    )
    with server:
        yield server


@pytest.fixture(scope="module")
def ann(server: CatalogServer) -> Caller:
    """An administrator, who creates every object here; `bob`, `carol` and `dora` are registered without grants."""
    tokens = {
        name: server.manage("create_token", "--user", f"local~{name}", "--create-user").strip()
        for name in ("ann", "bob", "carol", "dora")
    }
    server.manage("bootstrap", "--admin", "local~ann", "--operator")
    return Caller(server, tokens["ann"])


@pytest.fixture(scope="module")
def lake(server: CatalogServer, ann: Caller) -> str:
    """Return the id of the warehouse `lake`, with all objects that `ROWS` names."""
    lake = server.create_warehouse("lake", token=ann.token)
    for levels in (("sales",), ("a",), ("a", "b")):
        ann.create_namespace(lake, *levels)
    for name in ("orders", "secrets", *NAMES):
        ann.create_table(lake, "sales", name)
    ann.create_view(lake, "sales", "totals")
    return lake


@pytest.fixture(scope="module")
def recorder(server: CatalogServer) -> Iterator[Recorder]:
    """A recorder between OPA and the catalog."""
    with Recorder(server.port) as recorder:
        yield recorder


@pytest.fixture(scope="module")
def shared_bridge(
    server: CatalogServer, ann: Caller, lake: str, recorder: Recorder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opa]:
    """OPA with a service account that may read every grant."""
    server.create_warehouse("other", token=ann.token)
    created = json.loads(server.manage("create_token", "--service-account", "opa", "--json"))
    project = "00000000-0000-0000-0000-000000000000"
    ann.send(
        "POST",
        "/management/v1/project/grants",
        {"writes": [{"privilege": "security_admin", "principal": {"user": created["user-id"]}}]},
    )
    settings = {
        "LAKEKEEPER_URL": recorder.endpoint,
        "LAKEKEEPER_TOKEN": created["token"],
        "TRINO_CATALOG_WAREHOUSES": json.dumps({"lake": "lake", "other": f"{project}/other"}),
        "TRINO_IDENTITY_PROVIDER": "local",
    }
    with Opa(tmp_path_factory.mktemp("opa-process") / "home", POLICIES, settings, "--authorization=basic") as server_:
        yield server_


@pytest.fixture
def bridge(shared_bridge: Opa, recorder: Recorder) -> Iterator[Opa]:
    """Assert afterwards that the catalog understood every request, whatever it decided."""
    responses: list[tuple[Recorded, Reply]] = []

    def keep(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        reply = ask()
        if request.target == BATCH_CHECK:
            responses.append((request, reply))
        return reply

    recorder.answerer = keep
    yield shared_bridge
    assert responses
    for asked, reply in responses:
        if reply.status == 404:
            assert json.loads(asked.body)["error-on-not-found"] is True
            continue
        assert reply.status == 200, reply.body
        assert [each for each in json.loads(reply.body)["results"] if each.get("error")] == []


@pytest.mark.parametrize(
    ("operation", "resource", "target"),
    [row[:3] for row in ROWS],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_the_catalog_understands_every_operation_and_lets_its_administrator_do_it(
    bridge: Opa, operation: str, resource: Any, target: Any
) -> None:
    if operation in VIEW_OPERATIONS:
        resource = table("totals")
    assert bridge.decide("trino/allow", question(operation, resource, target, user="ann")) is True


@pytest.mark.parametrize("name", NAMES)
def test_names_are_found_as_they_are_spelt(bridge: Opa, name: str) -> None:
    assert bridge.decide("trino/allow", question("SelectFromColumns", table(name), user="ann")) is True
    for other in (f"{name}x", quote(name, safe="") + "x"):
        assert bridge.decide("trino/allow", question("SelectFromColumns", table(other), user="ann")) is False


def test_missing_objects_are_denied_for_every_user(bridge: Opa) -> None:
    for operation, resource in (
        ("SelectFromColumns", table("unknown")),
        ("SelectFromColumns", table("orders", "unknown")),
        ("DropView", table("orders")),
        ("DropTable", table("totals")),
        ("DropSchema", schema("a.unknown")),
    ):
        assert bridge.decide("trino/allow", question(operation, resource, user="ann")) is False


def test_users_without_grants_are_denied(bridge: Opa) -> None:
    for operation, resource, target in [row[:3] for row in ROWS]:
        assert bridge.decide("trino/allow", question(operation, resource, target, user="carol")) is False
    assert bridge.decide("trino/batch", batch("FilterCatalogs", catalog(), catalog("other"), user="carol")) == []


def test_readers_of_one_table_see_only_it_and_its_parents(bridge: Opa, ann: Caller, lake: str) -> None:
    orders = ann.table_id(lake, "sales", "orders")
    ann.grant(f"warehouse/{lake}/table/{orders}", "select", "local~bob")

    def may(operation: str, resource: Any) -> bool:
        allowed: bool = bridge.decide("trino/allow", question(operation, resource, user="bob"))
        return allowed

    def seen(operation: str, *resources: Any) -> list[int]:
        chosen: list[int] = bridge.decide("trino/batch", batch(operation, *resources, user="bob"))
        return sorted(chosen)

    assert may("SelectFromColumns", table())
    assert may("AccessCatalog", catalog())
    assert may("ShowTables", schema())
    assert not may("InsertIntoTable", table())
    assert not may("SelectFromColumns", table("secrets"))
    assert not may("CreateTable", table("new"))
    assert not may("ShowTables", schema("a"))
    assert seen("FilterCatalogs", catalog("other"), catalog()) == [1]
    assert seen("FilterSchemas", schema("a"), schema(), schema("a.b")) == [1]
    assert seen("FilterTables", table("secrets"), table(), table("totals")) == [1]
    assert seen("FilterColumns", table(columns=["x", "y"])) == [0, 1]
    assert seen("FilterColumns", table("secrets", columns=["x", "y"])) == []


def test_creators_in_a_namespace_replace_nothing_that_they_may_not_drop(bridge: Opa, ann: Caller, lake: str) -> None:
    """Neither what is hidden from them nor what they may only read."""
    levels = ann.send("GET", f"/catalog/v1/{lake}/namespaces/sales")
    ann.grant(f"warehouse/{lake}/namespace/{levels['properties']['namespace_id']}", "create", "local~dora")

    def may(operation: str, name: str) -> bool:
        allowed: bool = bridge.decide("trino/allow", question(operation, table(name), user="dora"))
        return allowed

    assert may("CreateTable", "new")
    assert may("CreateView", "new")
    assert not may("CreateTable", "secrets")
    assert not may("CreateView", "totals")
    secrets = ann.table_id(lake, "sales", "secrets")
    ann.grant(f"warehouse/{lake}/table/{secrets}", "select", "local~dora")
    assert not may("CreateTable", "secrets")
    ann.grant(f"warehouse/{lake}/table/{secrets}", "modify", "local~dora")
    assert may("CreateTable", "secrets")


def test_an_account_that_may_not_inspect_the_whole_warehouse_creates_nothing(
    opa: StartOpa, server: CatalogServer, ann: Caller, lake: str
) -> None:
    """It does not learn which names are free."""
    created = json.loads(server.manage("create_token", "--service-account", "short-sighted", "--json"))
    namespace = ann.send("GET", f"/catalog/v1/{lake}/namespaces/sales")["properties"]["namespace_id"]
    for privilege in ("describe", "manage_grants"):
        ann.grant(f"warehouse/{lake}/namespace/{namespace}", privilege, created["user-id"])
    settings = {
        "LAKEKEEPER_URL": server.base_url,
        "LAKEKEEPER_TOKEN": created["token"],
        "TRINO_CATALOG_WAREHOUSES": json.dumps({"lake": "lake"}),
        "TRINO_IDENTITY_PROVIDER": "local",
    }
    bridge = opa(POLICIES, settings, "--authorization=basic")
    assert bridge.decide("trino/allow", question("DropTable", table(), user="ann")) is True
    assert bridge.decide("trino/allow", question("CreateTable", table(), user="ann")) is True
    assert bridge.decide("trino/allow", question("CreateTable", table("new"), user="ann")) is False
