"""Assumptions of the other tests of this folder about the Open Policy Agent."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from tests.authorization_fixtures import StartOpa

POLICY = """package real

default allow := false

allow if input.user == opa.runtime().env.OWNER

inherited := {name | opa.runtime().env[name]}
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "real.rego").write_text(POLICY)
    return tmp_path / "policies"


def test_it_decides_by_the_policies_of_its_folder_and_by_its_own_environment(
    opa: StartOpa, policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRINO_ADMIN_USERS", "of-the-machine")
    server = opa(policies, {"OWNER": "alice"})
    assert server.decide("real/allow", {"user": "alice"}) is True
    assert server.decide("real/allow", {"user": "bob"}) is False
    assert server.decide("real/missing", {}) is None
    assert set(server.decide("real/inherited", {})) <= {"PATH", "HOME", "TMPDIR", "LANG", "OWNER"}


def test_it_can_be_set_to_refuse_and_to_be_silent(opa: StartOpa, policies: Path) -> None:
    server = opa(policies, {"OWNER": "alice"})
    with server.relay.refusing(), pytest.raises(requests.ConnectionError):
        server.decide("real/allow", {"user": "alice"})
    with server.relay.silent(), pytest.raises(requests.Timeout):
        requests.get(f"{server.url}/health", timeout=0.5)
    assert server.decide("real/allow", {"user": "alice"}) is True
