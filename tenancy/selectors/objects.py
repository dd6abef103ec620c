"""Objects of permission checks and grants: look-up by id, and their names in responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from icekeeper.kernel.errors.types import CatalogError, NotFound
from tenancy.models import Project, Role, Securable, TagDefinition
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import no_such_project, server_ref
from tenancy.selectors.roles import role_id_not_found, role_not_found
from tenancy.selectors.tags import tag_id_not_found


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object with the names that clients use for it.

    `warehouse_id` and `warehouse_name` are set for warehouses and for objects in them. `levels` are those of a
    namespace, or of the namespace of a tabular; `name` is set for all types but namespaces and the server. Objects of
    listed grants, and objects hidden from the reader of a review, have no names. `is_dropped` marks a soft-deleted
    object, which keeps its grants.
    """

    securable_type: Securable.Type
    object_id: str
    name: str | None = None
    warehouse_id: str | None = None
    warehouse_name: str | None = None
    levels: tuple[str, ...] = ()
    is_dropped: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """All names, the warehouse first; empty for the server."""
        names = (
            self.warehouse_name,
            *self.levels,
            None if self.securable_type is Securable.Type.WAREHOUSE else self.name,
        )
        return tuple(each for each in names if each is not None)

    def without_names(self) -> NamedObject:
        return replace(self, name=None, warehouse_name=None, levels=())


NameObjects = Callable[[Iterable[str]], Mapping[str, NamedObject]]
"""Returns the names of objects by securable id; see `catalog.objects.name_objects`."""


@dataclass(frozen=True, slots=True)
class PermissionTarget:
    """An object, and the error for callers from whom it is hidden."""

    ref: ObjectRef
    missing: CatalogError


def the_server() -> PermissionTarget:
    return PermissionTarget(server_ref(), NotFound("There is no server"))


def target_project(project: Project) -> PermissionTarget:
    return PermissionTarget(ObjectRef(Securable.Type.PROJECT, project.pk), no_such_project(project.pk))


def find_role_target(*, project: Project | None, role_id: UUID) -> PermissionTarget:
    """Return a role of `project`, or of any project. Raises `RoleNotFoundInProject` or `RoleIdNotFound` (404)."""
    rows = Role.objects.filter(pk=role_id)
    if project is None:
        missing: CatalogError = role_id_not_found(role_id)
    else:
        rows, missing = rows.filter(project=project), role_not_found(role_id, project)
    if not rows.exists():
        raise missing
    return PermissionTarget(ObjectRef(Securable.Type.ROLE, role_id), missing)


def find_tag_target(*, project: Project | None, definition_id: UUID) -> PermissionTarget:
    """Return a tag definition of `project`, or of any project. Raises `TagDefinitionIdNotFound` (404)."""
    rows = TagDefinition.objects.filter(pk=definition_id)
    rows = rows if project is None else rows.filter(project=project)
    missing = tag_id_not_found(definition_id, project)
    if not rows.exists():
        raise missing
    return PermissionTarget(ObjectRef(Securable.Type.TAG, definition_id), missing)
