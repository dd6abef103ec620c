"""The audit trail of real server processes: records that survive a kill, and counting, sealing and export meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer

WORKERS = 2
ROLES = 230
"""More than an export reads at once."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment) -> Iterator[CatalogServer]:
    database_url = run_environment.own_database("audit")
    settings = {"ICEKEEPER__ACCESS_TOKENS": "true"}
    home = tmp_path_factory.mktemp("audit")
    with CatalogServer(home, database_url=database_url, workers=WORKERS, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def admin(server: CatalogServer) -> dict[str, str]:
    token = server.manage("create_token", "--user", "local~admin", "--create-user").strip()
    return {"Authorization": f"Bearer {token}"}


def exported(server: CatalogServer) -> list[dict[str, Any]]:
    """Export by command, which first seals the unsealed rows."""
    return [json.loads(line) for line in server.manage("export_audit").splitlines()]


def get(server: CatalogServer, target: str, headers: dict[str, str]) -> requests.Response:
    return requests.get(f"{server.base_url}/management/v1{target}", headers=headers, timeout=30)


def test_a_returned_error_survives_a_kill(server: CatalogServer) -> None:
    """The first error of its kind survives; the count of repetitions is lost."""
    headers = {"User-Agent": "prober/1", "X-Forwarded-For": "203.0.113.9"}
    responses = [get(server, "/token", {**headers, "Authorization": "Bearer ikp_x"}) for _ in range(10)]
    server.kill()
    assert {response.status_code for response in responses} == {401}
    rows = [row for row in exported(server) if row["user-agent"] == "prober/1"]
    assert 1 <= len(rows) <= WORKERS
    for row in rows:
        reported = (row["event"], row["outcome"], row["reason"], row["count"])
        assert reported == ("sign-in.refused", "failed", "AuthenticationFailed", 1)
        assert (row["address"], row["forwarded-for"]) == ("127.0.0.1", "203.0.113.9")
    asked = {response.headers["X-Request-Id"] for response in responses}
    assert {row["request-id"] for row in rows} <= asked
    server.start()


def test_uses_of_tokens_are_all_counted_by_a_server_that_stops(server: CatalogServer, admin: dict[str, str]) -> None:
    before = sum(row["count"] for row in exported(server) if row["event"] == "token.used")
    for _ in range(20):
        assert get(server, "/project", admin).status_code == 200
    server.restart()
    uses = [row for row in exported(server) if row["event"] == "token.used"]
    assert sum(row["count"] for row in uses) == before + 20
    assert {(row["actor"], row["address"]) for row in uses} == {("local~admin", "127.0.0.1")}


def test_a_server_seals_while_it_serves_and_streams_its_export(server: CatalogServer, admin: dict[str, str]) -> None:
    role = f"{server.base_url}/management/v1/role"
    with requests.Session() as session:
        for number in range(ROLES):
            assert session.post(role, json={"name": f"r{number}"}, headers=admin, timeout=30).status_code == 201
    query = "/audit/export?event=role.created&limit=10000"
    response = get(server, query, admin)
    for _ in range(600):
        if len(response.text.splitlines()) == ROLES:
            break
        time.sleep(0.1)
        response = get(server, query, admin)
    rows = [json.loads(line) for line in response.text.splitlines()]
    assert len({row["object-id"] for row in rows}) == ROLES, "some rows are not sealed yet"
    assert (response.status_code, response.headers["Transfer-Encoding"]) == (200, "chunked")
    positions = [row["position"] for row in rows]
    assert positions == sorted(positions)
    half = rows[ROLES // 2]["position"]
    rest = get(server, f"{query}&after={half}", admin).text.splitlines()
    assert [json.loads(line) for line in rest] == rows[ROLES // 2 + 1 :]
    verified = server.manage("verify_audit", "--head", f"{rows[0]['position']}:{rows[0]['hash']}")
    assert "rows are valid" in verified
    assert any(line["message"] == "audit.sealed" for line in server.log_lines("icekeeper.audit"))
