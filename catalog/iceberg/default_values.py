"""Default values of columns (table spec, "Default values"; JSON single-value serialization of appendix D).

Follows Java's `SingleValueParser.fromJson` and `Types.NestedField`, so that whatever is accepted here loads there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from catalog.iceberg.json_fields import INT_RANGE, LONG_RANGE, describe
from icekeeper.kernel.errors.types import BadRequest

_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.[0-9]{1,9})?"
_ISO_DATE: Final = re.compile(_DATE)
_ISO_TIME: Final = re.compile(_TIME)
_ISO_TIMESTAMP: Final = re.compile(rf"({_DATE})T{_TIME}")
_ISO_TIMESTAMPTZ: Final = re.compile(rf"({_DATE})T{_TIME}(?:\+00:00|Z)")
_PARAMETERS: Final = re.compile(r"[0-9]+")


def check_default(value: Any, column_type: str, where: str) -> None:
    """Refuse a default that is not the JSON single value of its type; null is no default and always fine.

    `column_type` is the canonical text of the type. Nested types, variant, unknown and the spatial types have no
    default but null.
    """
    if value is None:
        return
    check = _CHECKS.get(re.split(r"[(\[]", column_type, maxsplit=1)[0])
    if check is None:
        raise BadRequest(f"{where}: a column of type {column_type} has no default but null")
    try:
        fits = check(value, [int(number) for number in _PARAMETERS.findall(column_type)])
    except (ValueError, InvalidOperation):
        fits = False
    if not fits:
        raise BadRequest(f"{where}: not a default value of type {column_type}: {describe(value)}")


def _is_int(value: Any, _: list[int]) -> bool:
    return type(value) is int and INT_RANGE[0] <= value <= INT_RANGE[1]


def _is_long(value: Any, _: list[int]) -> bool:
    return type(value) is int and LONG_RANGE[0] <= value <= LONG_RANGE[1]


def _is_decimal(value: Any, parameters: list[int]) -> bool:
    if not isinstance(value, str) or not value.isascii() or "_" in value:
        return False
    precision, scale = parameters
    _sign, digits, exponent = Decimal(value).as_tuple()
    return exponent == -scale and len(digits) <= precision


def _is_hex(value: Any, parameters: list[int]) -> bool:
    is_hex = isinstance(value, str) and len(value) % 2 == 0 and _HEX.fullmatch(value) is not None
    return is_hex and (not parameters or len(value) == 2 * parameters[0])


def _is_date(value: Any, _: list[int]) -> bool:
    return isinstance(value, str) and _ISO_DATE.fullmatch(value) is not None and bool(date.fromisoformat(value))


def _is_time(value: Any, _: list[int]) -> bool:
    found = _ISO_TIME.fullmatch(value) if isinstance(value, str) else None
    return found is not None and time.fromisoformat(found[1]) is not None


def _is_timestamp(pattern: re.Pattern[str]) -> Callable[[Any, list[int]], bool]:
    def check(value: Any, _: list[int]) -> bool:
        found = pattern.fullmatch(value) if isinstance(value, str) else None
        return found is not None and datetime.fromisoformat(f"{found[1]}T{found[2]}") is not None

    return check


_CHECKS: Final[dict[str, Callable[[Any, list[int]], bool]]] = {
    "boolean": lambda value, _: isinstance(value, bool),
    "int": _is_int,
    "long": _is_long,
    "float": lambda value, _: isinstance(value, float),
    "double": lambda value, _: isinstance(value, float),
    "decimal": _is_decimal,
    "string": lambda value, _: isinstance(value, str),
    "uuid": lambda value, _: isinstance(value, str) and _UUID.fullmatch(value) is not None and bool(UUID(value)),
    "date": _is_date,
    "time": _is_time,
    "timestamp": _is_timestamp(_ISO_TIMESTAMP),
    "timestamptz": _is_timestamp(_ISO_TIMESTAMPTZ),
    "timestamp_ns": _is_timestamp(_ISO_TIMESTAMP),
    "timestamptz_ns": _is_timestamp(_ISO_TIMESTAMPTZ),
    "fixed": _is_hex,
    "binary": _is_hex,
}
