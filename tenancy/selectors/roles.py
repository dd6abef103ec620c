"""Authorised reads of roles, their members, and the roles of a user or role, direct and transitive.

Owners of a role are members of it. Expired memberships and grants do not count. A transitive listing is one recursive
statement, which follows each role once and so ends also on a cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import F

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from icekeeper.kernel.errors.types import CatalogError, InvalidPageToken, NotFound
from icekeeper.kernel.http.paging import MIN_ID, Page, build_page
from icekeeper.kernel.ids import parse_id
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import check_permissions, deny_as_missing, recheck_before_write, require_permission
from tenancy.authz.port import PermissionCheck
from tenancy.authz.role_paths import Entry
from tenancy.models import Project, Role, Securable
from tenancy.models.role import ident_of
from tenancy.models.securable import ObjectRef
from tenancy.selectors.similarity import search
from tenancy.selectors.users import get_user_for


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


def find_roles_of_projects_for(
    *, actor: Actor, projects: Sequence[Project], typed: str, limit: int
) -> tuple[list[Role], bool]:
    """Return the best `limit` roles of some projects whose name matches a search text, and whether more match.

    The text may also be the id of a role. Roles are read with their projects; projects in which `actor` is not allowed
    to search (by id: to list) roles are left out. The number of statements does not depend on that of the projects.
    """
    role_id = parse_id(typed)
    action = Can.SEARCH_ROLES if role_id is None else Can.LIST_ROLES
    checks: list[PermissionCheck] = [(action, ObjectRef(Securable.Type.PROJECT, each.pk)) for each in projects]
    allowed = check_permissions(actor, checks) if checks else []
    searched = [each.pk for each, is_searched in zip(projects, allowed, strict=True) if is_searched]
    if not searched:
        return [], False
    rows = Role.objects.filter(project_id__in=searched).select_related("project")
    if role_id is not None:
        return list(rows.filter(pk=role_id)), False
    found, token = search(rows, typed, texts=[F("name_key")], page=Page("roles of projects", None, limit))
    return found, token is not None


MemberKind = Literal["user", "role"]

_LASTS = "(m.expires_at IS NULL OR m.expires_at > %s)"
_OWNER_LASTS = "(o.expires_at IS NULL OR o.expires_at > %s)"

# Owners that are also members are listed as members.
_ONLY_OWNS = f"""NOT EXISTS (SELECT 1 FROM tenancy_rolemember m
                       WHERE m.role_id = o.owned_role_id AND m.user_id = o.user_id AND {_LASTS})
   AND NOT EXISTS (SELECT 1 FROM tenancy_rolemember m
                    WHERE m.role_id = o.owned_role_id AND m.member_role_id = o.role_id AND {_LASTS})"""  # noqa: S608

_INSIDE = f"""(
    SELECT m.role_id AS outer_id, m.member_role_id AS inner_id FROM tenancy_rolemember m
     WHERE m.member_role_id IS NOT NULL AND {_LASTS}
    UNION ALL
    SELECT o.owned_role_id, o.role_id FROM tenancy_grant o
     WHERE o.owned_role_id IS NOT NULL AND o.role_id IS NOT NULL AND {_OWNER_LASTS}
)"""  # noqa: S608

# `role_id` is part of the order and of both bounds, so that the planner uses the index in that order. For
# `role_id = ... ORDER BY id` it may scan the memberships of all roles by primary key.
_MEMBERS = f"""
SELECT e.id, e.entry, CASE WHEN e.user_id IS NULL THEN 'role' ELSE 'user' END, e.member_role_id, e.user_id,
       COALESCE(u.name, r.name), r.provider_id, r.source_id, u.email, u.user_type, u.origin, e.expires_at
  FROM (
    SELECT * FROM (
        SELECT m.id, 'member' AS entry, m.user_id, m.member_role_id, m.expires_at FROM tenancy_rolemember m
         WHERE (m.role_id, m.id) > (%s, %s) AND m.role_id <= %s AND {_LASTS} {{members}}
         ORDER BY m.role_id, m.id LIMIT %s
    ) joined
    UNION ALL
    SELECT * FROM (
        SELECT o.id, 'owner', o.user_id, o.role_id, o.expires_at FROM tenancy_grant o
         WHERE o.owned_role_id = %s AND o.id > %s AND {_OWNER_LASTS} AND {_ONLY_OWNS} {{owners}}
         ORDER BY o.id LIMIT %s
    ) owning
  ) e
  LEFT JOIN tenancy_user u ON u.id = e.user_id
  LEFT JOIN tenancy_role r ON r.id = e.member_role_id
 ORDER BY e.id LIMIT %s
"""  # noqa: S608
_MEMBERS_OF: dict[MemberKind | None, str] = {
    None: _MEMBERS.format(members="", owners=""),
    "user": _MEMBERS.format(members="AND m.user_id IS NOT NULL", owners="AND o.user_id IS NOT NULL"),
    "role": _MEMBERS.format(members="AND m.member_role_id IS NOT NULL", owners="AND o.role_id IS NOT NULL"),
}


def _direct_roles(member: str, owner: str) -> str:
    """Return the statement for the roles that a user or role is directly in; both are columns that refer to it."""
    return f"""
SELECT e.id, r.id, r.provider_id, r.source_id, r.name, e.entry
  FROM (
    SELECT * FROM (
        SELECT m.id, 'member' AS entry, m.role_id
          FROM tenancy_rolemember m JOIN tenancy_role r ON r.id = m.role_id
         WHERE (m.{member}, m.id) > (%s, %s) AND m.{member} <= %s AND r.project_id = %s AND {_LASTS}
         ORDER BY m.{member}, m.id LIMIT %s
    ) joined
    UNION ALL
    SELECT * FROM (
        SELECT o.id, 'owner', o.owned_role_id
          FROM tenancy_grant o JOIN tenancy_role r ON r.id = o.owned_role_id
         WHERE o.{owner} = %s AND o.owned_role_id IS NOT NULL AND o.id > %s AND r.project_id = %s
           AND {_OWNER_LASTS} AND {_ONLY_OWNS}
         ORDER BY o.id LIMIT %s
    ) owning
  ) e JOIN tenancy_role r ON r.id = e.role_id
 ORDER BY e.id LIMIT %s
"""  # noqa: S608


_ROLES_OF_ROLE = _direct_roles("member_role_id", "role_id")
_ROLES_OF_USER = _direct_roles("user_id", "user_id")

_ALL_MEMBERS = f"""
WITH RECURSIVE below(id) AS (
    SELECT id FROM tenancy_role WHERE id = %s
    UNION
    SELECT inside.inner_id FROM below JOIN {_INSIDE} AS inside ON inside.outer_id = below.id
), assigned_role(id) AS (
    SELECT m.member_role_id FROM tenancy_rolemember m
     WHERE m.member_role_id IS NOT NULL AND m.role_id IN (SELECT id FROM below) AND {_LASTS}
), assigned_user(id) AS (
    SELECT m.user_id FROM tenancy_rolemember m
     WHERE m.user_id IS NOT NULL AND m.role_id IN (SELECT id FROM below) AND {_LASTS}
), owner(id) AS (
    SELECT o.user_id FROM tenancy_grant o
     WHERE o.user_id IS NOT NULL AND o.owned_role_id IN (SELECT id FROM below) AND {_OWNER_LASTS}
)
SELECT entry, kind, role_id, user_id, name, provider_id, source_id, email, user_type, origin, NULL FROM (
    SELECT CASE WHEN r.id IN (SELECT id FROM assigned_role) THEN 'member' ELSE 'owner' END AS entry,
           'role' AS kind, r.id AS role_id, NULL AS user_id, r.name, r.provider_id, r.source_id,
           NULL AS email, NULL AS user_type, NULL AS origin
      FROM tenancy_role r
     WHERE %s AND r.id > %s AND r.id <> %s AND r.id IN (SELECT id FROM below)
    UNION ALL
    SELECT CASE WHEN u.id IN (SELECT id FROM assigned_user) THEN 'member' ELSE 'owner' END,
           'user', NULL, u.id, u.name, NULL, NULL, u.email, u.user_type, u.origin
      FROM tenancy_user u
     WHERE %s AND u.id > %s AND u.id IN (SELECT id FROM assigned_user UNION ALL SELECT id FROM owner)
) found
 ORDER BY kind, role_id, user_id LIMIT %s
"""  # noqa: S608

_ROLES_ABOVE = """SELECT r.id, r.id, r.provider_id, r.source_id, r.name,
       CASE WHEN r.id IN (SELECT id FROM assigned) THEN 'member' ELSE 'owner' END
  FROM tenancy_role r
 WHERE r.id IN (SELECT id FROM above) AND r.project_id = %s AND r.id > %s"""

_ALL_ROLES_OF_ROLE = f"""
WITH RECURSIVE above(id) AS (
    SELECT id FROM tenancy_role WHERE id = %s
    UNION
    SELECT inside.outer_id FROM above JOIN {_INSIDE} AS inside ON inside.inner_id = above.id
), assigned(id) AS (
    SELECT m.role_id FROM tenancy_rolemember m WHERE m.member_role_id IN (SELECT id FROM above) AND {_LASTS}
)
{_ROLES_ABOVE} AND r.id <> %s
 ORDER BY r.id LIMIT %s
"""  # noqa: S608

_ALL_ROLES_OF_USER = f"""
WITH RECURSIVE joined(id) AS (
    SELECT m.role_id FROM tenancy_rolemember m JOIN tenancy_role r ON r.id = m.role_id
     WHERE m.user_id = %s AND r.project_id = %s AND {_LASTS}
), owned(id) AS (
    SELECT o.owned_role_id FROM tenancy_grant o JOIN tenancy_role r ON r.id = o.owned_role_id
     WHERE o.user_id = %s AND r.project_id = %s AND {_OWNER_LASTS}
), above(id) AS (
    SELECT id FROM (SELECT id FROM joined UNION ALL SELECT id FROM owned) AS direct
    UNION
    SELECT inside.outer_id FROM above JOIN {_INSIDE} AS inside ON inside.inner_id = above.id
), assigned(id) AS (
    SELECT id FROM joined
    UNION ALL
    SELECT m.role_id FROM tenancy_rolemember m WHERE m.member_role_id IN (SELECT id FROM above) AND {_LASTS}
)
{_ROLES_ABOVE}
 ORDER BY r.id LIMIT %s
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Member:
    """A user or a role in a role. Only roles have `ident`, only users `email`, `user_type` and `origin`.

    `entry` is `owner` for members by ownership alone. `expires_at` is the end of a direct membership or ownership.
    """

    kind: MemberKind
    id: str
    name: str
    entry: Entry
    ident: str | None = None
    email: str | None = None
    user_type: str | None = None
    origin: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ListedRole:
    """A role of a user or role; `entry` is `owner` for a member by ownership only."""

    id: UUID
    ident: str
    name: str
    entry: Entry


def list_members_for(
    *, actor: Actor, project: Project, role_id: UUID, kind: MemberKind | None, page: Page
) -> tuple[list[Member], str | None]:
    """Return the direct members of a role, of one kind or both, in the order in which they joined."""
    get_role_for(actor=actor, action=Can.READ_ROLE_ASSIGNMENTS, project=project, role_id=role_id)
    at, after, limit = now(), page.after_id(), page.sql_limit
    params = [role_id, after, role_id, at, limit, role_id, after, *[at] * 3, limit, limit]
    rows = fetch_all("default", _MEMBERS_OF[kind], params)
    return build_page([(as_uuid(membership_id), _member(row)) for membership_id, *row in rows], page)


def list_transitive_members_for(
    *, actor: Actor, project: Project, role_id: UUID, kind: MemberKind | None, page: Page
) -> tuple[list[Member], str | None]:
    """Return all members of a role, direct or through other roles: first roles, then users."""
    require_permission(actor, Can.LIST_ROLES, Securable.Type.PROJECT, project.pk)
    _require_role(project, role_id)
    after_role, after_user = _parse_cursor(page)
    roles = [kind != "user" and after_role is not None, after_role or MIN_ID, role_id]
    users, at = [kind != "role", after_user], now()
    rows = fetch_all("default", _ALL_MEMBERS, [role_id, *[at] * 5, *roles, *users, page.sql_limit])
    found = [_member(row) for row in rows]
    return build_page([(f"{member.kind} {member.id}", member) for member in found], page)


def list_roles_above_role_for(
    *, actor: Actor, project: Project, role_id: UUID, page: Page
) -> tuple[list[ListedRole], str | None]:
    """Return the roles of the project that a role is directly in, in the order in which it joined.

    A role may own roles of other projects, which are listed for those projects.
    """
    get_role_for(actor=actor, action=Can.READ_ROLE_ASSIGNMENTS, project=project, role_id=role_id)
    return _read_direct_roles(page, _ROLES_OF_ROLE, role_id, project)


def list_all_roles_above_role_for(
    *, actor: Actor, project: Project, role_id: UUID, page: Page
) -> tuple[list[ListedRole], str | None]:
    """Return the roles of the project that a role is in, directly or through others, in order of creation."""
    require_permission(actor, Can.LIST_ROLES, Securable.Type.PROJECT, project.pk)
    _require_role(project, role_id)
    at = now()
    return _read_roles(page, _ALL_ROLES_OF_ROLE, [role_id, *[at] * 3, project.pk, page.after_id(), role_id])


def list_roles_of_user_for(
    *, actor: Actor, project: Project, user_id: str, page: Page
) -> tuple[list[ListedRole], str | None]:
    """Return the roles of a project that a user is directly in, in the order in which they joined."""
    get_user_for(actor=actor, action=Can.READ_ROLE_ASSIGNMENTS, user_id=user_id)
    return _read_direct_roles(page, _ROLES_OF_USER, user_id, project)


def list_all_roles_of_user_for(
    *, actor: Actor, project: Project, user_id: str, page: Page
) -> tuple[list[ListedRole], str | None]:
    """Return the roles of a project that a user is in, directly or through others, in order of creation."""
    get_user_for(actor=actor, action=Can.READ_ROLE_ASSIGNMENTS, user_id=user_id)
    at = now()
    direct = [user_id, project.pk, at]
    return _read_roles(page, _ALL_ROLES_OF_USER, [*direct, *direct, *[at] * 3, project.pk, page.after_id()])


def _require_role(project: Project, role_id: UUID) -> None:
    if not project.roles.filter(pk=role_id).exists():
        raise role_not_found(role_id, project)


def _read_direct_roles(
    page: Page, statement: str, member: object, project: Project
) -> tuple[list[ListedRole], str | None]:
    at, after, limit = now(), page.after_id(), page.sql_limit
    joined = [member, after, member, project.pk, at, limit]
    return _read_roles(page, statement, [*joined, member, after, project.pk, *[at] * 3, limit])


def _read_roles(page: Page, statement: str, params: list[Any]) -> tuple[list[ListedRole], str | None]:
    rows = fetch_all("default", statement, [*params, page.sql_limit])
    roles = [
        (as_uuid(key), ListedRole(as_uuid(role_id), ident_of(provider, source), name, Entry(entry)))
        for key, role_id, provider, source, name, entry in rows
    ]
    return build_page(roles, page)


def _parse_cursor(page: Page) -> tuple[UUID | None, str]:
    """Return the role and the user after which the page starts; no role if only users follow."""
    key = page.after_key()
    if not key:
        return MIN_ID, ""
    kind, _, member = key.partition(" ")
    if kind == "user":
        return None, member
    role_id = parse_id(member) if kind == "role" else None
    if role_id is None:
        raise InvalidPageToken("Invalid page token")
    return role_id, ""


def _member(row: Sequence[Any]) -> Member:
    entry, kind, role_id, user_id, name, provider, source, email, user_type, origin, ends = row
    how, expires_at = Entry(entry), None if ends is None else as_datetime(ends)
    if kind == "user":
        attributes = {"email": email, "user_type": user_type, "origin": origin}
        return Member("user", user_id, name, how, **attributes, expires_at=expires_at)
    return Member("role", str(as_uuid(role_id)), name, how, ident=ident_of(provider, source), expires_at=expires_at)
