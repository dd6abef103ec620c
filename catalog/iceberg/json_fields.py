"""Typed fields of untrusted JSON: a field has the type of the specification, or the error names its path.

`where` is the path of the current object, such as `schema.fields[2]`, and empty for the outermost one. Every function
raises `BadRequest` naming the full path of the field. JSON `true` is not a number, and `1.0` is not an integer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from catalog.iceberg.types import MAX_CLOCK_AHEAD_MS
from icekeeper.kernel.errors.types import BadRequest

MAX_DEPTH: Final = 200
"""Levels of nesting that a document may have. orjson refuses to write more than 254, so a deeper one would be a table
that can be committed but not stored."""

MAX_ECHO: Final = 80

INT_RANGE: Final = (-(2**31), 2**31 - 1)
LONG_RANGE: Final = (-(2**63), 2**63 - 1)

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")


def field_path(where: str, name: str) -> str:
    return f"{where}.{clip(name)}" if where else clip(name)


def clip(text: str) -> str:
    """Text of a client as an error message may repeat it."""
    return text if len(text) <= MAX_ECHO else f"{text[: MAX_ECHO - 3]}..."


def describe(value: Any) -> str:
    """A short, safe account of a wrong value for an error text; never echoes long or nested input."""
    if isinstance(value, str):
        return f'the string "{clip(value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"the number {value}" if value.bit_length() <= MAX_ECHO else "a huge number"
    if isinstance(value, float):
        return f"the number {value!r}"
    return {type(None): "null", list: "an array", dict: "an object"}.get(type(value), "something that is not JSON")


def wrong_type(path: str, expected: str, value: Any) -> BadRequest:
    return BadRequest(f"{path or 'document'}: expected {expected}, got {describe(value)}")


def missing(path: str) -> BadRequest:
    return BadRequest(f"{path}: required field is missing")


def check_depth(value: Any, where: str) -> None:
    """Refuse what nests deeper than `MAX_DEPTH`; iterative, so that it cannot itself overflow the stack."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(part for part in item.values() if isinstance(part, dict | list))
            elif isinstance(item, list):
                inner.extend(part for part in item if isinstance(part, dict | list))
        if not inner:
            return
        level = inner
    raise BadRequest(f"{where or 'document'}: nested more than {MAX_DEPTH} levels deep")


def as_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong_type(path, "an object", value)
    return value


def as_list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(path, "an array", value)
    return value


def as_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise wrong_type(path, "a string", value)
    return value


def as_int(value: Any, path: str) -> int:
    if type(value) is not int or not INT_RANGE[0] <= value <= INT_RANGE[1]:
        raise wrong_type(path, "a 32-bit integer", value)
    return value


def as_long(value: Any, path: str) -> int:
    if type(value) is not int or not LONG_RANGE[0] <= value <= LONG_RANGE[1]:
        raise wrong_type(path, "a 64-bit integer", value)
    return value


def as_string_map(value: Any, path: str) -> dict[str, str]:
    """An object all of whose values are strings: properties, summaries."""
    for name, text in as_object(value, path).items():
        if not isinstance(text, str):
            raise wrong_type(field_path(path, name), "a string", text)
    return value  # type: ignore[no-any-return]  # checked above


def parse_int(text: str) -> int | None:
    """The 32-bit integer in the text of a property, None for any other text."""
    return int(text) if _INTEGER.fullmatch(text) and INT_RANGE[0] <= int(text) <= INT_RANGE[1] else None


def required(owner: Mapping[str, Any], name: str, where: str) -> Any:
    """The value of a field that must be there; null counts as absent."""
    value = owner.get(name)
    if value is None:
        raise missing(field_path(where, name))
    return value


def read_object(owner: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    return as_object(required(owner, name, where), field_path(where, name))


def read_list(owner: Mapping[str, Any], name: str, where: str) -> list[Any]:
    return as_list(required(owner, name, where), field_path(where, name))


def read_string(owner: Mapping[str, Any], name: str, where: str) -> str:
    return as_string(required(owner, name, where), field_path(where, name))


def read_int(owner: Mapping[str, Any], name: str, where: str) -> int:
    return as_int(required(owner, name, where), field_path(where, name))


def read_long(owner: Mapping[str, Any], name: str, where: str) -> int:
    return as_long(required(owner, name, where), field_path(where, name))


def read_bool(owner: Mapping[str, Any], name: str, where: str) -> bool:
    value = required(owner, name, where)
    if not isinstance(value, bool):
        raise wrong_type(field_path(where, name), "true or false", value)
    return value


def require_not_ahead(time_ms: int, now_ms: int, path: str) -> None:
    """Refuse a time of a client that is more than `MAX_CLOCK_AHEAD_MS` ahead of `now_ms`."""
    if time_ms > now_ms + MAX_CLOCK_AHEAD_MS:
        raise BadRequest(f"{path}: {time_ms} is more than a day ahead of the server's clock, {now_ms}")


def optional_string(owner: Mapping[str, Any], name: str, where: str) -> str | None:
    return None if owner.get(name) is None else read_string(owner, name, where)


def optional_int(owner: Mapping[str, Any], name: str, where: str) -> int | None:
    return None if owner.get(name) is None else read_int(owner, name, where)


def optional_long(owner: Mapping[str, Any], name: str, where: str) -> int | None:
    return None if owner.get(name) is None else read_long(owner, name, where)


def read_int_list(owner: Mapping[str, Any], name: str, where: str) -> list[int]:
    path = field_path(where, name)
    return [as_int(item, f"{path}[{index}]") for index, item in enumerate(read_list(owner, name, where))]


def read_long_list(owner: Mapping[str, Any], name: str, where: str) -> list[int]:
    path = field_path(where, name)
    return [as_long(item, f"{path}[{index}]") for index, item in enumerate(read_list(owner, name, where))]


def read_string_list(owner: Mapping[str, Any], name: str, where: str) -> list[str]:
    path = field_path(where, name)
    return [as_string(item, f"{path}[{index}]") for index, item in enumerate(read_list(owner, name, where))]


def without_nulls(owner: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return a copy of `owner` without the named fields that are null.

    Clients send null for an optional field that they do not set; Java's readers reject a stored null in some fields.
    """
    return {name: value for name, value in owner.items() if value is not None or name not in names}
