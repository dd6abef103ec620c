"""While OpenFGA is down or slow, the APIs return a temporary error, and no row and no file changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.authz.openfga import client
from tenancy.authz.openfga.store import openfga_store
from tests.authz.conftest import VIEW
from tests.catalog_fixtures import SCHEMA, finishing_updates
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response
from tests.openfga.conftest import ALICE, SECONDS
from tests.openfga_fixtures import deliver_as_recorded
from tests.parts.openfga import OpenFga

pytestmark = pytest.mark.django_db

Everything = Callable[[], Fingerprint]
PROPERTIES = [{"action": "set-properties", "updates": {"a": "b"}}]


class Location:
    """The namespace `a` of the warehouse that alice owns, with tables `t` and `u`, a view, a generic table, and `s`
    staged. OpenFGA has the tuples of all of them.
    """

    def __init__(self, warehouse_id: object) -> None:
        self.catalog = CallerClient(f"/catalog/v1/{warehouse_id}", "alice")
        self.generic = CallerClient(f"/lakekeeper/v1/{warehouse_id}", "alice")
        self.management = CallerClient("/management/v1", "alice")
        self.at = f"/warehouse/{warehouse_id}"
        self.warehouse_id = str(warehouse_id)
        self._create(self.catalog, "/namespaces", {"namespace": ["a"]})
        deliver_as_recorded(openfga_store())
        for name in ("t", "u"):
            self._create(self.catalog, "/namespaces/a/tables", {"name": name, "schema": SCHEMA})
        self._create(self.catalog, "/namespaces/a/views", {"name": "v", **VIEW})
        self._create(self.generic, "/namespaces/a/generic-tables", {"name": "g", "format": "lance"})
        staged = self._create(
            self.catalog, "/namespaces/a/tables", {"name": "s", "schema": SCHEMA, "stage-create": True}
        )
        self.finishing = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(staged["metadata"])}
        deliver_as_recorded(openfga_store())
        self.table_id = str(Tabular.objects.get(name="t").uuid)

    @staticmethod
    def _create(client: CallerClient, target: str, body: dict[str, Any]) -> dict[str, Any]:
        response = client.post(target, body)
        assert response.status == 200, response.body
        created: dict[str, Any] = response.json()
        return created


@pytest.fixture
def location(alice: CallerClient, warehouse: Warehouse) -> Location:
    return Location(warehouse.pk)


def change(name: str) -> dict[str, Any]:
    return {"identifier": {"namespace": ["a"], "name": name}, "requirements": [], "updates": PROPERTIES}


def named(name: str, namespace: str = "a") -> dict[str, Any]:
    return {"namespace": [namespace], "name": name}


Act = Callable[[Location], Response]
COMMIT: dict[str, Any] = {"requirements": [], "updates": PROPERTIES}
COMMITS: Mapping[str, Act] = {
    "one table": lambda location: location.catalog.post("/namespaces/a/tables/t", COMMIT),
    "two tables": lambda location: location.catalog.post(
        "/transactions/commit", {"table-changes": [change("t"), change("u")]}
    ),
    "a view": lambda location: location.catalog.post("/namespaces/a/views/v", COMMIT),
    "a staged table": lambda location: location.catalog.post("/namespaces/a/tables/s", location.finishing),
}
GRANT = {"privilege": "select", "principal": {"user": ALICE.user_id}}
OTHERS: Mapping[str, Act] = {
    "list namespaces": lambda location: location.catalog.get("/namespaces"),
    "load a table": lambda location: location.catalog.get("/namespaces/a/tables/t"),
    "load a view": lambda location: location.catalog.get("/namespaces/a/views/v"),
    "create a namespace": lambda location: location.catalog.post("/namespaces", {"namespace": ["b"]}),
    "create a table": lambda location: location.catalog.post("/namespaces/a/tables", {"name": "w", "schema": SCHEMA}),
    "stage a table": lambda location: location.catalog.post(
        "/namespaces/a/tables", {"name": "w", "schema": SCHEMA, "stage-create": True}
    ),
    "create a view": lambda location: location.catalog.post("/namespaces/a/views", {"name": "w", **VIEW}),
    "rename a table": lambda location: location.catalog.post(
        "/tables/rename", {"source": named("t"), "destination": named("w")}
    ),
    "drop a table": lambda location: location.catalog.delete("/namespaces/a/tables/t?purgeRequested=true"),
    "drop a view": lambda location: location.catalog.delete("/namespaces/a/views/v"),
    "drop a namespace": lambda location: location.catalog.delete("/namespaces/a?recursive=true&force=true"),
    "list generic tables": lambda location: location.generic.get("/namespaces/a/generic-tables"),
    "load a generic table": lambda location: location.generic.get("/namespaces/a/generic-tables/g"),
    "credentials of a generic table": lambda location: location.generic.get(
        "/namespaces/a/generic-tables/g/credentials"
    ),
    "create a generic table": lambda location: location.generic.post(
        "/namespaces/a/generic-tables", {"name": "w", "format": "lance"}
    ),
    "rename a generic table": lambda location: location.generic.post(
        "/generic-tables/rename", {"source": named("g"), "destination": named("w")}
    ),
    "drop a generic table": lambda location: location.generic.delete("/namespaces/a/generic-tables/g"),
    "list grants": lambda location: location.management.get(f"{location.at}/grants"),
    "grant": lambda location: location.management.post(f"{location.at}/grants", {"writes": [GRANT]}),
    "revoke": lambda location: location.management.post(
        f"{location.at}/grants", {"deletes": [{**GRANT, "privilege": "ownership"}]}
    ),
    "actions": lambda location: location.management.get(f"{location.at}/table/{location.table_id}/actions"),
    "protect": lambda location: location.management.post(
        f"{location.at}/table/{location.table_id}/protection", {"protected": True}
    ),
    "managed access": lambda location: location.management.post(
        f"/permissions{location.at}/managed-access", {"managed-access": True}
    ),
    "batch check": lambda location: location.management.post(
        "/action/batch-check",
        {
            "checks": [
                {
                    "operation": {
                        "table": {
                            "action": {"action": "read_data"},
                            "warehouse-id": location.warehouse_id,
                            "table-id": location.table_id,
                        }
                    }
                }
            ]
        },
    ),
    "rename the warehouse": lambda location: location.management.post(f"{location.at}/rename", {"new-name": "other"}),
    "search": lambda location: location.management.post(f"{location.at}/search-tabular", {"search": "t"}),
    "deleted tabulars": lambda location: location.management.get(f"{location.at}/deleted-tabulars"),
}


def require_later(response: Response) -> None:
    assert response.refused(503, "AuthorizationBackendError")
    assert response.headers["Retry-After"] == "5"


@pytest.mark.parametrize("act", COMMITS.values(), ids=COMMITS)
def test_a_commit_is_certainly_not_committed(
    location: Location, openfga: OpenFga, everything: Everything, act: Act
) -> None:
    """A 503 would leave open whether it was committed; the same commit succeeds as soon as OpenFGA is available."""
    before = everything()
    with openfga.relay.refusing():
        response = act(location)
    assert response.refused(409, "CommitFailedException")
    assert everything() == before
    again = act(location)
    assert again.status in {200, 204}, again.body
    assert everything() != before


@pytest.mark.parametrize("act", OTHERS.values(), ids=OTHERS)
def test_all_else_is_for_later_and_changes_nothing(
    location: Location, openfga: OpenFga, everything: Everything, act: Act
) -> None:
    before = everything()
    with openfga.relay.refusing():
        require_later(act(location))
    assert everything() == before
    again = act(location)
    assert again.status in {200, 201, 204}, again.body


def test_a_slow_openfga_is_waited_for_no_longer_than_documented(
    location: Location, openfga: OpenFga, everything: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some requests wait, later ones do not, and each gets the response of an OpenFGA that is down."""
    monkeypatch.setattr(client, "RETRY_PAUSE_SECONDS", 60.0)
    before = everything()
    with openfga.relay.silent():
        began = time.monotonic()
        require_later(OTHERS["load a generic table"](location))
        assert time.monotonic() - began < SECONDS
        assert COMMITS["two tables"](location).refused(409, "CommitFailedException")
        for name in ("create a table", "grant", "batch check", "drop a generic table"):
            require_later(OTHERS[name](location))
        assert COMMITS["a staged table"](location).refused(409, "CommitFailedException")
    assert everything() == before
