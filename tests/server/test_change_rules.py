"""Rules hold in all processes of a server from the response on that created them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.catalog_fixtures import SCHEMA
from tests.parts.server import CatalogServer

TIMES = 12
"""Requests of each kind, each on a new connection, so that all processes get some."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CatalogServer]:
    with CatalogServer(tmp_path, workers=3) as started:
        started.create_warehouse("wh")
        yield started


def test_a_rule_holds_in_all_processes(server: CatalogServer) -> None:
    catalog = f"{server.base_url}/catalog/v1/{server.warehouse_id}/namespaces"
    rules = f"{server.base_url}/management/v1/change-rules"

    def post(url: str, body: dict[str, Any]) -> requests.Response:
        return requests.post(url, json=body, timeout=30)

    def create(name: str) -> set[int]:
        """Try to create a namespace and a table of this name often; return the statuses."""
        statuses = set()
        for number in range(TIMES):
            statuses.add(post(catalog, {"namespace": [f"{name}{number}"]}).status_code)
            statuses.add(post(f"{catalog}/ns/tables", {"name": f"{name}{number}", "schema": SCHEMA}).status_code)
        return statuses

    assert post(catalog, {"namespace": ["ns"]}).status_code == 200
    assert create("a") == {200}
    patterns = {"table": ["x.*"], "namespace": ["x.*"]}
    scope = {"type": "warehouse", "id": server.warehouse_id}
    created = post(rules, {"scope": scope, "name": "names", "kind": "naming", "configuration": patterns})
    assert created.status_code == 201
    assert create("b") == {409}
    assert create("x") == {200}
    assert requests.delete(f"{rules}/{created.json()['id']}", timeout=30).status_code == 204
    assert create("b") == {200}
