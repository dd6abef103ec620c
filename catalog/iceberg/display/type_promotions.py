"""What a change of a column's type means for data files that were written before ("Schema evolution", table spec)."""

from __future__ import annotations

import re
from typing import Final

_DECIMAL: Final = re.compile(r"decimal\(([0-9]+), ([0-9]+)\)")

_PROMOTIONS: Final = frozenset({("int", "long"), ("float", "double")})
_PROMOTIONS_V3: Final = frozenset({("date", "timestamp"), ("date", "timestamp_ns")})


def is_promotion(old: str, new: str) -> bool:
    """Return whether readers convert values of type `old` to `new`, both as canonical text.

    Includes the promotions of format version 3 (from `unknown`, and `date` to a timestamp without zone).
    """
    if (old, new) in _PROMOTIONS or (old, new) in _PROMOTIONS_V3 or old == "unknown":
        return True
    old_decimal, new_decimal = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if old_decimal is None or new_decimal is None:
        return False
    return int(old_decimal[1]) <= int(new_decimal[1]) and old_decimal[2] == new_decimal[2]


def describe_type_change(old: str, new: str) -> str:
    """Return the consequence of a type change for earlier data files, as one sentence."""
    if old == "unknown":
        return "Old rows read as null"
    if is_promotion(old, new):
        return "Widened: old files are read without a rewrite"
    return "Not a type promotion of Iceberg: readers may fail on old files"
