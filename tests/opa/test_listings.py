"""Batches: which objects of a listing Trino may show, with as few checks as possible."""

from __future__ import annotations

from typing import Any

import pytest

from tests.authorization_fixtures import StartOpa
from tests.opa.fake_batch_check import BATCH_CHECK, FakeBatchCheck, encoded
from tests.opa.opa_request_fixtures import (
    LAKE,
    OTHER,
    POLICIES,
    batch,
    catalog,
    in_order,
    of_namespace,
    of_table,
    of_view,
    of_warehouse,
    schema,
    settings_for,
    table,
)
from tests.parts.opa import Opa

pytestmark = pytest.mark.part("opa")

MANY = [table(f"t{i}") for i in range(1200)]


def decide(bridge: Opa, operation: str, *resources: Any, user: str = "alice") -> list[int]:
    chosen: list[int] = bridge.decide("trino/batch", batch(operation, *resources, user=user))
    return sorted(chosen)


def test_catalogs_are_those_whose_warehouse_shows_itself(bridge: Opa, fake: FakeBatchCheck) -> None:
    listed = [catalog(name) for name in ("other", "unknown", "lake", "system")]
    assert decide(bridge, "FilterCatalogs", *listed) == [3]
    fake.grant(of_warehouse("get_config", LAKE))
    assert decide(bridge, "FilterCatalogs", *listed) == [2, 3]
    fake.grant(of_warehouse("get_config", OTHER), of_warehouse("list_everything", LAKE))
    assert decide(bridge, "FilterCatalogs", *listed) == [0, 3]


def test_schemas_of_a_warehouse_that_is_listed_as_a_whole_take_one_question(bridge: Opa, fake: FakeBatchCheck) -> None:
    fake.grant(of_warehouse("list_everything"))
    assert decide(bridge, "FilterSchemas", schema(), schema("a.b"), schema("information_schema")) == [0, 1, 2]
    assert fake.operations == [of_warehouse("list_everything")]


def test_schemas_are_asked_for_one_by_one_in_one_request_otherwise(bridge: Opa, fake: FakeBatchCheck) -> None:
    fake.grant(of_namespace("get_metadata", "a", "b"), of_namespace("list_everything"))
    assert decide(bridge, "FilterSchemas", schema(), schema("a.b"), schema("information_schema")) == [1]
    assert [in_order(each.operations) for each in fake.batches] == [
        in_order([of_warehouse("list_everything")]),
        in_order(
            [
                of_namespace("get_metadata"),
                of_namespace("get_metadata", "a", "b"),
                of_warehouse("get_config"),
            ]
        ),
    ]


@pytest.mark.parametrize("granted", [of_warehouse("list_everything"), of_namespace("list_everything")])
def test_tables_of_a_namespace_that_is_listed_as_a_whole_take_one_request(
    bridge: Opa, fake: FakeBatchCheck, granted: Any
) -> None:
    fake.grant(granted)
    assert decide(bridge, "FilterTables", *MANY) == list(range(1200))
    assert [in_order(each.operations) for each in fake.batches] == [
        in_order([of_warehouse("list_everything"), of_namespace("list_everything")])
    ]


def test_only_tables_outside_of_fully_listed_schemas_are_checked(bridge: Opa, fake: FakeBatchCheck) -> None:
    fake.grant(of_namespace("list_everything"), of_view("get_metadata", "v", "hr"))
    listed = [table("t", "hr"), table("a"), table("v", "hr"), table("b")]
    assert decide(bridge, "FilterTables", *listed) == [1, 2, 3]
    assert in_order(fake.batches[1].operations) == in_order(
        create("get_metadata", name, "hr") for create in (of_table, of_view) for name in ("t", "v")
    )


def test_a_long_listing_is_asked_for_in_pieces_of_a_thousand(bridge: Opa, fake: FakeBatchCheck) -> None:
    fake.grant(of_table("get_metadata", "t3"), of_view("get_metadata", "t1100"))
    assert decide(bridge, "FilterTables", *MANY) == [3, 1100]
    assert [len(each.checks) for each in fake.batches] == [2, 1000, 1000, 400]
    for each in fake.batches:
        assert len({check["id"] for check in each.checks}) == len(each.checks)


def test_pieces_are_as_small_as_the_setting_says(opa: StartOpa, fake: FakeBatchCheck) -> None:
    bridge = opa(POLICIES, settings_for(fake, LAKEKEEPER_MAX_BATCH_CHECK_SIZE="4"))
    fake.grant(of_table("get_metadata", "t3"), of_view("get_metadata", "t4"))
    assert decide(bridge, "FilterTables", *MANY[:5]) == [3, 4]
    assert [len(each.checks) for each in fake.batches] == [2, 4, 4, 2]


def test_columns_of_one_table_are_one_check_and_returned_in_order(bridge: Opa, fake: FakeBatchCheck) -> None:
    asked = table(columns=["id", "amount", "customer"])
    assert decide(bridge, "FilterColumns", asked) == []
    assert in_order(fake.operations) == in_order([of_table("get_metadata"), of_view("get_metadata")])
    fake.grant(of_view("get_metadata"))
    assert decide(bridge, "FilterColumns", asked) == [0, 1, 2]
    assert decide(bridge, "FilterColumns", table(columns=[])) == []


def test_columns_of_several_tables_are_returned_in_the_order_of_the_tables(bridge: Opa, fake: FakeBatchCheck) -> None:
    fake.grant(of_table("get_metadata", "b"))
    assert decide(bridge, "FilterColumns", table("a", columns=["x", "y"]), table("b", columns=["x", "y"])) == [1]


def test_selects_in_a_batch_ask_views_for_select_and_take_no_shortcut(bridge: Opa, fake: FakeBatchCheck) -> None:
    fake.grant(of_view("select", "v"), of_table("read_data", "t"), of_warehouse("list_everything"))
    assert decide(bridge, "SelectFromColumns", table("x"), table("v"), table("t")) == [1, 2]
    assert in_order(fake.operations) == in_order(
        operation for name in "xvt" for operation in (of_table("read_data", name), of_view("select", name))
    )


def test_one_bad_piece_does_not_fail_the_others(bridge: Opa, fake: FakeBatchCheck) -> None:
    listed = [table("good"), table("bad"), table("spoilt", catalog_name="unknown"), {"table": None}, 7, table("fine")]
    fake.is_granted = lambda _, operation: operation in (
        of_table("get_metadata", "good"), of_table("get_metadata", "fine"),
    )  # fmt: skip

    def response(asked: Any) -> tuple[int, bytes]:
        results = fake.results(asked)
        for check, result in zip(asked.checks, results, strict=True):
            if check["operation"].get("table", {}).get("table") == "bad":
                error = {"message": "may not ask", "type": "CannotInspectPermissions", "code": 403}
                result |= {"allowed": True, "error": error}
        return encoded(200, {"results": results})

    fake.instead[BATCH_CHECK] = response
    assert decide(bridge, "FilterTables", *listed) == [0, 5]


def test_queries_are_those_of_the_user(bridge: Opa, fake: FakeBatchCheck) -> None:
    owners: list[dict[str, Any]] = [{"user": {"user": name, "groups": []}} for name in ("bob", "alice", "root", "")]
    assert decide(bridge, "FilterViewQueryOwnedBy", *owners) == [1]
    assert decide(bridge, "FilterViewQueryOwnedBy", *owners, user="root") == [0, 1, 2, 3]
    assert fake.asked == []


def test_nothing_is_asked_about_nothing(bridge: Opa, fake: FakeBatchCheck) -> None:
    assert decide(bridge, "FilterTables") == []
    assert fake.asked == []
