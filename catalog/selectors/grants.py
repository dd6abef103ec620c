"""What is granted: on one object, or to one principal in a whole project; and what somebody could grant.

One's own grants are everybody's to read where they see the object; those of others take the right to read grants.
Oneself is who acts: in an assumed role the role, and who is in a role is not the role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import Q, Value
from django.db.models.functions import StrIndex, Substr

from catalog.selectors.addressed import TABULARS
from catalog.selectors.client_uuids import client_uuids
from catalog.selectors.rights_targets import RightsTarget, target_project
from icekeeper.kernel.clock import now
from icekeeper.kernel.http.paging import Page, build_page
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.errors import deny_as_missing
from tenancy.authz.permissions import check_permissions
from tenancy.authz.port import PermissionCheck
from tenancy.authz.privileges import Privilege, grant_action, privileges_on
from tenancy.authz.subject import is_unexpired
from tenancy.grantee import Grantee, acting_as
from tenancy.models import Grant, Project, Securable
from tenancy.refs import ObjectRef, securable_id
from tenancy.selectors.allowed_actions import actor_of, require_known
from tenancy.selectors.grants import GrantFilter, HeldGrant, list_grants_on
from tenancy.services.grants import GrantActionForbidden

_WAREHOUSE_STEP: Final = len("warehouse:") + 36
"""Characters of a warehouse's id in the path of what is in it."""

_LISTED: Final = (Securable.Type.PROJECT, Securable.Type.WAREHOUSE, Securable.Type.NAMESPACE, *TABULARS,
                  Securable.Type.TAG)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GrantPlace:
    """An object by the ids that clients know; `warehouse_id` only of what is in one, or is one."""

    securable_type: Securable.Type
    object_id: str
    warehouse_id: str | None = None


def list_grants_on_for(
    *, actor: Actor, target: RightsTarget, grantee: Grantee | None, page: Page
) -> tuple[list[HeldGrant], str | None]:
    """What is granted on an object, to one principal if one is named, in the order in which it was granted.

    Raises the target's `missing` (404) for who may not know of it, `GrantActionForbidden` (403) for who may.
    """
    require_to_read(actor, target, grantee)
    return list_grants_on(ref=target.ref, wanted=GrantFilter(grantee=grantee), page=page)


def list_grants_of_for(
    *, actor: Actor, project: Project, grantee: Grantee, page: Page
) -> tuple[list[tuple[HeldGrant, GrantPlace]], str | None]:
    """All that is granted to one principal in a project, in the order in which it was granted.

    What is in a warehouse that is not active is left out, and so are roles, whose members are listed as such. Raises
    `GrantActionForbidden` (403).
    """
    require_to_read(actor, target_project(project), grantee)
    top = Securable.objects.values_list("path", flat=True).get(pk=securable_id(Securable.Type.PROJECT, project.pk))
    rows = (
        Grant.objects.filter(Q(user_id=grantee.user_id) if grantee.role_id is None else Q(role_id=grantee.role_id))
        .filter(is_unexpired(now()), pk__gt=page.after_id())
        # Compared as text: LIKE takes no notice of case on SQLite, and ids of projects differ by it.
        .annotate(root=Substr("path", 1, len(top)))
        .annotate(step=Substr("path", len(top) + 1, _WAREHOUSE_STEP))
        .annotate(kind=Substr("securable_id", 1, StrIndex("securable_id", Value(":")) - 1))
        .filter(root=top, kind__in=_LISTED)
        .filter(Q(kind=Securable.Type.WAREHOUSE) | ~Q(step__in=_inactive(project)))
        .order_by("pk")[: page.sql_limit]
    )
    shown, token = build_page([(row.pk, row) for row in rows], page)
    uuids = client_uuids({UUID(str(object_id)) for kind, object_id in map(_ref, shown) if kind in TABULARS})
    found = []
    for row in shown:
        place = _place(_ref(row), row.step, uuids)  # type: ignore[attr-defined]  # annotated above
        if place is not None:
            found.append((HeldGrant(row.privilege, grantee, row.created_at, row.expires_at), place))
    return found, token


def list_grantable_for(*, actor: Actor, target: RightsTarget, grantee: Grantee | None) -> list[tuple[Privilege, bool]]:
    """Each privilege on the target's type with whether `grantee`, or who asks, may grant it there and take it away.

    Raises what `list_grants_on_for` raises, and what `actor_of` raises.
    """
    if grantee is None or grantee == acting_as(actor):
        require_known(actor, target.ref, target.missing)
        asked = actor
    else:
        require_to_read(actor, target, grantee)
        asked = actor_of(grantee)
    privileges = privileges_on(target.ref.type)
    answers = check_permissions(asked, [(grant_action(each.name), target.ref) for each in privileges])
    return list(zip(privileges, answers, strict=True))


def require_to_read(actor: Actor, target: RightsTarget, grantee: Grantee | None) -> None:
    """That `actor` may read what is granted on the target to `grantee`, or to everybody.

    Raises what `list_grants_on_for` raises.
    """
    ref = target.ref
    seeing = Can.GET_METADATA if ref.type is Securable.Type.PROJECT else SEEN_BY.get(ref.type)
    questions: list[PermissionCheck] = [(Can.READ_GRANTS, ref), *([] if seeing is None else [(seeing, ref)])]
    reads, *sees = check_permissions(actor, questions)
    is_seen = all(sees)
    if reads or (is_seen and grantee is not None and grantee == acting_as(actor)):
        return
    if not is_seen and ref.type in SEEN_BY:
        raise deny_as_missing(actor, SEEN_BY[ref.type], ref, target.missing)
    record_denial(actor=actor, action=Can.READ_GRANTS, object_type=ref.type.value, object_id=ref.id)
    raise GrantActionForbidden(f"{actor.name} may not read what is granted on this {ref.type.value}")


def _inactive(project: Project) -> list[str]:
    """The securable ids of the warehouses of a project that are not active."""
    rows = Warehouse.objects.filter(project=project).exclude(status=Warehouse.Status.ACTIVE)
    return [securable_id(Securable.Type.WAREHOUSE, pk) for pk in rows.values_list("pk", flat=True)]


def _ref(grant: Grant) -> ObjectRef:
    """What it is on."""
    securable_type, _, object_id = grant.securable_id.partition(":")
    return ObjectRef(Securable.Type(securable_type), object_id)


def _place(ref: ObjectRef, step: str, uuids: Mapping[UUID, UUID]) -> GrantPlace | None:
    """None for a tabular that went away while it was listed."""
    securable_type, object_id = ref.type, str(ref.id)
    if securable_type in {Securable.Type.PROJECT, Securable.Type.TAG}:
        return GrantPlace(securable_type, object_id)
    warehouse_id = step.partition(":")[2]
    if securable_type not in TABULARS:
        return GrantPlace(securable_type, object_id, warehouse_id)
    uuid = uuids.get(UUID(object_id))
    return None if uuid is None else GrantPlace(securable_type, str(uuid), warehouse_id)
