"""How tabulars are addressed: levels and a name, as clients spell them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.names import path_key, require_name

MAX_DEPTH = 5
MAX_KEY_BYTES = 2000
"""Of a whole namespace in look-up form; an index entry of the database must hold it."""

Levels = tuple[str, ...]


class NamespaceDepthExceeded(BadRequest):
    wire_type = "NamespaceDepthExceeded"


@dataclass(frozen=True, slots=True)
class Identifier:
    """A tabular's address inside a warehouse; `str()` is the dotted form of messages."""

    levels: Levels
    name: str

    def __str__(self) -> str:
        return ".".join((*self.levels, self.name))

    def as_json(self) -> dict[str, Any]:
        return {"namespace": list(self.levels), "name": self.name}


def dotted(levels: Levels) -> str:
    return ".".join(levels)


def require_levels(value: object) -> Levels:
    """Read the levels of a namespace to create. Raises `BadRequest` naming what is wrong."""
    if not isinstance(value, list | tuple) or not value:
        raise BadRequest("Invalid namespace: must be a list of at least one name")
    levels = tuple(require_name(level, "namespace level") for level in value)
    if len(levels) > MAX_DEPTH:
        raise NamespaceDepthExceeded(f"Invalid namespace: {len(levels)} levels: exceeds maximum depth of {MAX_DEPTH}")
    if len(path_key(levels).encode()) > MAX_KEY_BYTES:
        raise BadRequest(f"Invalid namespace: longer than {MAX_KEY_BYTES} bytes")
    return levels


def require_identifier(value: object, what: str) -> Identifier:
    """The identifier in a request body, `{"namespace": [...], "name": "..."}`. Its names need not be legal."""
    if not isinstance(value, dict):
        raise BadRequest(f"{what}: must be an object with namespace and name")
    namespace, name = value.get("namespace"), value.get("name")
    if not isinstance(namespace, list) or not namespace or not all(isinstance(level, str) for level in namespace):
        raise BadRequest(f"{what}: namespace must be a list of strings")
    if not isinstance(name, str):
        raise BadRequest(f"{what}: name must be a string")
    return Identifier(tuple(namespace), name)
