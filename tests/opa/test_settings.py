"""Settings: catalogs and their warehouses, OPA's credentials, the ids of users, and the headers for the catalog."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import parse_qs

import pytest
import requests

from tests.authorization_fixtures import StartOpa
from tests.opa.fake_batch_check import CLIENT_ID, CLIENT_SECRET, FakeBatchCheck
from tests.opa.opa_request_fixtures import (
    LAKE,
    OTHER,
    POLICIES,
    batch,
    catalog,
    of_namespace,
    of_warehouse,
    question,
    schema,
    settings_for,
    table,
)
from tests.parts import opa as opa_part
from tests.parts.opa import Opa

pytestmark = pytest.mark.part("opa")

SELECT = question("SelectFromColumns", table())
CONFIG = "/catalog/v1/config"
SECONDS_TO_EXPIRY = 30

HOSTILE_NAMES = [
    'quo"te', "apos'trophe", "per%cent", "%2F", "sla/sh", "back\\slash", "que?ry=1&x#y", "new\nline", "nul\x00",
    "space ", "plus+", "Grüße", "\uff46\uff55\uff4c\uff4c", "\u202eoverride", "😀",
    "a" * 5000, "{{x}}", "$", "a$b$files", "orders@1", "..",
]  # fmt: skip


def ask(bridge: Opa, *, catalog_name: str = "lake") -> bool:
    allowed: bool = bridge.decide("trino/allow", question("AccessCatalog", catalog(catalog_name)))
    return allowed


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_reach_the_catalog_as_data_whatever_they_hold(bridge: Opa, fake: FakeBatchCheck, name: str) -> None:
    asked = question("DropTable", table(name, f"{name}.b"), user=f"{name}~x")
    assert bridge.decide("trino/allow", asked) is False
    [[check]] = [each.checks for each in fake.batches]
    assert check["identity"] == {"user": f"oidc~{name}~x"}
    assert check["operation"] == {
        "table": {
            "action": {"action": "drop"},
            "namespace": [*name.split("."), "b"],
            "table": name,
            "warehouse-id": LAKE,
        }
    }
    assert {each.target for each in fake.batches} == {"/management/v1/action/batch-check"}
    assert bridge.decide("trino/allow", question("AccessCatalog", catalog(name))) is False
    assert len(fake.batches) == 1


def test_a_warehouse_is_asked_for_by_its_name_and_nothing_but_its_name(opa: StartOpa, fake: FakeBatchCheck) -> None:
    fake.grant(of_warehouse("get_config", OTHER))
    bridge = opa(POLICIES, settings_for(fake))
    assert ask(bridge, catalog_name="other")
    [asked] = fake.requests(CONFIG)
    assert asked.target == "/catalog/v1/config?warehouse=other+%26+50%25%2F%C3%BC%2B"


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("20261122_101010_00007_abcde", "20261122_101010_00007_abcde"),
        ("x\r\nX-Project-Id: 7", None), ("", None), ("a" * 65, None), ("ü", None), (7, None), (None, None),
    ],
)  # fmt: skip
def test_the_query_is_the_id_of_the_request_if_it_can_be_one(
    bridge: Opa, fake: FakeBatchCheck, query: Any, sent: str | None
) -> None:
    asked = question("AccessCatalog", catalog())
    asked["context"]["queryId"] = query
    fake.grant(of_warehouse("get_config"))
    assert bridge.decide("trino/allow", asked) is True
    [responded] = fake.batches
    assert responded.headers.get("x-request-id") == sent
    assert "x-project-id" not in responded.headers


def test_the_four_fixed_slots_work_together_with_any_number_of_others(opa: StartOpa, fake: FakeBatchCheck) -> None:
    slots = {
        f"{prefix}_{slot}_{suffix}": value
        for slot in ("DEV", "PROD", "DEMO", "LAKEKEEPER")
        for prefix, suffix, value in (("TRINO", "CATALOG_NAME", slot.lower()), ("LAKEKEEPER", "WAREHOUSE", "lakehouse"))
    }
    bridge = opa(POLICIES, settings_for(fake, **slots))
    fake.grant(of_warehouse("get_config", LAKE))
    assert all(ask(bridge, catalog_name=name) for name in ("dev", "prod", "demo", "lakekeeper", "lake"))
    fake.grant(of_warehouse("get_config", OTHER))
    assert ask(bridge, catalog_name="other")
    assert not ask(bridge, catalog_name="dev")
    alone = {name: value for name, value in settings_for(fake, **slots).items() if name != "TRINO_CATALOG_WAREHOUSES"}
    bridge = opa(POLICIES, alone)
    fake.grant(of_warehouse("get_config", LAKE))
    assert ask(bridge, catalog_name="prod")
    assert not ask(bridge, catalog_name="lake")


def test_users_are_of_the_provider_that_is_named(opa: StartOpa, fake: FakeBatchCheck) -> None:
    bridge = opa(POLICIES, settings_for(fake, TRINO_IDENTITY_PROVIDER="kubernetes"))
    fake.grant(of_warehouse("get_config"), user="kubernetes~alice")
    assert ask(bridge)
    bridge = opa(POLICIES, settings_for(fake, TRINO_IDENTITY_PROVIDER="oidc~bob"))
    assert not ask(bridge)


def test_names_of_schemas_are_read_as_trino_is_configured_to(opa: StartOpa, fake: FakeBatchCheck) -> None:
    bridge = opa(POLICIES, settings_for(fake, TRINO_NESTED_NAMESPACES="false"))
    fake.is_granted = lambda user, operation: True
    assert bridge.decide("trino/allow", question("DropSchema", schema("a.b"))) is True
    assert bridge.decide("trino/allow", question("CreateSchema", schema("a.b"))) is True
    assert fake.operations == [of_namespace("delete", "a.b"), of_warehouse("create_namespace")]
    bridge = opa(POLICIES, settings_for(fake, TRINO_NESTED_NAMESPACES="perhaps"))
    assert bridge.decide("trino/allow", question("DropSchema", schema("a.b"))) is False


def test_schemas_invented_by_an_engine_can_be_named(bridge: Opa, opa: StartOpa, fake: FakeBatchCheck) -> None:
    fake.grant(of_warehouse("get_config"))
    asked = question("SelectFromColumns", table("t", "schema_discovery"))
    assert bridge.decide("trino/allow", asked) is False
    engine = opa(POLICIES, settings_for(fake, TRINO_VIRTUAL_SCHEMAS="information_schema, schema_discovery"))
    assert engine.decide("trino/allow", asked) is True


def test_the_token_is_got_once_by_client_credentials_and_the_warehouse_asked_for_once(
    opa: StartOpa, fake: FakeBatchCheck
) -> None:
    fake.grant(of_warehouse("get_config"))
    bridge = opa(POLICIES, settings_for(fake))
    assert [ask(bridge) for _ in range(3)] == [True] * 3
    assert [(each.method, each.target.partition("?")[0]) for each in fake.asked] == [
        ("POST", "/token"), ("GET", CONFIG), *[("POST", "/management/v1/action/batch-check")] * 3,
    ]  # fmt: skip
    assert parse_qs(fake.asked[0].body.decode(), strict_parsing=True) == {
        "grant_type": ["client_credentials"],
        "client_id": [CLIENT_ID],
        "client_secret": [CLIENT_SECRET],
        "scope": ["lakekeeper"],
    }
    assert {each.headers["authorization"] for each in fake.asked[1:]} == {"Bearer token-of-opa"}
    assert {each.headers.get("x-icekeeper-extensions") for each in fake.batches} == {"true"}, "results name errors"


@pytest.mark.parametrize(("scope", "sent"), [("catalog management", ["catalog management"]), ("", None)])
def test_the_scope_is_as_returned(opa: StartOpa, fake: FakeBatchCheck, scope: str, sent: list[str] | None) -> None:
    ask(opa(POLICIES, settings_for(fake, LAKEKEEPER_SCOPE=scope)))
    assert parse_qs(fake.asked[0].body.decode()).get("scope") == sent


def test_an_error_and_a_refused_token_are_not_kept(opa: StartOpa, fake: FakeBatchCheck) -> None:
    bridge = opa(POLICIES, settings_for(fake, LAKEKEEPER_TOKEN_CACHE_SECONDS="1"))
    assert not ask(bridge)
    fake.grant(of_warehouse("get_config"))
    assert ask(bridge)
    fake.access_token = "the-next-token"
    deadline = time.monotonic() + SECONDS_TO_EXPIRY
    while not ask(bridge):
        assert time.monotonic() < deadline, "the new token was never asked for"
        time.sleep(0.05)
    assert fake.batches[-1].headers["authorization"] == "Bearer the-next-token"


def test_an_own_token_of_the_catalog_replaces_a_login(opa: StartOpa, fake: FakeBatchCheck) -> None:
    fake.access_token = "iks_canary"
    fake.grant(of_warehouse("get_config"))
    settings = settings_for(fake, LAKEKEEPER_TOKEN="iks_canary")
    assert ask(opa(POLICIES, settings))
    del settings["LAKEKEEPER_TOKEN_ENDPOINT"], settings["LAKEKEEPER_CLIENT_ID"], settings["LAKEKEEPER_CLIENT_SECRET"]
    assert ask(opa(POLICIES, settings | {"LAKEKEEPER_URL": f"{fake.url}/"}))
    assert fake.requests("/token") == []
    del settings["LAKEKEEPER_TOKEN"]
    fake.asked.clear()
    assert not ask(opa(POLICIES, settings))
    assert fake.asked == []


WRONG = {
    "LAKEKEEPER_MAX_BATCH_CHECK_SIZE": ("0", "1001", "-1", "many", "1.5", "1e9"),
    "LAKEKEEPER_TIMEOUT_SECONDS": ("0", "61", "soon"),
    "LAKEKEEPER_TOKEN_CACHE_SECONDS": ("0", "3601", "long"),
    "TRINO_IDENTITY_PROVIDER": ("oidc~", "Oidc", "o dc"),
    "TRINO_CATALOG_WAREHOUSES": ("{", "[]", '{"lake": null}', '{"": "lakehouse"}', "{}"),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_setting_that_cannot_be_read_closes_everything_and_is_named(
    opa: StartOpa, fake: FakeBatchCheck, name: str, value: str
) -> None:
    fake.is_granted = lambda user, operation: True
    settings = settings_for(fake, **{name: value})
    bridge = opa(POLICIES, settings)
    assert bridge.decide("trino/allow", SELECT) is False
    assert bridge.decide("trino/batch", batch("FilterTables", table(), table("b"))) == []
    [problem] = bridge.decide("icekeeper/settings/problems", {})
    assert name in problem or (value == "{}" and problem == "No catalog is mapped to a warehouse")


def test_settings_that_can_be_read_have_no_problems(opa: StartOpa, fake: FakeBatchCheck) -> None:
    assert opa(POLICIES, settings_for(fake)).decide("icekeeper/settings/problems", {}) == []
    half = {"TRINO_DEV_CATALOG_NAME": "dev", "TRINO_ALLOW_UNMANAGED_CATALOGS": "yes"}
    assert opa(POLICIES, half).decide("icekeeper/settings/problems", {}) == [
        "LAKEKEEPER_TOKEN or LAKEKEEPER_TOKEN_ENDPOINT, _CLIENT_ID and _CLIENT_SECRET are needed",
        "TRINO_ALLOW_UNMANAGED_CATALOGS is neither true nor false",
        "dev has no warehouse",
    ]


@pytest.mark.parametrize(
    "names",
    [
        {"TRINO_CATALOG_WAREHOUSES": '{"Lake": "wh"}'},
        {"TRINO_DEV_CATALOG_NAME": "Lake", "LAKEKEEPER_DEV_WAREHOUSE": "wh"},
    ],
    ids=["mapping", "slot"],
)
def test_a_catalog_with_a_capital_opens_nothing(opa: StartOpa, fake: FakeBatchCheck, names: dict[str, str]) -> None:
    """Trino uses it in lower case: it would count as an unmanaged catalog."""
    settings = settings_for(fake) | {"TRINO_ALLOW_UNMANAGED_CATALOGS": "true"} | names
    bridge = opa(POLICIES, settings)
    assert ask(bridge) is False
    assert ask(bridge, catalog_name="elsewhere") is False
    assert "Lake: Trino's catalogs are in lower case" in bridge.decide("icekeeper/settings/problems", {})


def test_problems_are_reported_on_the_command_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRINO_CATALOG_WAREHOUSES", "{")
    monkeypatch.setenv("LAKEKEEPER_TOKEN", "canary")
    done = opa_part.run("eval", "--data", POLICIES, "--format", "raw", "data.icekeeper.settings.problems")
    assert json.loads(done.stdout) == [
        "TRINO_CATALOG_WAREHOUSES is not a JSON object of catalog names in lower case and warehouse names"
    ]


SECRETS = ("token-of-opa", CLIENT_SECRET, json.dumps(CLIENT_SECRET))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/data"),
        ("GET", "/v1/data/icekeeper/catalog/token"),
        ("POST", "/v1/data/icekeeper/settings"),
        ("GET", "/v1/data/trino/allow"),
        ("POST", "/v1/data/trino"),
        ("POST", "/v1/data/trino/allow/x"),
        ("POST", "/v1/data/trino/granted_demands"),
        ("POST", "/v1/data/trino/allow?explain=full"),
        ("POST", "/v1/data/trino/allow?metrics"),
        ("POST", "/v1/data/trino%2Fallow"),
        ("POST", "/v1/data/trino/../icekeeper/settings"),
        ("POST", "/v1/query"),
        ("GET", "/v1/query?q=data.icekeeper.settings.client_secret"),
        ("POST", "/v1/compile"),
        ("GET", "/v1/policies"),
        ("PUT", "/v1/policies/own"),
        ("PUT", "/v1/data/x"),
        ("DELETE", "/v1/policies/trino.rego"),
        ("GET", "/v1/config"),
        ("POST", "/"),
        ("POST", "/v0/data/icekeeper/settings"),
    ],
)
def test_opa_decides_the_two_questions_alone(bridge: Opa, fake: FakeBatchCheck, method: str, path: str) -> None:
    fake.is_granted = lambda user, operation: True
    assert bridge.decide("trino/allow", SELECT) is True
    request = requests.Request(method, bridge.url, json={"input": SELECT, "query": "x := data.icekeeper"}).prepare()
    request.url = bridge.url + path  # with the spelling of the setting
    with requests.Session() as session:
        response = session.send(request, timeout=10, allow_redirects=False)
    assert response.status_code in {301, 307, 401}, response.text
    assert not [secret for secret in SECRETS if secret in response.text]
    assert bridge.decide("trino/allow", SELECT) is True
