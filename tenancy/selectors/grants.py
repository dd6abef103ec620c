"""Reads of grants on an object or of a principal, of grantable privileges, and of managed access."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from typing import Final, TypeVar
from uuid import UUID

from django.db.models import Model, Q, Value
from django.db.models.functions import StrIndex, Substr

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page, build_page
from tenancy.actor import Actor, Grantee, acting_as
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import ASSIGNEE, SEEN_BY, Can, Privilege, grant_action, privileges_on, reads_grants
from tenancy.authz.permissions import (
    GrantActionForbidden,
    check_permissions,
    deny_as_missing,
    require_not_hidden,
    require_permission,
)
from tenancy.authz.port import PermissionCheck
from tenancy.models import Grant, Project, RoleMember, Securable
from tenancy.models.querysets import ExpiringQuerySet
from tenancy.models.securable import ObjectRef, parse_securable_id, securable_id
from tenancy.selectors.objects import PermissionTarget, target_project
from tenancy.selectors.permission_checks import check_subject

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class ListedGrant:
    """A privilege of a grantee on an object, until `expires_at` if that is set.

    `granted_by` is the actor who granted it, as in the audit trail; None where that was not recorded.
    """

    privilege: str
    grantee: Grantee
    created_at: datetime
    expires_at: datetime | None
    granted_by: str | None = None


@dataclass(frozen=True, slots=True)
class GrantFilter:
    """Filter of a listing; None does not restrict it, nor does an empty text.

    `text` is in the name, the id or the email address of the user, or in the name of the role.
    """

    privileges: Collection[str] | None = None
    grantee: Grantee | None = None
    text: str = ""
    expires_before: datetime | None = None

    def condition(self, role_field: str = "role") -> Q:
        """Return the condition on rows, except on the privileges; `role_field` is the role that is the grantee."""
        found = Q() if self.grantee is None else _is_to(self.grantee, f"{role_field}_id")
        if self.expires_before is not None:
            found &= Q(expires_at__lt=self.expires_before)
        if self.text:
            names = ("user__id", "user__name", "user__email", f"{role_field}__name")
            matches = Q()
            for each in names:
                matches |= Q(**{f"{each}__icontains": self.text})
            found &= matches
        return found


EVERY_GRANT: Final = GrantFilter()


def list_grants_for(
    *, actor: Actor, ref: ObjectRef, missing: CatalogError, wanted: GrantFilter, page: Page
) -> tuple[list[ListedGrant], str | None]:
    """Return `list_grants_on` to callers who may read the grants on the object.

    Raises `missing` if the object is hidden from the caller, else the type's own error (403).
    """
    require_permission(actor, reads_grants(ref), *ref, missing=missing)
    return list_grants_on(ref=ref, wanted=wanted, page=page)


def list_grants_on(*, ref: ObjectRef, wanted: GrantFilter, page: Page) -> tuple[list[ListedGrant], str | None]:
    """Return the unexpired grants on an object in order of creation, and the next page token.

    Members of a role have `assignee` on it. Checks no permission. Reads the primary database, so that a grant is listed
    as soon as it is written. One statement, two for a role.
    """
    at, after = now(), page.after_id()
    found: list[tuple[UUID, ListedGrant]] = []
    if wanted.privileges is None or set(wanted.privileges) - {ASSIGNEE}:
        rows = _after(Grant.objects.filter(securable_id=securable_id(*ref)), after, at)
        if wanted.privileges is not None:
            rows = rows.filter(privilege__in=wanted.privileges)
        rows = rows.filter(wanted.condition())
        found = [(row.pk, listed_grant(row)) for row in rows[: page.sql_limit]]
    if ref.type is Securable.Type.ROLE and (wanted.privileges is None or ASSIGNEE in wanted.privileges):
        members = _after(RoleMember.objects.filter(role_id=str(ref.id)), after, at)
        members = members.filter(wanted.condition("member_role"))
        joined = [(row.pk, _listed(ASSIGNEE, row.member_role_id, row)) for row in members[: page.sql_limit]]
        found = list(merge(found, joined, key=lambda each: each[0]))
    return build_page(found, page)


def list_grants_to(*, ref: ObjectRef, grantees: Collection[Grantee]) -> list[ListedGrant]:
    """Return the unexpired grants on an object to these principals, in no order; in a role with its members.

    Checks no permission. At most two statements.
    """
    if not grantees:
        return []
    at = now()
    user_ids = [each.user_id for each in grantees if each.user_id is not None]
    role_ids = [each.role_id for each in grantees if each.role_id is not None]
    rows = Grant.objects.unexpired(at).filter(
        Q(user_id__in=user_ids) | Q(role_id__in=role_ids), securable_id=securable_id(*ref)
    )
    found = [listed_grant(row) for row in rows]
    if ref.type is Securable.Type.ROLE:
        members = RoleMember.objects.unexpired(at).filter(
            Q(user_id__in=user_ids) | Q(member_role_id__in=role_ids), role_id=str(ref.id)
        )
        found += [_listed(ASSIGNEE, row.member_role_id, row) for row in members]
    return found


def _after(rows: ExpiringQuerySet[M], after: UUID, at: datetime) -> ExpiringQuerySet[M]:
    return rows.unexpired(at).filter(pk__gt=after).order_by("pk")


def _is_to(grantee: Grantee, role_field: str) -> Q:
    return Q(user_id=grantee.user_id) if grantee.role_id is None else Q(**{role_field: grantee.role_id})


def listed_grant(row: Grant) -> ListedGrant:
    return _listed(row.privilege, row.role_id, row)


def _listed(privilege: str, role_id: UUID | None, row: Grant | RoleMember) -> ListedGrant:
    return ListedGrant(privilege, Grantee(row.user_id, role_id), row.created_at, row.expires_at, row.granted_by)


_WAREHOUSE_STEP: Final = len("warehouse:") + 36
"""Length of a warehouse's securable id in the path of an object in it."""

_LISTED: Final = (
    Securable.Type.PROJECT,
    Securable.Type.WAREHOUSE,
    Securable.Type.NAMESPACE,
    Securable.Type.TABLE,
    Securable.Type.VIEW,
    Securable.Type.GENERIC_TABLE,
    Securable.Type.TAG,
)


@dataclass(frozen=True, slots=True)
class LocatedGrant:
    """A grant and its object; `warehouse_id` is empty for objects that are in no warehouse and are none."""

    grant: ListedGrant
    ref: ObjectRef
    warehouse_id: str


def list_grants_on_for(
    *, actor: Actor, target: PermissionTarget, wanted: GrantFilter, page: Page
) -> tuple[list[ListedGrant], str | None]:
    """List the grants on an object, optionally of one principal, in the order in which they were granted.

    Raises the target's `missing` (404) when the object is hidden from the caller, else `GrantActionForbidden` (403).
    """
    require_permission_to_read_grants(actor, target, wanted.grantee)
    return list_grants_on(ref=target.ref, wanted=wanted, page=page)


def list_grants_of(
    *,
    actor: Actor,
    project: Project,
    grantee: Grantee,
    inactive_warehouses: Callable[[], Collection[str]],
    page: Page,
    expires_before: datetime | None = None,
) -> tuple[list[LocatedGrant], str | None]:
    """List the grants of one principal in a project, in the order in which they were granted.

    Left out are roles, whose members are listed as such, and objects in inactive warehouses (their securable ids).
    Raises `GrantActionForbidden` (403).
    """
    require_permission_to_read_grants(actor, target_project(project), grantee)
    top = Securable.objects.values_list("path", flat=True).get(pk=securable_id(Securable.Type.PROJECT, project.pk))
    rows = (
        Grant.objects.filter(Q(user_id=grantee.user_id) if grantee.role_id is None else Q(role_id=grantee.role_id))
        .unexpired(now())
        .filter(pk__gt=page.after_id())
        # Compared as text: LIKE ignores case on SQLite, and ids of projects may differ in case alone.
        .annotate(root=Substr("path", 1, len(top)))
        .annotate(step=Substr("path", len(top) + 1, _WAREHOUSE_STEP))
        .annotate(kind=Substr("securable_id", 1, StrIndex("securable_id", Value(":")) - 1))
        .filter(root=top, kind__in=_LISTED)
        .filter(Q(kind=Securable.Type.WAREHOUSE) | ~Q(step__in=inactive_warehouses()))
        .filter(Q() if expires_before is None else Q(expires_at__lt=expires_before))
        .order_by("pk")[: page.sql_limit]
    )
    shown, token = build_page([(row.pk, row) for row in rows], page)
    found = []
    for row in shown:
        grant = listed_grant(row)
        ref = parse_securable_id(row.securable_id)
        found.append(LocatedGrant(grant, ref, row.step.partition(":")[2]))  # type: ignore[attr-defined]  # annotated above
    return found, token


def list_grantable_for(
    *, actor: Actor, target: PermissionTarget, grantee: Grantee | None
) -> list[tuple[Privilege, bool]]:
    """List each privilege on the target's type with whether `grantee`, or the caller, may grant and revoke it there.

    Raises as `list_grants_on_for` and `check_subject`.
    """
    if grantee is None or grantee == acting_as(actor):
        require_not_hidden(actor, target.ref, target.missing)
        subject = actor
    else:
        require_permission_to_read_grants(actor, target, grantee)
        subject = check_subject(grantee)
    privileges = privileges_on(target.ref.type)
    allowed = check_permissions(subject, [(grant_action(each.name), target.ref) for each in privileges])
    return list(zip(privileges, allowed, strict=True))


def require_permission_to_read_grants(actor: Actor, target: PermissionTarget, grantee: Grantee | None) -> None:
    """Require that `actor` may read the grants on the target, of `grantee` or of everyone.

    Raises as `list_grants_on_for`.
    """
    ref = target.ref
    seeing = Can.GET_METADATA if ref.type is Securable.Type.PROJECT else SEEN_BY.get(ref.type)
    checks: list[PermissionCheck] = [(Can.READ_GRANTS, ref), *([] if seeing is None else [(seeing, ref)])]
    may_read, *sees = check_permissions(actor, checks)
    is_visible = all(sees)
    if may_read or (is_visible and grantee is not None and grantee == acting_as(actor)):
        return
    if not is_visible and ref.type in SEEN_BY:
        raise deny_as_missing(actor, SEEN_BY[ref.type], ref, target.missing)
    record_denial(actor=actor, action=Can.READ_GRANTS, object_type=ref.type.value, object_id=ref.id)
    raise GrantActionForbidden(f"{actor.name} may not read the grants on this {ref.type.value}")


@dataclass(frozen=True, slots=True)
class ManagedAccess:
    """Whether managed access is set on the object itself, and whether it is in effect: set there or on a parent."""

    is_set: bool
    is_in_effect: bool


def get_managed_access_for(*, actor: Actor, ref: ObjectRef, missing: CatalogError) -> ManagedAccess:
    """Return managed access of a warehouse or namespace. Raises `missing` if it is hidden from the caller."""
    require_not_hidden(actor, ref, missing)
    on = Securable.objects.filter(pk=securable_id(*ref)).first()
    if on is None:
        raise missing
    return ManagedAccess(on.managed_access, _is_in_effect(on.path))


def is_access_managed(ref: ObjectRef) -> bool:
    """Return whether managed access is in effect for objects in a warehouse or namespace. Checks no permission."""
    path = Securable.objects.filter(pk=securable_id(*ref)).values_list("path", flat=True).first()
    return path is not None and _is_in_effect(path)


def _is_in_effect(path: str) -> bool:
    return Securable.objects.filter(pk__in=path.rstrip("/").split("/"), managed_access=True).exists()
