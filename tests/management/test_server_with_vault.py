"""A server that stores credentials in Vault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.management.test_warehouses_in_vault import NEW_KEY, variables
from tests.management.warehouse_request_fixtures import S3
from tests.parts.fake_vault import PASSWORD, FakeVault
from tests.parts.server import CatalogServer


@pytest.fixture
def server(tmp_path: Path, run_environment: RunEnvironment, fake_vault: FakeVault) -> Iterator[CatalogServer]:
    url = run_environment.own_database(tmp_path.name)
    own = variables(fake_vault) | {"LAKEKEEPER__SKIP_STORAGE_VALIDATION": "true"}
    server = CatalogServer(tmp_path, database_url=url, settings=own).prepare()
    yield server
    server.stop()


def test_a_real_server(server: CatalogServer, fake_vault: FakeVault) -> None:
    fake_vault.failing = [400]
    refused = server.run_command("serve")
    assert refused.returncode == 1
    assert "Vault rejected the sign-in of this server with userpass at auth/userpass" in refused.stderr
    with fake_vault.relay.refusing():
        server.start()
        assert "Vault is unavailable" in server.log_path.read_text()
    body = {"warehouse-name": "wh", "storage-profile": S3, "storage-credential": NEW_KEY}
    response = requests.post(f"{server.base_url}/management/v1/warehouse", json=body, timeout=30)
    assert response.status_code == 201, response.text
    assert list(fake_vault.stored().values()) == [NEW_KEY]
    assert json.loads(server.manage("check_secrets", "--json")) == {"unreadable": [], "orphans-found": 0}
    server.stop()
    assert "canary" not in server.log_path.read_text() + refused.stderr + response.text
    assert PASSWORD not in server.log_path.read_text()
