"""Assumptions of other tests about OpenFGA: it decides by a model, requires its key, and can be stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests

from tests.parts.openfga import OpenFga

SECONDS = 10
DIRECT: dict[str, Any] = {"this": {}}
THROUGH_MODIFY = {"computedUserset": {"relation": "modify"}}
GRANTED_TO_USERS = {"directly_related_user_types": [{"type": "user"}]}
MODEL = {
    "schema_version": "1.1",
    "type_definitions": [
        {"type": "user"},
        {
            "type": "table",
            "relations": {"modify": DIRECT, "select": {"union": {"child": [DIRECT, THROUGH_MODIFY]}}},
            "metadata": {"relations": {"modify": GRANTED_TO_USERS, "select": GRANTED_TO_USERS}},
        },
    ],
}


def post(server: OpenFga, path: str, body: dict[str, Any]) -> Any:
    response = requests.post(server.url + path, json=body, headers=server.headers, timeout=SECONDS)
    assert response.ok, response.text
    return response.json()


def may(server: OpenFga, store: str, user: str, relation: str) -> bool:
    asked = {"tuple_key": {"user": user, "relation": relation, "object": "table:t"}}
    allowed: bool = post(server, f"/stores/{store}/check", asked)["allowed"]
    return allowed


def create_store(server: OpenFga) -> str:
    """A store with `MODEL` in which alice may modify the table `t`."""
    store: str = post(server, "/stores", {"name": "real"})["id"]
    post(server, f"/stores/{store}/authorization-models", MODEL)
    granted = {"user": "user:oidc~alice", "relation": "modify", "object": "table:t"}
    post(server, f"/stores/{store}/write", {"writes": {"tuple_keys": [granted]}})
    return store


def test_it_decides_by_the_model_and_the_tuples_of_a_store(openfga: OpenFga) -> None:
    store = create_store(openfga)
    assert may(openfga, store, "user:oidc~alice", "select")
    assert not may(openfga, store, "user:oidc~bob", "select")


@pytest.mark.part("openfga")
def test_with_a_preshared_key_it_serves_no_client_without_it(tmp_path: Path) -> None:
    with OpenFga(tmp_path / "home", preshared_key="canary-preshared-key") as server:
        assert may(server, create_store(server), "user:oidc~alice", "select")
        assert requests.get(f"{server.url}/stores", timeout=SECONDS).status_code == 401
        wrong = {"Authorization": "Bearer another-key"}
        assert requests.get(f"{server.url}/stores", headers=wrong, timeout=SECONDS).status_code == 401


def test_it_can_be_set_to_refuse_and_to_be_silent_and_recovers(openfga: OpenFga) -> None:
    store = create_store(openfga)
    with openfga.relay.refusing(), pytest.raises(requests.ConnectionError):
        may(openfga, store, "user:oidc~alice", "select")
    with openfga.relay.silent(), pytest.raises(requests.Timeout):
        requests.get(f"{openfga.url}/stores", timeout=0.5)
    assert may(openfga, store, "user:oidc~alice", "select")
