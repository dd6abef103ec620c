"""The names of the columns of a table or view, as the search reads them: bounded, in the spelling of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from catalog.iceberg.display.schema_fields import walk_fields
from icekeeper.kernel.names import name_key

MAX_COLUMNS: Final = 2_000
"""Fields of a schema that are read, in document order and at every depth."""
MAX_CHARACTERS: Final = 64_000
"""Full names of one schema together."""

SEPARATOR: Final = "\n"
_NOT_IN_NAMES: Final = {ord("\0"): "\ufffd", ord(SEPARATOR): " "}


class ColumnNames(NamedTuple):
    """Dotted full names, and the keys by which they are found, each between two separators.

    The names of these fields are those of the columns of `TabularColumns`.
    """

    names: str
    keys: str


def read_column_names(schema: dict[str, Any] | None) -> ColumnNames:
    """Return the names of the columns of a schema document and of their inner fields, as far as the limits allow.

    Elements of lists, keys and values of maps have no names of their own; fields inside of them have
    (`tags.element.name`).
    """
    names, left = list[str](), MAX_CHARACTERS
    for number, field in enumerate(walk_fields(schema or {})):
        left -= len(field.path) + 1
        if number == MAX_COLUMNS or left < 0:
            break
        if field.name and not field.is_inner:
            names.append(field.path.translate(_NOT_IN_NAMES))
    text = _join(names)
    return ColumnNames(text, name_key(text))


def find_columns(names: str, key: str, *, limit: int) -> Sequence[str]:
    """Return at most `limit` of the `names`: first those that have the `key` as full name or as last part of it.

    The others have it anywhere.
    """
    exact, inside = list[str](), list[str]()
    for name in names.strip(SEPARATOR).split(SEPARATOR):
        own = name_key(name)
        if own == key or own.endswith(f".{key}"):
            exact.append(name)
        elif key in own:
            inside.append(name)
    return [*exact, *inside][:limit]


def current_table_schema(metadata: dict[str, Any]) -> dict[str, Any] | None:
    """Return the current schema of table metadata."""
    return _find(metadata.get("schemas"), "schema-id", metadata.get("current-schema-id"))


def current_view_schema(metadata: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of the current version in view metadata."""
    version = _find(metadata.get("versions"), "version-id", metadata.get("current-version-id"))
    return None if version is None else _find(metadata.get("schemas"), "schema-id", version.get("schema-id"))


def changed_column_names(base: dict[str, Any], metadata: dict[str, Any], *, is_view: bool) -> ColumnNames | None:
    """Return the names of `metadata`, a new version of `base`; None if its current schema is that of `base`."""
    read = current_view_schema if is_view else current_table_schema
    before, after = read(base), read(metadata)
    return None if before is after or before == after else read_column_names(after)


def _find(documents: Any, key: str, wanted: Any) -> dict[str, Any] | None:
    # The current one is mostly the last.
    return next((each for each in reversed(documents or ()) if each.get(key) == wanted), None)


def _join(names: Sequence[str]) -> str:
    return f"{SEPARATOR}{SEPARATOR.join(names)}{SEPARATOR}" if names else ""
