"""Versions of a view as documents: validation and comparison.

Java: `ViewVersionParser`, `ViewRepresentationParser`, and the checks of `ViewMetadata.Builder`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from catalog.iceberg.json_fields import (
    as_object,
    as_string_map,
    clip,
    field_path,
    optional_string,
    read_int,
    read_list,
    read_long,
    read_string,
    read_string_list,
    required,
    without_nulls,
)
from catalog.iceberg.types import SQL
from icekeeper.kernel.errors.types import BadRequest, EmptyView, IllegalArgument


def check_view_version(version: dict[str, Any], where: str) -> int:
    """Check one version document as Java reads it and give its id.

    A representation of a type other than SQL may hold anything. Raises `BadRequest` naming the field.
    """
    read_int(version, "schema-id", where)
    read_long(version, "timestamp-ms", where)
    as_string_map(required(version, "summary", where), field_path(where, "summary"))
    optional_string(version, "default-catalog", where)
    for index, level in enumerate(read_string_list(version, "default-namespace", where)):
        if "\0" in level:
            path = f"{field_path(where, 'default-namespace')}[{index}]"
            raise BadRequest(f"{path}: Cannot create a namespace with the null-byte character")
    for index, entry in enumerate(read_list(version, "representations", where)):
        path = f"{field_path(where, 'representations')}[{index}]"
        representation = as_object(entry, path)
        if read_string(representation, "type", path).lower() == SQL:
            read_string(representation, "sql", path)
            read_string(representation, "dialect", path)
    return read_int(version, "version-id", where)


def read_new_version(document: dict[str, Any], where: str) -> dict[str, Any]:
    """A version that a client adds, in its canonical form: no null catalog, the type of a representation in lower case.

    It has at least one representation, all of them SQL, as Java writes no others, and one text for each dialect. Raises
    `BadRequest` naming the field, `EmptyView` and `IllegalArgument` for those two.
    """
    version = without_nulls(document, ("default-catalog",))
    check_view_version(version, where)
    if not version["representations"]:
        raise EmptyView(f"{field_path(where, 'representations')}: View must have at least one representation")
    version["representations"] = [
        entry if entry["type"] == SQL else {**entry, "type": entry["type"].lower()}
        for entry in version["representations"]
    ]
    unsupported = sorted({entry["type"] for entry in version["representations"]} - {SQL})
    if unsupported:
        listed = clip(", ".join(unsupported))
        raise BadRequest(f"{field_path(where, 'representations')}: Found unsupported view representations: [{listed}]")
    seen: set[str] = set()
    for dialect in _dialects(version):
        if dialect in seen:
            raise IllegalArgument(f"Invalid view version: Cannot add multiple queries for dialect {clip(dialect)}")
        seen.add(dialect)
    return version


def version_identity(version: dict[str, Any]) -> Hashable:
    """Return the value by which versions of a view are compared, without ids and times."""
    return (
        version["schema-id"],
        frozenset(version["summary"].items()),
        tuple(_representation_identity(entry) for entry in version["representations"]),
        version.get("default-catalog"),
        tuple(version["default-namespace"]),
    )


def sql_dialects(version: dict[str, Any]) -> set[str]:
    """Return the dialects of a version in lower case: engines compare them case-insensitively."""
    return set(_dialects(version))


def check_dialects_kept(previous: dict[str, Any], version: dict[str, Any]) -> None:
    """Raises `BadRequest` for a version without a dialect of the previous one: an engine would lose the view."""
    before, after = sql_dialects(previous), sql_dialects(version)
    if not before <= after:
        raise BadRequest(
            "Cannot replace view due to loss of view dialects (replace.drop-dialect.allowed=false):\n"
            f"Previous dialects: [{_joined(before)}]\nNew dialects: [{_joined(after)}]"
        )


def check_version_log_entry(entry: dict[str, Any], where: str) -> int:
    """Validate a `version-log` entry and return its version."""
    read_long(entry, "timestamp-ms", where)
    return read_int(entry, "version-id", where)


def _dialects(version: dict[str, Any]) -> Iterator[str]:
    return (entry["dialect"].lower() for entry in version["representations"] if entry["type"].lower() == SQL)


def _representation_identity(entry: dict[str, Any]) -> Hashable:
    kind = entry["type"].lower()
    return (kind, entry["sql"], entry["dialect"]) if kind == SQL else (kind,)


def _joined(dialects: set[str]) -> str:
    return clip(", ".join(sorted(dialects)))
