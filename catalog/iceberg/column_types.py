"""Column types and default values (table spec, "Schemas and data types", "Default values"): validation and parsing.

A primitive type is its canonical text (`decimal(9, 2)`), so two types are equal when the values are. Default values
have the JSON single-value serialization of appendix D. They follow Java's `SingleValueParser.fromJson` and
`Types.NestedField`, so that Java can read whatever is accepted here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias
from uuid import UUID

from catalog.iceberg.json_fields import (
    INT_RANGE,
    LONG_RANGE,
    as_object,
    clip,
    describe,
    optional_string,
    read_bool,
    read_int,
    read_list,
    read_string,
    required,
)
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


def check_default_value(value: Any, column_type: str, where: str) -> None:
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


MAX_TYPE_DEPTH: Final = 60
"""Structs, lists and maps inside one another. A struct level takes three levels of JSON, and those are bounded too."""

MAX_TYPE_LENGTH: Final = 200
"""Characters of a primitive type as text; the longest name a coordinate reference system, such as `srid:3857`."""

MAX_DECIMAL_PRECISION: Final = 38

PLAIN_PRIMITIVES: Final = frozenset(
    {"boolean", "int", "long", "float", "double", "string", "uuid", "binary"}
    | {"date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
    | {"unknown", "variant", "geometry", "geography"}
)
_DECIMAL: Final = re.compile(r"decimal\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)")
_FIXED: Final = re.compile(r"fixed\[\s*([0-9]{1,10})\s*\]")
# What stands in the parentheses is taken apart by hand: optional white space on both sides of a part that may itself be
# white space has a cubic number of readings.
_SPATIAL: Final = re.compile(r"(geometry|geography)\s*\(([^)]*)\)", re.IGNORECASE)
EDGE_ALGORITHMS: Final = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})
MAX_FIXED_LENGTH: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NestedField:
    field_id: int
    name: str
    required: bool
    type: Type
    doc: str | None
    initial_default: Any
    write_default: Any


@dataclass(frozen=True, slots=True)
class StructType:
    fields: tuple[NestedField, ...]

    def __str__(self) -> str:
        return "struct"


@dataclass(frozen=True, slots=True)
class ListType:
    element_id: int
    element_required: bool
    element: Type

    def __str__(self) -> str:
        return "list"


@dataclass(frozen=True, slots=True)
class MapType:
    key_id: int
    key: Type
    value_id: int
    value_required: bool
    value: Type

    def __str__(self) -> str:
        return "map"


Type: TypeAlias = str | StructType | ListType | MapType


def is_primitive(column_type: Type) -> bool:
    """A variant is neither nested nor primitive."""
    return isinstance(column_type, str) and column_type != "variant"


def primitive_name(column_type: Type) -> str:
    """The type without its parameters: `decimal` of `decimal(9, 2)`, `struct` of a struct."""
    return re.split(r"[(\[]", str(column_type), maxsplit=1)[0]


def parse_type(document: Any, where: str, depth: int = 0) -> Type:
    """Parse the type in a `type`, `element`, `key` or `value` field. Raises `BadRequest` naming the field."""
    if isinstance(document, str):
        return _parse_primitive(document, where)
    if depth > MAX_TYPE_DEPTH:
        raise BadRequest(f"{where}: type is nested more than {MAX_TYPE_DEPTH} levels deep")
    owner = as_object(document, where)
    match kind := read_string(owner, "type", where):
        case "struct":
            return parse_struct(owner, where, depth)
        case "list":
            is_required = read_bool(owner, "element-required", where)
            element = _parse_inner(owner, "element", where, depth, is_required=is_required)
            return ListType(read_int(owner, "element-id", where), is_required, element)
        case "map":
            is_required = read_bool(owner, "value-required", where)
            key = _parse_inner(owner, "key", where, depth, is_required=True)
            value = _parse_inner(owner, "value", where, depth, is_required=is_required)
            return MapType(
                read_int(owner, "key-id", where), key, read_int(owner, "value-id", where), is_required, value
            )
    raise BadRequest(f'{where}.type: expected "struct", "list" or "map", got "{clip(kind)}"')


def _parse_inner(owner: dict[str, Any], name: str, where: str, depth: int, *, is_required: bool) -> Type:
    """The type of a list's element or of a map's key or value."""
    path = f"{where}.{name}"
    inner = parse_type(required(owner, name, where), path, depth + 1)
    _check_unknown(inner, path, is_required=is_required)
    return inner


def _check_unknown(column_type: Type, where: str, *, is_required: bool) -> None:
    """All values of type unknown are null."""
    if is_required and column_type == "unknown":
        raise BadRequest(f"{where}: Cannot create required field with unknown type")


def parse_struct(owner: dict[str, Any], where: str, depth: int = 0) -> StructType:
    fields = read_list(owner, "fields", where)
    return StructType(
        tuple(_parse_field(field, f"{where}.fields[{index}]", depth) for index, field in enumerate(fields))
    )


def _parse_field(document: Any, where: str, depth: int) -> NestedField:
    owner = as_object(document, where)
    column_type = parse_type(required(owner, "type", where), f"{where}.type", depth + 1)
    is_required = read_bool(owner, "required", where)
    name = read_string(owner, "name", where)
    _check_unknown(column_type, f"{where}.type", is_required=is_required)
    for default in ("initial-default", "write-default"):
        check_default_value(owner.get(default), str(column_type), f"{where}.{default}")
    return NestedField(
        field_id=read_int(owner, "id", where),
        name=name,
        required=is_required,
        type=column_type,
        doc=optional_string(owner, "doc", where),
        initial_default=owner.get("initial-default"),
        write_default=owner.get("write-default"),
    )


def _parse_primitive(text: str, where: str) -> str:
    """The canonical text. As in Java, types may be spelled in any case, with white space in their parentheses."""
    lower = text.lower()
    if lower in PLAIN_PRIMITIVES:
        return lower
    if len(text) > MAX_TYPE_LENGTH:
        raise BadRequest(f'{where}: type is longer than {MAX_TYPE_LENGTH} characters: "{clip(text)}"')
    if found := _DECIMAL.fullmatch(lower):
        precision, scale = int(found[1]), int(found[2])
        if not 0 < precision <= MAX_DECIMAL_PRECISION:
            raise BadRequest(f"{where}: decimal precision must be between 1 and {MAX_DECIMAL_PRECISION}: {text}")
        if scale > precision:
            raise BadRequest(f"{where}: decimal scale must not exceed its precision: {text}")
        return f"decimal({precision}, {scale})"
    if found := _FIXED.fullmatch(lower):
        length = int(found[1])
        if length > MAX_FIXED_LENGTH:
            raise BadRequest(f"{where}: length of fixed is out of range: {text}")
        return f"fixed[{length}]"
    if found := _SPATIAL.fullmatch(text):
        return _parse_spatial(found[1].lower(), found[2], where)
    raise BadRequest(f'{where}: unknown type "{clip(text)}"')


def _parse_spatial(name: str, parameters: str, where: str) -> str:
    """`geometry(crs)`, `geography(crs)` or `geography(crs, algorithm)` in canonical spelling."""
    parts = [parameters] if name == "geometry" else parameters.split(",", 1)
    crs, *algorithms = (part.strip() for part in parts)
    algorithms = [algorithm.lower() for algorithm in algorithms]
    for algorithm in algorithms:
        if algorithm not in EDGE_ALGORITHMS:
            raise BadRequest(f"{where}: unknown edge algorithm of geography: {clip(algorithm) or '(empty)'}")
    if not crs:
        raise BadRequest(f"{where}: {name} names an empty coordinate reference system")
    return f"{name}({', '.join([crs, *algorithms])})"
