"""Fixtures of tests with OpenFGA as the authorizer."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import pytest

from tenancy.authz.openfga.client import OpenFgaConnection, OpenFgaResponse
from tenancy.authz.openfga.store import openfga_store
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.parity.pair_fixtures import another_user, grant
from tests.authz.tree_fixtures import create_tree
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.openfga_fixtures import deliver_as_recorded

ALICE = user("alice")
SECONDS = 15
"""Far above what is promised (3 s for each of at most three requests), as the machine may be busy."""


@pytest.fixture
def requests_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the requests to OpenFGA from now on: the last segment of each path."""
    sent: list[str] = []
    original = OpenFgaConnection.request

    def request(
        self: OpenFgaConnection, method: str, url: str, *, body: bytes | None, headers: Mapping[str, str]
    ) -> OpenFgaResponse:
        sent.append(urlsplit(url).path.rpartition("/")[2])
        return original(self, method, url, body=body, headers=headers)

    monkeypatch.setattr(OpenFgaConnection, "request", request)
    return sent


@pytest.fixture
def tree(by_openfga: object, warehouse: object) -> dict[str, ObjectRef]:
    """alice owns the warehouse, and the grant is delivered to OpenFGA."""
    created = create_tree(warehouse)
    grant(created["wh"], "ownership", user_id=another_user(ALICE.user_id))
    deliver_as_recorded(openfga_store())
    return created


@pytest.fixture
def alice(callers: NamedCallers, tree: dict[str, ObjectRef]) -> CallerClient:
    callers.user("alice")
    return CallerClient(f"/catalog/v1/{tree['wh'][1]}", "alice")
