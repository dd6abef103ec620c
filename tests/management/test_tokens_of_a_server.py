"""Access tokens in several server processes: revocation in all of them, use by PyIceberg, and the stored last use."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer

WORKERS = 3
CLIENTS = 24


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment) -> Iterator[CatalogServer]:
    """A server with several processes that accepts access tokens only."""
    database_url = run_environment.own_database("access_tokens")
    home = tmp_path_factory.mktemp("access_tokens")
    settings = {"ICEKEEPER__ACCESS_TOKENS": "true"}
    with CatalogServer(home, database_url=database_url, workers=WORKERS, settings=settings) as running:
        running.manage("create_warehouse", "wh", "--local-path", str(running.storage_root / "wh"))
        yield running


@pytest.fixture(scope="module")
def admin(server: CatalogServer) -> dict[str, str]:
    """The headers of an administrator."""
    token = server.manage("create_token", "--user", "local~admin", "--create-user").strip()
    return {"Authorization": f"Bearer {token}"}


def create_token_text(server: CatalogServer, admin: dict[str, str], **wish: Any) -> dict[str, Any]:
    response = requests.post(
        f"{server.base_url}/management/v1/token", json={"name": "t", **wish}, headers=admin, timeout=30
    )
    assert response.status_code == 201, response.text
    token: dict[str, Any] = response.json()
    return token


@pytest.fixture(scope="module")
def robot(server: CatalogServer, admin: dict[str, str]) -> dict[str, str]:
    """A service account's id and a token of it, as `id` and `token`."""
    address = f"{server.base_url}/management/v1/service-account"
    account = requests.post(address, json={"name": "robot"}, headers=admin, timeout=30).json()
    token = create_token_text(server, admin, **{"user-id": account["id"]})
    return {"id": account["id"], "token": token["token"]}


@pytest.fixture
def clients(server: CatalogServer) -> Iterator[list[requests.Session]]:
    """Open so many connections that every process has some: a process with more than another accepts no more."""
    with ExitStack() as stack:
        yield [stack.enter_context(requests.Session()) for _ in range(CLIENTS)]


def statuses(server: CatalogServer, clients: list[requests.Session], token: str) -> set[int]:
    headers = {"Authorization": f"Bearer {token}"}
    address = f"{server.base_url}/management/v1/token"
    return {client.get(address, headers=headers, timeout=30).status_code for client in clients}


def test_a_revoked_token_is_dead_in_every_process_at_once(
    server: CatalogServer, admin: dict[str, str], clients: list[requests.Session]
) -> None:
    token = create_token_text(server, admin)
    assert statuses(server, clients, token["token"]) == {200}
    address = f"{server.base_url}/management/v1/token/{token['id']}"
    assert requests.delete(address, headers=admin, timeout=30).status_code == 204
    assert statuses(server, clients, token["token"]) == {401}


def test_a_rotated_token_without_overlap_is_dead_in_every_process_at_once(
    server: CatalogServer, admin: dict[str, str], clients: list[requests.Session]
) -> None:
    token = create_token_text(server, admin)
    assert statuses(server, clients, token["token"]) == {200}
    address = f"{server.base_url}/management/v1/token/{token['id']}/rotate"
    new = requests.post(address, json={"overlap-seconds": 0}, headers=admin, timeout=30).json()
    assert statuses(server, clients, token["token"]) == {401}
    assert statuses(server, clients, new["token"]) == {200}


def test_a_deleted_service_account_is_rejected_by_every_process_at_once(
    server: CatalogServer, admin: dict[str, str], clients: list[requests.Session]
) -> None:
    address = f"{server.base_url}/management/v1/service-account"
    account = requests.post(address, json={"name": "short-lived"}, headers=admin, timeout=30).json()
    token = create_token_text(server, admin, **{"user-id": account["id"]})
    assert statuses(server, clients, token["token"]) == {200}
    assert requests.delete(f"{address}/{account['id']}", headers=admin, timeout=30).status_code == 204
    assert statuses(server, clients, token["token"]) == {401}


def test_a_token_that_a_command_revoked_is_dead_soon(
    server: CatalogServer, admin: dict[str, str], clients: list[requests.Session]
) -> None:
    token = create_token_text(server, admin)
    assert statuses(server, clients, token["token"]) == {200}
    server.manage("revoke_token", token["id"])
    give_up = time.monotonic() + 60
    while statuses(server, clients, token["token"]) != {401}:
        assert time.monotonic() < give_up
        time.sleep(0.2)


def test_concurrent_requests_respect_the_limits(server: CatalogServer, admin: dict[str, str]) -> None:
    """A user has at most 100 tokens, and a token is rotated once."""
    accounts = f"{server.base_url}/management/v1/service-account"
    owner = requests.post(accounts, json={"name": "crowded"}, headers=admin, timeout=30).json()["id"]
    address = f"{server.base_url}/management/v1/token"
    first = create_token_text(server, admin, **{"user-id": owner})

    def rotate(_: int) -> int:
        return requests.post(f"{address}/{first['id']}/rotate", json={}, headers=admin, timeout=60).status_code

    def create(_: int) -> int:
        wish = {"name": "t", "user-id": owner}
        return requests.post(address, json=wish, headers=admin, timeout=60).status_code

    with ThreadPoolExecutor(16) as pool:
        rotated, created = list(pool.map(rotate, range(16))), list(pool.map(create, range(110)))
    assert sorted(rotated) == [201] + [409] * 15
    assert sorted(created) == [201] * 98 + [409] * 12


def test_no_token_is_logged(server: CatalogServer, admin: dict[str, str], robot: dict[str, str]) -> None:
    form = {"grant_type": "client_credentials", "client_secret": robot["token"]}
    response = requests.post(f"{server.uri}/v1/oauth/tokens", data=form, timeout=30)
    assert response.status_code == 200
    give_up = time.monotonic() + 60
    while "oauth/tokens" not in (log := server.log_path.read_text()):  # the line is written after the response is sent
        assert time.monotonic() < give_up
        time.sleep(0.05)
    session = response.json()["access_token"]
    for token in (admin["Authorization"].split()[1][27:], robot["token"][27:], session[10:]):
        assert token not in log


# --- PyIceberg ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["credential", "credential without id", "token", "oauth2", "short-lived token"])
def test_pyiceberg_reads_and_writes(server: CatalogServer, robot: dict[str, str], way: str) -> None:
    pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: make setup")
    import pyarrow as pa
    from pyiceberg.catalog.rest import RestCatalog

    tokens_at = f"{server.uri}/v1/oauth/tokens"
    properties: dict[str, Any] = {"uri": server.uri, "warehouse": "wh", "oauth2-server-uri": tokens_at}
    match way:
        case "credential":
            properties["credential"] = f"{robot['id']}:{robot['token']}"
        case "credential without id":
            properties["credential"] = robot["token"]
        case "token":
            properties["token"] = robot["token"]
        case "oauth2":
            login = {"client_id": robot["id"], "client_secret": robot["token"], "token_url": tokens_at}
            properties["auth"] = {"type": "oauth2", "oauth2": {**login, "scope": "catalog"}}
        case _:
            form = {"grant_type": "client_credentials", "client_secret": robot["token"], "scope": "catalog"}
            properties["token"] = requests.post(tokens_at, data=form, timeout=30).json()["access_token"]
    name = way.replace(" ", "_").replace("-", "_")
    with closing(RestCatalog("test", **properties)) as catalog:
        catalog.create_namespace(name)
        rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
        table = catalog.create_table(f"{name}.t", schema=rows.schema)
        table.append(rows)
        assert catalog.load_table(f"{name}.t").scan().to_arrow() == rows
        catalog.drop_table(f"{name}.t")
        catalog.drop_namespace(name)


def test_pyiceberg_understands_the_error(server: CatalogServer, robot: dict[str, str]) -> None:
    pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: make setup")
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import ForbiddenError, OAuthError, UnauthorizedError

    tokens_at = f"{server.uri}/v1/oauth/tokens"
    properties: dict[str, Any] = {"uri": server.uri, "warehouse": "wh", "oauth2-server-uri": tokens_at}
    with pytest.raises(OAuthError, match="invalid_client"):
        RestCatalog("test", **properties, credential=f"{robot['id']}:wrong")
    with pytest.raises(OAuthError, match="invalid_scope"):
        RestCatalog("test", **properties, credential=robot["token"], scope="PRINCIPAL_ROLE:ALL")
    with pytest.raises(UnauthorizedError):
        RestCatalog("test", **properties, token=robot["token"][:-1])
    with closing(RestCatalog("test", **properties, credential=robot["token"], scope="catalog:read")) as catalog:
        assert catalog.list_namespaces() == []
        with pytest.raises(ForbiddenError, match="InsufficientScope"):
            catalog.create_namespace("no")


# --- last, because it stops the server -------------------------------------------------------------------------------


def test_a_stop_writes_when_tokens_were_used(server: CatalogServer, admin: dict[str, str]) -> None:
    token = create_token_text(server, admin)

    def reported() -> dict[str, Any]:
        lines = server.manage("list_tokens", "--all", "--json").splitlines()
        return next(row for row in map(json.loads, lines) if row["id"] == token["id"])

    with requests.Session() as client:
        assert statuses(server, [client], token["token"]) == {200}
    server.stop()
    row = reported()
    assert row["created-at"] <= row["last-used-at"]
    server.start()
