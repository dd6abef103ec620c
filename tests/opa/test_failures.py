"""Closed by default: every failure between the policies and the catalog is a denial, within the timeout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from tests.authorization_fixtures import StartOpa
from tests.opa.fake_batch_check import BATCH_CHECK, Asked, FakeBatchCheck, Response, encoded, failure
from tests.opa.opa_request_fixtures import POLICIES, batch, catalog, of_table, question, settings_for, table
from tests.parts.opa import Opa

pytestmark = pytest.mark.part("opa")

SELECT = question("SelectFromColumns", table())
FILTER = batch("FilterTables", table(), table("b"))
CONFIG = "/catalog/v1/config"
EVERYTHING: Callable[[str, object], bool] = lambda user, operation: True  # noqa: E731


def is_closed(bridge: Opa) -> bool:
    return bridge.decide("trino/allow", SELECT) is False and bridge.decide("trino/batch", FILTER) == []


def is_granted_everything(bridge: Opa) -> bool:
    return bridge.decide("trino/allow", SELECT) is True and bridge.decide("trino/batch", FILTER) == [0, 1]


@pytest.fixture
def new_bridge(opa: StartOpa, fake: FakeBatchCheck) -> Opa:
    """OPA with an empty cache, and a timeout of one second."""
    fake.is_granted = EVERYTHING
    return opa(POLICIES, settings_for(fake, LAKEKEEPER_TIMEOUT_SECONDS="1"))


def results(*members: object) -> Callable[[Asked], Response]:
    return lambda asked: encoded(200, {"results": list(members)})


def each_as(**members: object) -> Callable[[Asked], Response]:
    return lambda asked: encoded(200, {"results": [{"id": check["id"], **members} for check in asked.checks]})


RESPONSES: list[tuple[str, Callable[[Asked], Response]]] = [
    ("401", lambda asked: failure(401, "AuthenticationFailed")),
    ("403", lambda asked: failure(403, "CannotInspectPermissions")),
    ("404", lambda asked: failure(404, "NoSuchTableException")),
    ("500 with a good body", lambda asked: encoded(500, {"results": [{"id": "0", "allowed": True}]})),
    ("503", lambda asked: failure(503, "ServiceUnavailable")),
    ("302", lambda asked: (302, b"")),
    ("201", lambda asked: encoded(201, {"results": [{"id": "0", "allowed": True}]})),
    ("no JSON", lambda asked: (200, b"<html>welcome</html>")),
    ("half of JSON", lambda asked: (200, b'{"results": [{"id": "0", "allowed": true}')),
    ("nothing", lambda asked: (200, b"")),
    ("null", lambda asked: (200, b"null")),
    ("no results", lambda asked: encoded(200, {})),
    ("empty results", results()),
    ("results that are no list", lambda asked: encoded(200, {"results": "0"})),
    ("results that are no objects", results(True, "0", None, 7)),
    ("other ids", results({"id": "7000", "allowed": True}, {"id": "", "allowed": True}, {"id": None, "allowed": True})),
    ("no ids", results({"allowed": True}, {"allowed": True}, {"allowed": True}, {"allowed": True})),
    ("ids that are numbers", lambda asked: encoded(200, {"results": [{"id": 0, "allowed": True}]})),
    ("no responses", each_as()),
    ("null for allowed", each_as(allowed=None)),
    ("a text for allowed", each_as(allowed="true")),
    ("a number for allowed", each_as(allowed=1)),
    ("an error in addition", each_as(allowed=True, error={"message": "", "type": "X", "code": 500})),
    (
        "two responses to one check",
        lambda asked: encoded(
            200,
            {
                "results": [
                    {"id": check["id"], "allowed": allowed} for check in asked.checks for allowed in (True, False)
                ]
            },
        ),
    ),
]


@pytest.mark.parametrize("response", [response for _, response in RESPONSES], ids=[name for name, _ in RESPONSES])
def test_a_response_without_allow_is_a_denial(
    bridge: Opa, fake: FakeBatchCheck, response: Callable[[Asked], Response]
) -> None:
    fake.is_granted = EVERYTHING
    assert is_granted_everything(bridge)
    fake.instead[BATCH_CHECK] = response
    assert is_closed(bridge)
    assert fake.requests("/elsewhere") == []
    del fake.instead[BATCH_CHECK]
    assert is_granted_everything(bridge)


def test_an_undecided_part_is_refused_and_the_others_are_not(bridge: Opa, fake: FakeBatchCheck) -> None:
    fake.instead[BATCH_CHECK] = lambda asked: encoded(
        200,
        {
            "results": [
                {"id": check["id"], "allowed": True}
                for check in asked.checks
                if check["operation"] == of_table("get_metadata", "b")
            ]
        },
    )
    assert bridge.decide("trino/batch", FILTER) == [1]


@pytest.mark.parametrize("path", [BATCH_CHECK, CONFIG, "/token"])
def test_a_catalog_that_cuts_the_connection_grants_nothing(new_bridge: Opa, fake: FakeBatchCheck, path: str) -> None:
    def cut(asked: Asked) -> Response:
        raise ConnectionAbortedError

    fake.instead[path] = cut
    assert is_closed(new_bridge)
    del fake.instead[path]
    assert is_granted_everything(new_bridge)


@pytest.mark.parametrize("absence", ["refusing", "silent"])
def test_a_catalog_that_is_away_grants_nothing_whether_it_was_known_before_or_not(
    new_bridge: Opa, fake: FakeBatchCheck, absence: str
) -> None:
    away: Callable[[], AbstractContextManager[Iterator[None]]] = getattr(fake.relay, absence)
    with away():
        assert is_closed(new_bridge)
    assert is_granted_everything(new_bridge)
    with away():
        assert is_closed(new_bridge)
        assert new_bridge.decide("trino/allow", question("ExecuteQuery")) is True
    assert is_granted_everything(new_bridge)


@pytest.mark.parametrize(
    "response",
    [
        failure(401, "invalid_client"),
        failure(500, "InternalServerError"),
        (200, b"no JSON"),
        encoded(200, {}),
        encoded(200, {"access_token": ""}),
        encoded(200, {"access_token": None}),
        encoded(200, {"access_token": ["token-of-opa"]}),
        encoded(201, {"access_token": "token-of-opa"}),
    ],
)
def test_without_a_token_the_catalog_is_not_even_asked(
    new_bridge: Opa, fake: FakeBatchCheck, response: Response
) -> None:
    fake.instead["/token"] = lambda asked: response
    assert is_closed(new_bridge)
    assert fake.requests(CONFIG) == fake.batches == []


@pytest.mark.parametrize(
    "response",
    [
        failure(403, "WarehouseActionForbidden"),
        failure(500, "InternalServerError"),
        (500, json.dumps({"defaults": {"prefix": "x"}}).encode()),
        encoded(200, {"overrides": {"prefix": "x"}}),
        encoded(200, {"defaults": {"prefix": ""}}),
        encoded(200, {"defaults": {"prefix": 7}}),
        encoded(200, []),
    ],
)
def test_without_the_id_of_the_warehouse_nothing_is_asked_about_it(
    new_bridge: Opa, fake: FakeBatchCheck, response: Response
) -> None:
    fake.instead[CONFIG] = lambda asked: response
    assert is_closed(new_bridge)
    assert fake.batches == []


def test_one_missing_warehouse_closes_only_its_catalog(opa: StartOpa, fake: FakeBatchCheck) -> None:
    fake.is_granted = EVERYTHING
    bridge = opa(POLICIES, settings_for(fake, TRINO_CATALOG_WAREHOUSES='{"lake": "lakehouse", "missing": "missing"}'))
    assert bridge.decide("trino/batch", batch("FilterCatalogs", catalog("missing"), catalog("lake"))) == [1]
    asked = batch("SelectFromColumns", table(catalog_name="missing"), table())
    assert bridge.decide("trino/batch", asked) == [1]
