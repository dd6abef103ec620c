"""Partition and sort transforms (table spec, "Partition transforms"), as Java's `Transforms.fromString` reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from catalog.iceberg.column_types import Type, is_primitive, primitive_name
from catalog.iceberg.json_fields import INT_RANGE, clip
from icekeeper.kernel.errors.types import BadRequest

_WITH_WIDTH: Final = re.compile(r"(\w+)\[([0-9]+)\]", re.ASCII)

_TIMESTAMPS: Final = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DATES: Final = _TIMESTAMPS | {"date"}
_TRUNCATED: Final = frozenset({"int", "long", "decimal", "string", "binary"})
_SOURCE_TYPES: Final = {
    "bucket": _TRUNCATED | _DATES | {"time", "uuid", "fixed"},
    "truncate": _TRUNCATED,
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _TIMESTAMPS,
}
_WITHOUT_IDENTITY: Final = frozenset({"variant", "geometry", "geography"})
_PLAIN: Final = frozenset({"identity", "year", "month", "day", "hour", "void"})


@dataclass(frozen=True, slots=True)
class Transform:
    """`text` is the canonical spelling that is stored and compared, `name` the transform without its width."""

    name: str
    text: str
    is_known: bool

    @property
    def is_void(self) -> bool:
        return self.name == "void"


def parse_transform(text: str, where: str) -> Transform:
    """The transform a spec or order names; an unknown one is kept as it is, with `is_known` False.

    Raises `BadRequest` for a width that is zero or out of range.
    """
    found = _WITH_WIDTH.fullmatch(text)
    if found and (name := found[1].lower()) in {"bucket", "truncate"}:
        width = int(found[2][:20])
        if not 0 < width <= INT_RANGE[1]:
            raise BadRequest(f"{where}: width of {name} must be between 1 and {INT_RANGE[1]}: {clip(text)}")
        return Transform(name, f"{name}[{width}]", is_known=True)
    if text.lower() in _PLAIN:
        return Transform(text.lower(), text.lower(), is_known=True)
    return Transform(text, text, is_known=False)


def applies_to(transform: Transform, source: Type) -> bool:
    """Whether the transform can take values of that type. Void and unknown transforms take anything."""
    if transform.is_void or not transform.is_known:
        return True
    if transform.name == "identity":
        return is_primitive(source) and primitive_name(source) not in _WITHOUT_IDENTITY
    return primitive_name(source) in _SOURCE_TYPES[transform.name]


def check_source(transform: Transform, source: Type, where: str) -> None:
    """Raises `BadRequest` when the transform cannot be computed from a column of that type."""
    if not applies_to(transform, source):
        raise BadRequest(f"{where}: Invalid source type {source} for transform: {clip(transform.text)}")
