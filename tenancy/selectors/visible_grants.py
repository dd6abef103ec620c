"""Grants that a caller may read, on one object or of one principal in a project, and privileges that they may grant.

Callers read their own grants on every object that they see; the grants of others need the permission to read grants.
In an assumed role the caller is that role, and a member of a role is not the role.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from django.db.models import Q, Value
from django.db.models.functions import StrIndex, Substr

from icekeeper.kernel.clock import now
from icekeeper.kernel.http.paging import Page, build_page
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.errors import GrantActionForbidden, deny_as_missing
from tenancy.authz.permissions import check_permissions
from tenancy.authz.port import PermissionCheck
from tenancy.authz.privileges import Privilege, grant_action, privileges_on
from tenancy.authz.subject import is_unexpired
from tenancy.grantee import Grantee, acting_as
from tenancy.models import Grant, Project, Securable
from tenancy.refs import ObjectRef, securable_id
from tenancy.selectors.allowed_actions import actor_of, require_known
from tenancy.selectors.grants import GrantFilter, HeldGrant, list_grants_on
from tenancy.selectors.rights_targets import RightsTarget, target_project

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

    grant: HeldGrant
    ref: ObjectRef
    warehouse_id: str


def list_grants_on_for(
    *, actor: Actor, target: RightsTarget, grantee: Grantee | None, page: Page
) -> tuple[list[HeldGrant], str | None]:
    """List the grants on an object, optionally of one principal, in the order in which they were granted.

    Raises the target's `missing` (404) when the object is hidden from the caller, else `GrantActionForbidden` (403).
    """
    require_to_read(actor, target, grantee)
    return list_grants_on(ref=target.ref, wanted=GrantFilter(grantee=grantee), page=page)


def list_grants_of(
    *, actor: Actor, project: Project, grantee: Grantee, inactive_warehouses: Callable[[], Collection[str]], page: Page
) -> tuple[list[LocatedGrant], str | None]:
    """List the grants of one principal in a project, in the order in which they were granted.

    Left out are roles, whose members are listed as such, and objects in inactive warehouses (their securable ids).
    Raises `GrantActionForbidden` (403).
    """
    require_to_read(actor, target_project(project), grantee)
    top = Securable.objects.values_list("path", flat=True).get(pk=securable_id(Securable.Type.PROJECT, project.pk))
    rows = (
        Grant.objects.filter(Q(user_id=grantee.user_id) if grantee.role_id is None else Q(role_id=grantee.role_id))
        .filter(is_unexpired(now()), pk__gt=page.after_id())
        # Compared as text: LIKE ignores case on SQLite, and ids of projects may differ in case alone.
        .annotate(root=Substr("path", 1, len(top)))
        .annotate(step=Substr("path", len(top) + 1, _WAREHOUSE_STEP))
        .annotate(kind=Substr("securable_id", 1, StrIndex("securable_id", Value(":")) - 1))
        .filter(root=top, kind__in=_LISTED)
        .filter(Q(kind=Securable.Type.WAREHOUSE) | ~Q(step__in=inactive_warehouses()))
        .order_by("pk")[: page.sql_limit]
    )
    shown, token = build_page([(row.pk, row) for row in rows], page)
    found = []
    for row in shown:
        securable_type, _, object_id = row.securable_id.partition(":")
        grant = HeldGrant(row.privilege, grantee, row.created_at, row.expires_at)
        ref = ObjectRef(Securable.Type(securable_type), object_id)
        found.append(LocatedGrant(grant, ref, row.step.partition(":")[2]))  # type: ignore[attr-defined]  # annotated above
    return found, token


def list_grantable_for(*, actor: Actor, target: RightsTarget, grantee: Grantee | None) -> list[tuple[Privilege, bool]]:
    """List each privilege on the target's type with whether `grantee`, or the caller, may grant and revoke it there.

    Raises as `list_grants_on_for` and `actor_of`.
    """
    if grantee is None or grantee == acting_as(actor):
        require_known(actor, target.ref, target.missing)
        subject = actor
    else:
        require_to_read(actor, target, grantee)
        subject = actor_of(grantee)
    privileges = privileges_on(target.ref.type)
    allowed = check_permissions(subject, [(grant_action(each.name), target.ref) for each in privileges])
    return list(zip(privileges, allowed, strict=True))


def require_to_read(actor: Actor, target: RightsTarget, grantee: Grantee | None) -> None:
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
    raise GrantActionForbidden(f"{actor.name} may not read what is granted on this {ref.type.value}")
