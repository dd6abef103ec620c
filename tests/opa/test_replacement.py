"""CREATE OR REPLACE: Trino checks it as CREATE, and an existing object of that name is never overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.opa.fake_batch_check import BATCH_CHECK, Asked, FakeBatchCheck, Response, encoded, failure
from tests.opa.opa_request_fixtures import batch, of_namespace, of_table, of_view, question, table
from tests.parts.opa import Opa

pytestmark = pytest.mark.part("opa")

CREATIONS = [
    ("CreateTable", of_namespace("create_table"), of_table("drop")),
    ("CreateView", of_namespace("create_view"), of_view("drop")),
    ("CreateMaterializedView", of_namespace("create_view"), of_view("drop")),
]


def may(bridge: Opa, operation: str, resource: Any) -> bool:
    allowed: bool = bridge.decide("trino/allow", question(operation, resource))
    assert bridge.decide("trino/batch", batch(operation, resource)) == ([0] if allowed else [])
    return allowed


@pytest.mark.parametrize(("operation", "creation", "drop"), CREATIONS)
def test_an_existing_object_is_replaced_only_by_those_who_may_drop_it(
    bridge: Opa, fake: FakeBatchCheck, operation: str, creation: Any, drop: Any
) -> None:
    fake.grant(creation)
    assert may(bridge, operation, table())
    fake.existing = [drop]
    assert not may(bridge, operation, table())
    assert may(bridge, operation, table("another"))
    fake.grant(creation, drop)
    assert may(bridge, operation, table())
    fake.grant(drop)
    assert not may(bridge, operation, table())


@pytest.mark.parametrize(("operation", "creation", "drop"), CREATIONS)
def test_the_existing_object_is_asked_about_after_the_namespace(
    bridge: Opa, fake: FakeBatchCheck, operation: str, creation: Any, drop: Any
) -> None:
    assert bridge.decide("trino/allow", question(operation, table())) is False
    assert fake.operations == [creation]
    fake.asked.clear()
    fake.grant(creation)
    assert bridge.decide("trino/allow", question(operation, table())) is True
    assert fake.operations == [creation, drop]
    assert {check["identity"]["user"] for each in fake.batches for check in each.checks} == {"oidc~alice"}


def _denied(asked: Asked, **more: Any) -> Response:
    return encoded(200, {"results": [{"id": check["id"], "allowed": False, **more} for check in asked.checks]})


@pytest.mark.parametrize(
    "response",
    [
        _denied,
        lambda asked: _denied(asked, error={"message": "", "type": "CannotInspectPermissions", "code": 403}),
        lambda asked: failure(404, "NotFound"),
        lambda asked: failure(404, "NoSuchNamespaceException"),
        lambda asked: failure(404, "NoSuchWarehouseException"),
        lambda asked: (404, b"no such page"),
        lambda asked: (404, b""),
        lambda asked: failure(403, "NoSuchTableException"),
        lambda asked: failure(500, "NoSuchTableException"),
        lambda asked: encoded(200, {"error": {"type": "NoSuchTableException"}}),
        lambda asked: encoded(200, {"results": []}),
    ],
)
def test_only_a_response_that_the_name_is_unknown_counts_as_one(
    bridge: Opa, fake: FakeBatchCheck, response: Callable[[Asked], Response]
) -> None:
    fake.grant(of_namespace("create_table"))

    def about_the_table(asked: Asked) -> Response:
        if of_table("drop") in asked.operations:
            return response(asked)
        return encoded(200, {"results": fake.results(asked)})

    assert bridge.decide("trino/allow", question("CreateTable", table())) is True
    fake.instead[BATCH_CHECK] = about_the_table
    assert bridge.decide("trino/allow", question("CreateTable", table())) is False
