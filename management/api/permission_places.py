"""The objects that rights hang on, as the routes below `permissions` address them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from catalog.errors import no_such_id
from catalog.selectors.addressed import Address, find_addressed, find_namespace
from icekeeper.kernel.errors import CatalogError, NotFound
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.raw_path import decode_segment
from management.api.base import NO_WAREHOUSE, PROJECT_HEADER, PROJECT_REFUSALS, WAREHOUSE_ID, ManagementView
from management.api.projects import PROJECT_ID
from management.api.protection import MISSING
from management.api.roles import ROLE_ID
from tenancy.actor import Actor
from tenancy.authz.actions import SEEN_BY
from tenancy.authz.port import nothing_there
from tenancy.authz.securables import Ref
from tenancy.models import Securable
from tenancy.selectors.projects import require_project_id
from tenancy.selectors.roles import role_id_not_found
from tenancy.selectors.securables import is_securable
from tenancy.selectors.server import get_server
from tenancy.selectors.tag_definitions import TagDefinitionIdNotFound

T = Securable.Type
TAGS = ["permission"]


@dataclass(frozen=True, slots=True)
class Place:
    """An object, and what is answered to who may not know that there is one."""

    ref: Ref
    missing: CatalogError


@dataclass(frozen=True, slots=True)
class Described:
    """What the OpenAPI document says of the routes to objects of one type."""

    noun: str
    shape: str
    """What names of shapes begin with."""
    parameters: list[OpenApiParameter]
    missing: str | None
    """The types of the 404."""

    def refusals(self, *bad: str, missing: str | None = None) -> dict[int, str]:
        """By status, with those of an operation itself."""
        texts = {400: ", ".join(bad), 404: ", ".join(each for each in (self.missing, missing) if each)}
        return {status: text for status, text in texts.items() if text}


def _in_warehouse(kind: Securable.Type, shape: str) -> Described:
    noun, word = kind.value.replace("-", " "), kind.value.replace("-", "_")
    return Described(
        f"a {noun}", shape, [WAREHOUSE_ID, _id(f"{word}_id", noun)], f"{MISSING[kind.value]}, {NO_WAREHOUSE}"
    )


def _id(name: str, noun: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.UUID, OpenApiParameter.PATH, description=f"The {noun}'s id")


DESCRIBED: Final[Mapping[Securable.Type, Described]] = {
    T.SERVER: Described("the server", "Server", [], None),
    T.PROJECT: Described("a project", "Project", [PROJECT_HEADER], PROJECT_REFUSALS[404]),
    T.WAREHOUSE: Described("a warehouse", "Warehouse", [WAREHOUSE_ID], NO_WAREHOUSE),
    T.NAMESPACE: Described("a namespace", "Namespace", [_id("namespace_id", "namespace")], MISSING["namespace"]),
    T.TABLE: _in_warehouse(T.TABLE, "Table"),
    T.VIEW: _in_warehouse(T.VIEW, "View"),
    T.GENERIC_TABLE: _in_warehouse(T.GENERIC_TABLE, "GenericTable"),
    T.ROLE: Described("a role", "Role", [ROLE_ID], "`RoleIdNotFound`"),
    T.TAG: Described("a tag", "Tag", [_id("tag_definition_id", "tag definition")], "`TagDefinitionIdNotFound`"),
}
PROJECT_BY_ID: Final = Described("a project", "Project", [PROJECT_ID], PROJECT_REFUSALS[404])


class PermissionView(ManagementView):
    """What is below the address of an object with rights of its own; `kind` is its type."""

    kind: ClassVar[Securable.Type]

    def place(self) -> Place:
        """The object of the path. Raises the 404 of its type; who may not see it gets the same from what follows."""
        found, missing = _FINDING[self.kind](self)
        if found is None:
            raise found_nothing(self.actor, self.kind, missing)
        return Place(found, missing)

    def id_of(self, name: str, missing: Callable[[object], CatalogError]) -> UUID:
        """The id in the path's place `name`; raises what `missing` makes of a text that is none."""
        text = decode_segment(self.kwargs[name])
        parsed = parse_id(text)
        if parsed is None:
            raise missing(text[:100])
        return parsed


def found_nothing(actor: Actor, kind: Securable.Type, missing: CatalogError) -> CatalogError:
    """`missing`, as late as it comes where something is hidden."""
    return nothing_there(actor, kind, missing) if kind in SEEN_BY else missing


def the_server() -> Place:
    return Place((T.SERVER, get_server().server_id), NotFound("There is no server"))


def _find_server(view: PermissionView) -> tuple[Ref | None, CatalogError]:
    place = the_server()
    return place.ref, place.missing


def _find_project(view: PermissionView) -> tuple[Ref | None, CatalogError]:
    named = view.kwargs.get("project_id")
    project = view.project(None if named is None else require_project_id(decode_segment(named)))
    return (T.PROJECT, project.pk), NotFound("There is no such project")


def _find_namespace(view: PermissionView) -> tuple[Ref | None, CatalogError]:
    def missing(text: object) -> CatalogError:
        return no_such_id("namespace", text)

    namespace_id = view.id_of("namespace_id", missing)
    return find_namespace(namespace_id), missing(namespace_id)


def _find_in_warehouse(view: PermissionView) -> tuple[Ref | None, CatalogError]:
    warehouse_id, object_id = view.warehouse_id, None
    if view.kind is not T.WAREHOUSE:
        place = f"{view.kind.value.replace('-', '_')}_id"
        object_id = view.id_of(place, lambda text: no_such_id(view.kind.value, text))
    address = Address(view.kind, warehouse_id, object_id)
    return find_addressed(address), address.missing()


def _find_role(view: PermissionView) -> tuple[Ref | None, CatalogError]:
    return _by_id(T.ROLE, view.id_of("role_id", role_id_not_found), role_id_not_found)


def _find_tag(view: PermissionView) -> tuple[Ref | None, CatalogError]:
    def missing(text: object) -> CatalogError:
        return TagDefinitionIdNotFound(f"Tag definition does not exist: {text}")

    return _by_id(T.TAG, view.id_of("tag_definition_id", missing), missing)


def _by_id(
    kind: Securable.Type, object_id: UUID, missing: Callable[[object], CatalogError]
) -> tuple[Ref | None, CatalogError]:
    ref = (kind, object_id)
    return ref if is_securable(ref) else None, missing(object_id)


_FINDING: Final[Mapping[Securable.Type, Callable[[PermissionView], tuple[Ref | None, CatalogError]]]] = {
    T.SERVER: _find_server,
    T.PROJECT: _find_project,
    T.WAREHOUSE: _find_in_warehouse,
    T.NAMESPACE: _find_namespace,
    T.TABLE: _find_in_warehouse,
    T.VIEW: _find_in_warehouse,
    T.GENERIC_TABLE: _find_in_warehouse,
    T.ROLE: _find_role,
    T.TAG: _find_tag,
}
