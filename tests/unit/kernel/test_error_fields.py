"""Errors name the invalid member of the request; the shape of the response is unchanged."""

from __future__ import annotations

import pytest
from rest_framework.exceptions import ValidationError

from icekeeper.kernel.errors.responses import to_catalog_error
from icekeeper.kernel.errors.types import BadRequest


def test_field_and_hint_are_not_on_the_wire() -> None:
    error = BadRequest("name: longer than 255 characters", field="name", hint="Use a shorter name")
    assert (error.field, error.hint) == ("name", "Use a shorter name")
    assert error.envelope(error_id="1")["error"] == {
        "message": "name: longer than 255 characters",
        "type": "BadRequestException",
        "code": 400,
        "stack": ["Error ID: 1"],
    }


@pytest.mark.parametrize(
    ("detail", "field", "message"),
    [
        ({"members": {"0": {"id": ["Required."]}}}, "members.0.id", "members.0.id: Required."),
        ({"non_field_errors": ["Wrong."]}, None, "Wrong."),
        (["Wrong."], None, "Wrong."),
    ],
)
def test_a_serializer_names_the_field(detail: object, field: str | None, message: str) -> None:
    error = to_catalog_error(ValidationError(detail))
    assert error is not None
    assert (error.field, error.message) == (field, message)
