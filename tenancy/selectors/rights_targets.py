"""Look-up of objects by their addresses, for questions about rights on them.

No permission is checked here. A `RightsTarget` has the error that hides its object from callers who may not see it.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from icekeeper.kernel.errors.types import CatalogError, NotFound
from tenancy.actor import Actor
from tenancy.models import Project, Role, Securable, TagDefinition
from tenancy.refs import ObjectRef
from tenancy.selectors.projects import no_such_project
from tenancy.selectors.roles import role_id_not_found, role_not_found
from tenancy.selectors.server import get_server
from tenancy.selectors.tag_definitions import tag_id_not_found


@dataclass(frozen=True, slots=True)
class RightsTarget:
    """An object, and the error for callers from whom it is hidden."""

    ref: ObjectRef
    missing: CatalogError


def the_server() -> RightsTarget:
    return RightsTarget(ObjectRef(Securable.Type.SERVER, get_server().server_id), NotFound("There is no server"))


def target_project(project: Project) -> RightsTarget:
    return RightsTarget(ObjectRef(Securable.Type.PROJECT, project.pk), no_such_project(project.pk))


def find_role_target(*, actor: Actor, project: Project | None, role_id: UUID) -> RightsTarget:
    """A role; with `project` one of that. Raises `RoleNotFoundInProject`, without `RoleIdNotFound` (404)."""
    rows = Role.objects.filter(pk=role_id)
    if project is None:
        missing: CatalogError = role_id_not_found(role_id)
    else:
        rows, missing = rows.filter(project=project), role_not_found(role_id, project)
    ref = ObjectRef(Securable.Type.ROLE, role_id) if rows.exists() else None
    return require_found(ref, missing)


def find_tag_target(*, actor: Actor, project: Project | None, definition_id: UUID) -> RightsTarget:
    """A tag definition; with `project` one of that. Raises `TagDefinitionIdNotFound` (404)."""
    rows = TagDefinition.objects.filter(pk=definition_id)
    rows = rows if project is None else rows.filter(project=project)
    ref = ObjectRef(Securable.Type.TAG, definition_id) if rows.exists() else None
    return require_found(ref, tag_id_not_found(definition_id, project))


def require_found(ref: ObjectRef | None, missing: CatalogError) -> RightsTarget:
    """Return `ref` with the error that hides it. Raises `missing` for None."""
    if ref is None:
        raise missing
    return RightsTarget(ref, missing)
