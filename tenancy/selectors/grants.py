"""Which privileges are granted on an object, and to whom: directly, as it is written, nothing that follows from it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from typing import TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page, build_page
from tenancy.actor import Actor
from tenancy.authz.permissions import require_permission
from tenancy.authz.privileges import ASSIGNEE, reads_grants
from tenancy.authz.subject import is_unexpired
from tenancy.grantee import Grantee
from tenancy.models import Grant, RoleMember, Securable
from tenancy.refs import ObjectRef, securable_id

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class HeldGrant:
    """A privilege of a grantee on an object, until `expires_at` if that is set."""

    privilege: str
    grantee: Grantee
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class GrantFilter:
    """Filter of a listing; None does not restrict it."""

    privileges: Collection[str] | None = None
    grantee: Grantee | None = None


def list_grants_for(
    *, actor: Actor, ref: ObjectRef, missing: CatalogError, wanted: GrantFilter, page: Page
) -> tuple[list[HeldGrant], str | None]:
    """Return `list_grants_on` to callers who may read the grants on the object.

    Raises `missing` if the object is hidden from the caller, else the type's own error (403).
    """
    require_permission(actor, reads_grants(ref), *ref, missing=missing)
    return list_grants_on(ref=ref, wanted=wanted, page=page)


def list_grants_on(*, ref: ObjectRef, wanted: GrantFilter, page: Page) -> tuple[list[HeldGrant], str | None]:
    """Return the unexpired grants on an object in order of creation, and the next page token.

    Members of a role have `assignee` on it. Checks no permission. Reads the primary database, so that a grant is listed
    as soon as it is written. One statement, two for a role.
    """
    at, after = now(), page.after_id()
    found: list[tuple[UUID, HeldGrant]] = []
    if wanted.privileges is None or set(wanted.privileges) - {ASSIGNEE}:
        rows = _after(Grant.objects.filter(securable_id=securable_id(*ref)), after, at)
        if wanted.privileges is not None:
            rows = rows.filter(privilege__in=wanted.privileges)
        if wanted.grantee is not None:
            rows = rows.filter(_is_to(wanted.grantee, "role_id"))
        found = [(row.pk, _held(row.privilege, row.role_id, row)) for row in rows[: page.sql_limit]]
    if ref.type is Securable.Type.ROLE and (wanted.privileges is None or ASSIGNEE in wanted.privileges):
        members = _after(RoleMember.objects.filter(role_id=str(ref.id)), after, at)
        if wanted.grantee is not None:
            members = members.filter(_is_to(wanted.grantee, "member_role_id"))
        joined = [(row.pk, _held(ASSIGNEE, row.member_role_id, row)) for row in members[: page.sql_limit]]
        found = list(merge(found, joined, key=lambda each: each[0]))
    return build_page(found, page)


def _after(rows: QuerySet[M], after: UUID, at: datetime) -> QuerySet[M]:
    return rows.filter(is_unexpired(at), pk__gt=after).order_by("pk")


def _is_to(grantee: Grantee, role_field: str) -> Q:
    return Q(user_id=grantee.user_id) if grantee.role_id is None else Q(**{role_field: grantee.role_id})


def _held(privilege: str, role_id: UUID | None, row: Grant | RoleMember) -> HeldGrant:
    return HeldGrant(privilege, Grantee(row.user_id, role_id), row.created_at, row.expires_at)
