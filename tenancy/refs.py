"""`ObjectRef`: the object that a permission is checked on, a privilege is granted on, or a tag is attached to."""

from __future__ import annotations

from typing import NamedTuple

from tenancy.models import Securable


class ObjectRef(NamedTuple):
    """Two references are equal when they refer to the same object, however a caller named it.

    How the caller named the object is not a part of it: error messages take that from `CatalogError.about`.
    """

    type: Securable.Type
    id: object


def securable_id(securable_type: Securable.Type, object_id: object) -> str:
    """Return the primary key of the object's row in `Securable`: `TYPE:ID`."""
    return f"{securable_type.value}:{object_id}"


def parse_securable_id(own_id: str) -> ObjectRef:
    """Return the object of a primary key of `Securable`."""
    kind, _, object_id = own_id.partition(":")
    return ObjectRef(Securable.Type(kind), object_id)


def project_in(path: str) -> str | None:
    """Return the project id in a path of `Securable`, None for the server; project ids contain no slash."""
    return next((part.removeprefix("project:") for part in path.split("/") if part.startswith("project:")), None)
