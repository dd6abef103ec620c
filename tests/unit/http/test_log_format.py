from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from icekeeper.kernel.request_context import choose_request_id, current_context, end_request
from icekeeper.logs import JsonFormatter


def _line(message: str, *arguments: object, error: bool = False, **extra: Any) -> dict[str, Any]:
    record = logging.getLogger("some.where").makeRecord(
        "some.where", logging.WARNING, __file__, 1, message, arguments, sys.exc_info() if error else None, extra=extra
    )
    text = JsonFormatter().format(record)
    assert "\n" not in text
    line: dict[str, Any] = orjson.loads(text)
    return line


def test_fields() -> None:
    line = _line("%s of %d", "one", 2, variables=["a"])
    written = datetime.fromisoformat(line.pop("timestamp"))
    assert abs((datetime.now(UTC) - written).total_seconds()) < 5
    assert line == {"level": "WARNING", "logger": "some.where", "message": "one of 2", "variables": ["a"]}


@pytest.mark.parametrize("text", ['"}\n{"level":"FORGED"}', "\u2028\x85\x00\x1b[31m", "\ud800 alone", "🧊"])
def test_any_text_stays_in_its_field(text: str) -> None:
    assert _line("said", text=text)["level"] == "WARNING"
    assert _line("%s", text)["level"] == "WARNING"


@pytest.mark.parametrize("value", [2**80, object(), {1: 2}, {"deep": {3}}, b"bytes"])
def test_any_value_can_be_logged(value: object) -> None:
    assert "value" in _line("said", value=value)


def test_exceptions_are_a_field() -> None:
    line: dict[str, Any] = {}
    try:
        int("why\nit failed")
    except ValueError:
        line = _line("failed", error=True)
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith(r"invalid literal for int() with base 10: 'why\nit failed'")


def test_the_request_id_is_in_every_line_of_the_request() -> None:
    current_context().request_id = choose_request_id("0198c0de-0000-7000-8000-000000000000")
    try:
        line = _line("inside")
        assert line["request_id"] == "0198c0de-0000-7000-8000-000000000000"
        assert "request_uuid" not in line
    finally:
        end_request()
    assert "request_id" not in _line("outside")
