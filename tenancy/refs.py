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
