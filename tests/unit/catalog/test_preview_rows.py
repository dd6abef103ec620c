"""Values of a preview as text, and the locations that its process may read."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from catalog.programs.preview_rows import TableLocations, describe_values, without_secrets, write_value

MISREAD = ("\n", "\r", "\t", "\0", "\x7f", "?", "#", "\\")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (b"\x00\xff", "00ff"),
        (date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.50"), "1.50"),
        ({"a": [1, b"\x01", date(2026, 1, 2)]}, '{"a": [1, "01", "2026-01-02"]}'),
        (
            {date(2026, 1, 2): {UUID(int=1): Decimal("1.50")}, None: (b"\x01", True)},
            '{"2026-01-02": {"00000000-0000-0000-0000-000000000001": "1.50"}, "null": ["01", true]}',
        ),
        ("x" * 100, "x" * 89 + "…"),
        ("\ud800", "?"),
    ],
)
def test_values(value: Any, text: str | None) -> None:
    assert write_value(value, 90) == text


def test_profiles() -> None:
    assert describe_values([3, None, 1, 3], 50) == {"nulls": 1, "distinct": 2, "min": "1", "max": "3"}
    assert describe_values([{"a": 1}, {"a": 2}], 50) == {"nulls": 0, "distinct": 2, "min": None, "max": None}
    assert describe_values([None], 50) == {"nulls": 1, "distinct": 0, "min": None, "max": None}


def test_locations(tmp_path: Path) -> None:
    remote = TableLocations(["s3://b/wh/t"], None)
    for inside in ("s3://b/wh/t/data/a.parquet", "s3a://b/wh/t/m.avro"):
        remote.require_inside(inside)
    for outside in (
        "s3://b/wh/t2/a",
        "s3://b/wh/t/../x",
        "file:///b/wh/t/a",
        "http://b/wh/t/a",
        "/etc/passwd",
        "s3://b/wh/t",
        *(f"s3://b/wh/t/.{each}./other/x.parquet" for each in MISREAD),
    ):
        with pytest.raises(PermissionError):
            remote.require_inside(outside)
    folder = tmp_path.resolve() / "t"
    folder.mkdir()
    (folder / "link").symlink_to("/etc")
    local = TableLocations([f"file://{folder}"], str(tmp_path.resolve()))
    local.require_inside(f"file://{folder}/a.parquet")
    names = ("link/passwd", "%2e%2e/other/x.parquet", *(f".{each}./other/x.parquet" for each in MISREAD))
    for outside in (*names, "a\n.parquet"):
        with pytest.raises(PermissionError):
            local.require_inside(f"file://{folder}/{outside}")


def test_secrets_in_errors() -> None:
    properties = {"s3.secret-access-key": "hidden", "s3.region": "eu"}
    assert without_secrets("denied for hidden in eu", properties) == "denied for *** in eu"
