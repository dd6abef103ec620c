"""Authorized reads of roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import F

from icekeeper.kernel.errors.types import CatalogError, NotFound
from icekeeper.kernel.http.paging import Page, build_page
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.errors import deny_as_missing
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import check_permissions, recheck_before_write, require_permission
from tenancy.authz.port import PermissionCheck
from tenancy.models import Project, Role, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.similarity import search


class RoleNotFoundInProject(NotFound):
    """The role does not exist, is hidden from the caller, or belongs to another project."""

    wire_type = "RoleNotFoundInProject"


class RoleIdNotFound(NotFound):
    """No project has a role with this id."""

    wire_type = "RoleIdNotFound"


@dataclass(frozen=True, slots=True)
class RoleFilter:
    """Filters of a listing; None does not restrict it."""

    ids: Sequence[UUID] | None = None
    provider_ids: Sequence[str] | None = None
    source_ids: Sequence[str] | None = None


def role_not_found(role_id: object, project: Project) -> RoleNotFoundInProject:
    return RoleNotFoundInProject(f"Role does not exist in project {project.pk}: {role_id}")


def role_id_not_found(role_id: object) -> RoleIdNotFound:
    return RoleIdNotFound(f"Role does not exist: {role_id}")


def get_role_for(*, actor: Actor, action: Can, project: Project, role_id: UUID) -> Role:
    """Return a role of the project. Raises `RoleNotFoundInProject` (404), also for a role of another project."""
    role = Role.objects.in_project(project).filter(pk=role_id).first()
    missing = role_not_found(role_id, project)
    if role is None:
        raise missing
    require_permission(actor, action, Securable.Type.ROLE, role_id, missing=missing)
    return role


def require_visible_roles(
    actor: Actor, project_id: str, role_ids: Sequence[UUID], *, missing: Callable[[UUID], CatalogError]
) -> None:
    """Require that `actor` may list the roles of the project, or manages each of these.

    This prevents nesting of roles that are hidden from the actor. Raises `missing` of the first hidden role. One
    request to the authorizer, a second one for actors who may not list roles.
    """
    if not role_ids:
        return
    epoch = permission_epoch.current()
    listing: PermissionCheck = (Can.LIST_ROLES, ObjectRef(Securable.Type.PROJECT, project_id))
    if check_permissions(actor, [listing])[0]:
        recheck_before_write(actor, [listing], epoch)
        return
    managing: list[PermissionCheck] = [
        (Can.MANAGE_ROLE_ASSIGNMENTS, ObjectRef(Securable.Type.ROLE, role_id)) for role_id in role_ids
    ]
    for role_id, is_managed in zip(role_ids, check_permissions(actor, managing), strict=True):
        if not is_managed:
            raise deny_as_missing(actor, Can.READ, ObjectRef(Securable.Type.ROLE, role_id), missing(role_id))
    recheck_before_write(actor, managing, epoch)


def get_role_of_any_project_for(*, actor: Actor, role_id: UUID) -> Role:
    """Return a role of any project, by its id. Raises `RoleIdNotFound` (404)."""
    role = Role.objects.filter(pk=role_id).first()
    if role is None:
        raise role_id_not_found(role_id)
    require_permission(actor, Can.READ_METADATA, Securable.Type.ROLE, role_id)
    return role


def list_roles_for(*, actor: Actor, project: Project, wanted: RoleFilter, page: Page) -> tuple[list[Role], str | None]:
    """Return the roles of a project in order of creation, and the next page token."""
    require_permission(actor, Can.LIST_ROLES, Securable.Type.PROJECT, project.pk)
    rows = Role.objects.in_project(project).filter(pk__gt=page.after_id())
    if wanted.ids is not None:
        rows = rows.filter(pk__in=wanted.ids)
    if wanted.provider_ids is not None:
        rows = rows.filter(provider_id__in=wanted.provider_ids)
    if wanted.source_ids is not None:
        rows = rows.filter(source_id__in=wanted.source_ids)
    found = list(rows.order_by("pk")[: page.sql_limit])
    return build_page([(role.pk, role) for role in found], page)


def search_roles_for(
    *, actor: Actor, project: Project, typed: str, provider_ids: Sequence[str] | None, page: Page
) -> tuple[list[Role], str | None]:
    """Return the roles of a project whose name matches a search text, best first, and the next page token."""
    require_permission(actor, Can.SEARCH_ROLES, Securable.Type.PROJECT, project.pk)
    rows = Role.objects.in_project(project)
    if provider_ids is not None:
        rows = rows.filter(provider_id__in=provider_ids)
    return search(rows, typed, texts=[F("name_key")], page=page)
