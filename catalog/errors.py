"""Errors of the catalog. The texts are those that Iceberg's compatibility kit and its clients look for."""

from __future__ import annotations

from typing import Final

from catalog.identifiers import Identifier, Levels, dotted
from icekeeper.kernel.errors.types import (
    AlreadyExists,
    BadRequest,
    CatalogError,
    Conflict,
    InvalidLocation,
    NoSuchGenericTable,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    NotFound,
)

_NO_SUCH: Final[dict[str, type[NotFound]]] = {
    "namespace": NoSuchNamespace,
    "table": NoSuchTable,
    "view": NoSuchView,
    "generic-table": NoSuchGenericTable,
}


class PurgeRunning(Conflict):
    """A worker deletes the files of a dropped table."""

    wire_type = "PurgeRunning"


class LocationAlreadyTaken(Conflict):
    """Not final: a purge releases the location when it finishes."""

    wire_type, is_final = "LocationAlreadyTaken", False


class LocationNotEmpty(InvalidLocation):
    """Not final: the files may be those of the same request, which is in progress."""

    is_final = False


class Protected(Conflict):
    wire_type = "ProtectedTabularDeletionWithoutForce"


class NamespaceProtected(Conflict):
    wire_type = "NamespaceProtected"


class NamespaceChanged(Conflict):
    """The namespace has another version than the form that was filled from it."""

    wire_type, is_final = "NamespaceChanged", False


class PropertiesChanged(Conflict):
    """A property of a table or view has another value than the form that was filled from it."""

    wire_type, is_final = "PropertiesChanged", False


class PreviewOutdated(Conflict):
    """Something that a preview showed has changed: nothing was done."""

    wire_type, is_final = "PreviewOutdated", False


class ChildNamespaceProtected(Conflict):
    wire_type = "ChildNamespaceProtected"


class ChildTabularProtected(Conflict):
    wire_type = "ChildTabularProtected"


class NamespaceDeleteNotAllowed(BadRequest):
    wire_type = "NamespaceDeleteNotAllowed"


class NamespaceHasRunningTabularExpirations(Conflict):
    wire_type, is_final = "NamespaceHasRunningTabularExpirations", False


class TabularHasRunningExpiration(Conflict):
    wire_type, is_final = "TabularHasRunningExpiration", False


class WarehouseNotEmpty(Conflict):
    wire_type = "WarehouseNotEmpty"


class WarehouseHasUnfinishedTasks(Conflict):
    wire_type = "WarehouseHasUnfinishedTasks"


class WarehouseProtected(Conflict):
    wire_type = "WarehouseProtected"


class FormatVersionNotAllowed(BadRequest):
    wire_type = "FormatVersionNotAllowed"


class ReservedNamespace(BadRequest):
    wire_type = "ReservedNamespace"


class ColumnNotFound(NotFound):
    wire_type = "ColumnNotFound"


class NameTaken(AlreadyExists):
    """`kind` is what has the name: a table, a view or a generic table."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class GenericTableAlreadyExists(NameTaken):
    """Only for the creation and rename of a generic table, which clients of Iceberg tables never request."""

    wire_type = "GenericTableAlreadyExists"


def noun(kind: str) -> str:
    """Return the kind of a tabular as the first word of a sentence."""
    return kind.replace("-", " ").capitalize()


def no_such_namespace(levels: Levels) -> CatalogError:
    return no_such_object("namespace", dotted(levels))


def no_such_tabular(kind: str, identifier: Identifier) -> CatalogError:
    return no_such_object(kind, identifier)


def no_such_object(kind: str, named: object) -> CatalogError:
    """Return the "not found" error of a namespace, table, view or generic table, with the name or id that the caller
    used. A "forbidden" error of an existing object uses the same name."""
    error = _NO_SUCH[kind](f"{noun(kind)} does not exist: {named}")
    error.about = f"{kind} {named}"
    return error


def no_such_column(name: str, table_id: object) -> ColumnNotFound:
    return ColumnNotFound(f"The current schema of table {table_id} has no column {name[:200]!r}")


def location_taken(location: str) -> LocationAlreadyTaken:
    by = "another table or view, or by one that is staged"
    return LocationAlreadyTaken(f"Location is already taken by {by}: {location}")


def already_exists(kind: str, wanted: str, identifier: Identifier) -> NameTaken:
    """Return the error for a taken name: `kind` is that of the existing tabular, `wanted` that of the new one."""
    if kind == wanted:
        taken = GenericTableAlreadyExists if kind == "generic-table" else NameTaken
        return taken(f"{noun(kind)} already exists: {identifier}", kind=kind)
    return NameTaken(f"{noun(kind)} with same name already exists: {identifier}", kind=kind)
