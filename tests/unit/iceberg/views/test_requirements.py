"""The one requirement of views: when it holds, and the error text that clients parse."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.iceberg.requirements import check_view_requirements
from icekeeper.kernel.errors.types import BadRequest, CommitFailed
from tests.unit.iceberg.document_fixtures import UUID
from tests.unit.iceberg.views.document_fixtures import view

OTHER = "00000000-0000-4000-8000-000000000000"


def assert_uuid(uuid: Any) -> dict[str, Any]:
    return {"type": "assert-view-uuid", "uuid": uuid}


def test_that_hold() -> None:
    check_view_requirements(view(), [])
    check_view_requirements(view(), [assert_uuid(UUID), assert_uuid(UUID.upper())])
    check_view_requirements({**view(), "view-uuid": UUID.upper()}, [assert_uuid(UUID)])


def test_another_view() -> None:
    with pytest.raises(CommitFailed) as raised:
        check_view_requirements(view(), [assert_uuid(UUID), assert_uuid(OTHER)])
    assert raised.value.message == f"Requirement failed: view UUID does not match: expected {UUID} != {OTHER}"
    with pytest.raises(CommitFailed) as raised:
        check_view_requirements(view(), [assert_uuid("x" * 10_000)])
    assert len(raised.value.message) < 300


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        (None, "requirements: expected an array, got null"),
        ({}, "requirements: expected an array, got an object"),
        ([None], "requirements[0]: expected an object, got null"),
        ([{}], "requirements[0].type: required field is missing"),
        ([{"type": 1}], "requirements[0].type: expected a string, got the number 1"),
        ([{"type": "assert-create"}], "requirements[0]: unknown requirement type: assert-create"),
        (
            [assert_uuid(UUID), {"type": "assert-table-uuid", "uuid": UUID}],
            "requirements[1]: unknown requirement type: assert-table-uuid",
        ),
        ([{"type": "assert-view-uuid"}], "requirements[0].uuid: required field is missing"),
        ([assert_uuid(1)], "requirements[0].uuid: expected a string, got the number 1"),
    ],
)
def test_malformed_ones(requirements: Any, message: str) -> None:
    with pytest.raises(BadRequest) as raised:
        check_view_requirements(view(), requirements)
    assert raised.value.message == message


def test_a_malformed_request_never_conflicts() -> None:
    with pytest.raises(BadRequest, match=r"requirements\[1\]"):
        check_view_requirements(view(), [assert_uuid(OTHER), {"type": "x"}])
