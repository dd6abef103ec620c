"""The fields of a stored schema document in order, at every depth, and their types as text.

`catalog.iceberg.schemas` validates a whole schema. Pages show the beginning of one, so these functions read only what
is asked for, without recursion, and skip what they do not understand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from catalog.iceberg.column_types import parse_type
from catalog.iceberg.display.stored_parts import list_objects
from icekeeper.kernel.errors.types import BadRequest

MAX_TYPE_TEXT_DEPTH: Final = 4
"""Lists and maps inside one another that the text of a type shows; deeper ones are written `list` or `map`."""

MISSING_TYPE: Final = "?"

ELEMENT, KEY, VALUE = "element", "key", "value"


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a schema document; `name` is `element`, `key` or `value` for the inner fields of lists and maps.

    `type` is the stored JSON of the type. `path` is the dotted full name, as Iceberg writes it (`a.element.b`).
    `parent_id` is the id of the enclosing field, None at the top (depth 0); `previous_name` that of the field before it
    in the same parent, None for the first. Defaults are JSON values, None if there is none.
    """

    field_id: int | None
    name: str
    path: str
    depth: int
    parent_id: int | None
    previous_name: str | None
    is_last: bool
    is_inner: bool
    is_required: bool
    type: Any
    doc: str | None
    initial_default: Any
    write_default: Any


def walk_fields(schema: dict[str, Any]) -> Iterator[SchemaField]:
    """Yield every field of a schema document in document order, parents before their children.

    Lazy: stopping after n fields costs the time of about n fields.
    """
    stack = [_iterate_children(schema, parent=None)]
    while stack:
        field = next(stack[-1], None)
        if field is None:
            stack.pop()
            continue
        yield field
        if isinstance(field.type, dict):
            stack.append(_iterate_children(field.type, parent=field))


def _iterate_children(column_type: dict[str, Any], parent: SchemaField | None) -> Iterator[SchemaField]:
    match column_type.get("type"):
        case "list":
            yield _read_inner(column_type, ELEMENT, parent)
        case "map":
            yield _read_inner(column_type, KEY, parent)
            yield _read_inner(column_type, VALUE, parent)
        case _:
            fields = list_objects(column_type, "fields")
            previous = None
            for index, document in enumerate(fields):
                field = _read_field(document, parent, previous, is_last=index == len(fields) - 1)
                yield field
                previous = field.name


def _read_field(
    document: dict[str, Any], parent: SchemaField | None, previous: str | None, *, is_last: bool
) -> SchemaField:
    name = str(document.get("name", ""))
    doc = document.get("doc")
    return SchemaField(
        field_id=_read_id(document.get("id")),
        name=name,
        path=_join_path(parent, name),
        depth=0 if parent is None else parent.depth + 1,
        parent_id=None if parent is None else parent.field_id,
        previous_name=previous,
        is_last=is_last,
        is_inner=False,
        is_required=document.get("required") is True,
        type=document.get("type"),
        doc=doc if isinstance(doc, str) else None,
        initial_default=document.get("initial-default"),
        write_default=document.get("write-default"),
    )


def _read_inner(column_type: dict[str, Any], name: str, parent: SchemaField | None) -> SchemaField:
    return SchemaField(
        field_id=_read_id(column_type.get(f"{name}-id")),
        name=name,
        path=_join_path(parent, name),
        depth=0 if parent is None else parent.depth + 1,
        parent_id=None if parent is None else parent.field_id,
        previous_name=KEY if name == VALUE else None,
        is_last=name != KEY,
        is_inner=True,
        is_required=name == KEY or column_type.get(f"{name}-required") is True,
        type=column_type.get(name),
        doc=None,
        initial_default=None,
        write_default=None,
    )


def _join_path(parent: SchemaField | None, name: str) -> str:
    return name if parent is None else f"{parent.path}.{name}"


def _read_id(value: Any) -> int | None:
    return value if type(value) is int else None


def get_type_kind(column_type: Any) -> str:
    """Return `struct`, `list` or `map` for a nested type, `primitive` for any other."""
    kind = column_type.get("type") if isinstance(column_type, dict) else None
    return kind if kind in {"struct", "list", "map"} else "primitive"


def write_type(column_type: Any, depth: int = 0) -> str:
    """Return a type as Iceberg writes it: `decimal(10, 2)`, `list<string>`, `map<string, struct>`.

    A struct is written without its fields, which have rows of their own, and so are lists and maps that are nested
    deeper than `MAX_TYPE_TEXT_DEPTH`. An unknown type is returned as it is stored.
    """
    if isinstance(column_type, str):
        try:
            return str(parse_type(column_type, "type"))
        except BadRequest:
            return column_type
    kind = get_type_kind(column_type)
    if kind == "primitive":
        return MISSING_TYPE
    if kind == "struct" or depth == MAX_TYPE_TEXT_DEPTH:
        return kind
    if kind == "list":
        return f"list<{write_type(column_type.get('element'), depth + 1)}>"
    key, value = (write_type(column_type.get(name), depth + 1) for name in (KEY, VALUE))
    return f"map<{key}, {value}>"


def is_written_completely(column_type: Any, depth: int = 0) -> bool:
    """Return whether `write_type` shows the whole type: it has no struct, and is not nested too deeply."""
    kind = get_type_kind(column_type)
    if kind == "primitive":
        return True
    if kind == "struct" or depth == MAX_TYPE_TEXT_DEPTH:
        return False
    names = (ELEMENT,) if kind == "list" else (KEY, VALUE)
    return all(is_written_completely(column_type.get(name), depth + 1) for name in names)


def write_default(value: Any) -> str | None:
    """Return a default value as JSON text (`5`, `"EU"`, `true`), None if there is none."""
    return None if value is None else json.dumps(value, ensure_ascii=False)
