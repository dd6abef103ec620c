"""OPA's authentication at a real catalog: each source of its token, and the warehouse ids that it reads with it. The
tests replace the responses of batch-check; all other requests go to the catalog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.authorization_fixtures import StartOpa
from tests.harness.run_environment import RunEnvironment
from tests.opa.fake_batch_check import BATCH_CHECK
from tests.opa.opa_request_fixtures import POLICIES, of_warehouse, question
from tests.parts.recorder import Recorded, Recorder, Reply
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.part("opa")

NAME = "lake & 50% ü+"


@dataclass(frozen=True)
class Account:
    """OPA's service account at the catalog, which may read and check the permissions of others."""

    id: str
    secret: str


@pytest.fixture(scope="module")
def guarded(run_environment: RunEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """A catalog that accepts only its own access tokens, with the warehouse NAME."""
    server = CatalogServer(
        tmp_path_factory.mktemp("guarded"),
        database_url=run_environment.own_database("opa_signing_in"),
        settings={"ICEKEEPER__ACCESS_TOKENS": "true"},
    )
    with server:
        created = server.manage("create_token", "--user", "local~ann", "--create-user", "--json")
        server.create_warehouse_on(NAME, _storage(server), token=json.loads(created)["token"])
        yield server


def _storage(server: CatalogServer) -> dict[str, object]:
    return {"storage-profile": {"type": "local", "path": str(server.storage_root / "lake")}}


@pytest.fixture(scope="module")
def account(guarded: CatalogServer) -> Account:
    created = json.loads(
        guarded.manage(
            "create_token", "--service-account", "opa", "--scope", "catalog:read", "--scope", "management", "--json"
        )
    )
    return Account(created["user-id"], created["token"])


@pytest.fixture
def recorder(guarded: CatalogServer) -> Iterator[Recorder]:
    """Allow every user to see every warehouse."""

    def response(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        if request.target != BATCH_CHECK:
            return ask()
        results = [{"id": check["id"], "allowed": True} for check in json.loads(request.body)["checks"]]
        return Reply(200, {"Content-Type": "application/json"}, json.dumps({"results": results}).encode())

    with Recorder(guarded.port) as recorder:
        recorder.answerer = response
        yield recorder


def decide(opa: StartOpa, recorder: Recorder, **settings: str) -> bool:
    """Return whether alice may see the warehouse."""
    mapping = json.dumps({"lake": NAME})
    bridge = opa(POLICIES, {"LAKEKEEPER_URL": recorder.endpoint, "TRINO_CATALOG_WAREHOUSES": mapping, **settings})
    allowed: bool = bridge.decide("trino/allow", question("AccessCatalog", {"catalog": {"name": "lake"}}))
    return allowed


def asked_about(recorder: Recorder) -> list[object]:
    batches = [json.loads(each.body) for each in recorder.requests if each.target == BATCH_CHECK]
    return [check["operation"] for each in batches for check in each["checks"]]


def test_a_service_account_by_client_credentials(
    opa: StartOpa, guarded: CatalogServer, account: Account, recorder: Recorder
) -> None:
    assert decide(
        opa,
        recorder,
        LAKEKEEPER_TOKEN_ENDPOINT=f"{recorder.endpoint}catalog/v1/oauth/tokens",
        LAKEKEEPER_CLIENT_ID=account.id,
        LAKEKEEPER_CLIENT_SECRET=account.secret,
        LAKEKEEPER_SCOPE="catalog:read management",
    )
    assert asked_about(recorder) == [of_warehouse("get_config", guarded.warehouse_id)]


def test_an_access_token_of_the_catalog(
    opa: StartOpa, guarded: CatalogServer, account: Account, recorder: Recorder
) -> None:
    assert decide(opa, recorder, LAKEKEEPER_TOKEN=account.secret)
    assert asked_about(recorder) == [of_warehouse("get_config", guarded.warehouse_id)]
    assert [each.method for each in recorder.requests] == ["GET", "POST"]


def test_a_token_that_the_catalog_does_not_know_asks_nothing(opa: StartOpa, recorder: Recorder) -> None:
    assert not decide(opa, recorder, LAKEKEEPER_TOKEN="iks_unknown")
    assert asked_about(recorder) == []


def test_a_warehouse_is_named_with_its_project_too(
    opa: StartOpa, guarded: CatalogServer, account: Account, recorder: Recorder
) -> None:
    mapping = json.dumps({"lake": f"00000000-0000-0000-0000-000000000000/{NAME}"})
    assert decide(opa, recorder, LAKEKEEPER_TOKEN=account.secret, TRINO_CATALOG_WAREHOUSES=mapping)
    assert asked_about(recorder) == [of_warehouse("get_config", guarded.warehouse_id)]
