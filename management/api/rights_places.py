"""The objects that rights are granted on, as the routes of actions and of grants address them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from catalog.errors import no_such_object
from catalog.objects.object_keys import ObjectKey
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementView
from management.api.schema import (
    MISSING_OBJECTS,
    NO_ROLE,
    NO_USER,
    NO_WAREHOUSE,
    PROJECT_ERRORS,
    ROLE_ID,
    TAG_ID,
    USER_ID,
    WAREHOUSE_ID,
)
from tenancy.models import Securable

T = Securable.Type


@dataclass(frozen=True, slots=True)
class Described:
    """What the OpenAPI document says of the routes to objects of one type."""

    noun: str
    """With its article."""
    word: str
    """In the ids of operations."""
    shape: str
    """What names of shapes begin with."""
    parameters: list[OpenApiParameter]
    missing: str | None
    """The types of the 404."""

    def refusals(self, *bad: str, missing: str | None = None) -> dict[int, str]:
        """By status, with those of an operation itself."""
        texts = {400: ", ".join(bad), 404: ", ".join(each for each in (self.missing, missing) if each)}
        return {status: text for status, text in texts.items() if text}


def _id(name: str, noun: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.UUID, OpenApiParameter.PATH, description=f"The {noun}'s id")


def _in_warehouse(kind: Securable.Type, shape: str) -> Described:
    noun, word = kind.value.replace("-", " "), kind.value.replace("-", "_")
    parameters = [WAREHOUSE_ID, _id(f"{word}_id", noun)]
    return Described(f"a {noun}", word, shape, parameters, f"{MISSING_OBJECTS[kind]}, {NO_WAREHOUSE}")


DESCRIBED: Final[Mapping[Securable.Type, Described]] = {
    T.SERVER: Described("the server", "server", "Server", [], None),
    T.PROJECT: Described("a project", "project", "Project", [], PROJECT_ERRORS[404]),
    T.WAREHOUSE: Described("a warehouse", "warehouse", "Warehouse", [WAREHOUSE_ID], NO_WAREHOUSE),
    T.NAMESPACE: _in_warehouse(T.NAMESPACE, "Namespace"),
    T.TABLE: _in_warehouse(T.TABLE, "Table"),
    T.VIEW: _in_warehouse(T.VIEW, "View"),
    T.GENERIC_TABLE: _in_warehouse(T.GENERIC_TABLE, "GenericTable"),
    T.TAG: Described("a tag definition", "tag", "Tag", [TAG_ID], "`TagDefinitionIdNotFound`"),
    T.ROLE: Described("a role", "role", "Role", [ROLE_ID], NO_ROLE),
    T.USER: Described("a user", "user", "User", [USER_ID], NO_USER),
}


class RightsView(ManagementView):
    """What is below the address of objects of the type `kind`."""

    kind: ClassVar[Securable.Type]

    def id_in_path(self, name: str, missing: Callable[[str], CatalogError]) -> UUID:
        """The id at the place `name` of the path. Raises what `missing` makes of a text that is none."""
        text = decode_segment(self.kwargs[name])
        parsed = parse_id(text)
        if parsed is None:
            raise missing(text[:100])
        return parsed

    def object_key(self) -> ObjectKey:
        """Of what is in a warehouse, or of that."""
        if self.kind is T.WAREHOUSE:
            return ObjectKey(T.WAREHOUSE, self.warehouse_id)
        warehouse_id, kind = self.warehouse_id, self.kind.value
        object_id = self.id_in_path(f"{kind.replace('-', '_')}_id", lambda text: no_such_object(kind, text))
        return ObjectKey(self.kind, warehouse_id, object_id)
