"""Explanation of a permission check: the grants that allow it, or those that would, as far as the caller may see them.

To explain the permissions of others, a caller needs the right to read grants on the checked object. The grants that
explain the result may be on other objects: a grant is shown to callers who may read grants on its object, a membership
to callers who may read the members of the role, and hidden objects are never named. Explanations of the permissions of
others are recorded in the audit trail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Actor, Grantee
from tenancy.audit.occurrences import record_access_review
from tenancy.authz.actions import SEEN_BY, Can, reads_grants
from tenancy.authz.explanation import Explanation, GrantRow, Step, explain
from tenancy.authz.permissions import check_permissions, is_allowed
from tenancy.authz.port import AuthorizationBackendError, PermissionCheck
from tenancy.authz.role_paths import Entry, Membership
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, parse_securable_id, securable_id
from tenancy.selectors.objects import NamedObject, NameObjects
from tenancy.selectors.permission_checks import check_subject, resolve_checked_actor

T = Securable.Type


@dataclass(frozen=True, slots=True)
class VisibleMembership:
    role_id: UUID
    role_name: str
    entry: Entry
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class VisibleGrant:
    """`through` is the chain of memberships to the role `grantee`; None if the caller may not read all of it."""

    privilege: str
    grantee: Grantee
    through: Sequence[VisibleMembership] | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class VisibleStep:
    """A `relation` to an object, by `grant` or else by the previous steps."""

    object: NamedObject
    relation: str
    grant: VisibleGrant | None


WITHHELD: Final = None
"""In a chain: steps on objects whose grants the caller may not read."""


@dataclass(frozen=True, slots=True)
class SufficientGrant:
    privilege: str
    object: NamedObject


@dataclass(frozen=True, slots=True)
class Explained:
    """`is_allowed` is the decision of the configured backend, None if it is unavailable. The other fields come from the
    relation rows.

    The two differ while a change is not yet delivered to OpenFGA, and with a custom backend.
    """

    is_allowed: bool | None
    is_by_grants: bool
    standing: str | None
    chain: Sequence[VisibleStep | None]
    cures: Sequence[SufficientGrant]


def explain_for(
    *,
    actor: Actor,
    grantee: Grantee | None,
    ref: ObjectRef,
    action: Can,
    missing: CatalogError,
    name_objects: NameObjects,
) -> Explained:
    """Explain why `grantee`, by default the caller, may do `action` on an object, or which grants would allow it.

    Each of those grants would be sufficient.
    Raises the errors of `resolve_checked_actor`.
    """
    checked = resolve_checked_actor(actor=actor, grantee=grantee, ref=ref, missing=missing)
    if grantee is not None and checked is not actor:
        _record(actor, grantee, ref, action)
    decided = is_allowed(checked, action, *ref)
    return _ExplanationFilter(actor, checked, name_objects).filter(explain(checked, action, ref), is_decided=decided)


def explain_to_operator(
    *, actor: Actor, grantee: Grantee, ref: ObjectRef, action: Can, name_objects: NameObjects
) -> Explained:
    """Explain as `explain_for`, as if the principal sent the request itself, and also while the backend is unavailable.

    Raises the errors of `check_subject`.
    """
    checked = replace(check_subject(grantee), is_check_subject=False)
    _record(actor, grantee, ref, action)
    try:
        decided = is_allowed(checked, action, *ref)
    except AuthorizationBackendError:
        decided = None
    return _ExplanationFilter(actor, checked, name_objects).filter(explain(checked, action, ref), is_decided=decided)


def _record(actor: Actor, grantee: Grantee, ref: ObjectRef, action: Can) -> None:
    details = {"principal": str(grantee), "explained": action.value}
    record_access_review(actor=actor, ref=(ref.type.value, ref.id), project=None, details=details)


class _ExplanationFilter:
    """Reduces an explanation of the permissions of `checked` to what `actor` may see."""

    def __init__(self, actor: Actor, checked: Actor, name_objects: NameObjects) -> None:
        self._actor, self._checked, self._name_objects = actor, checked, name_objects
        self._is_own = checked is actor
        self._allowed: Mapping[PermissionCheck, bool] = {}
        self._objects: Mapping[str, NamedObject] = {}
        self._roles: Mapping[UUID, str] = {}

    def filter(self, found: Explanation, *, is_decided: bool | None) -> Explained:
        ids = dict.fromkeys(
            [*(each.securable_id for each in found.chain), *(each.securable_id for each in found.cures)]
        )
        grants = [step.grant for step in found.chain if step.grant is not None]
        roles = dict.fromkeys(each.role_id for grant in grants for each in grant.through)
        self._check(list(ids), list(roles))
        of_roles = {securable_id(T.ROLE, each): each for each in roles}
        known = [each for each in ids if self._is_known(each)]
        names = self._name_objects([*known, *of_roles])
        self._objects = {
            own_id: names[own_id] if self._is_seen(own_id) else names[own_id].without_names()
            for own_id in known
            if own_id in names
        }
        self._roles = {role_id: names[own_id].name or "" for own_id, role_id in of_roles.items() if own_id in names}
        steps: list[VisibleStep | None] = []
        for step in found.chain:
            visible = self._step(step)
            if visible is not WITHHELD or steps[-1:] != [WITHHELD]:
                steps.append(visible)
        cures = [
            SufficientGrant(each.privilege, self._objects[each.securable_id])
            for each in found.cures
            if each.securable_id in self._objects
        ]
        return Explained(is_decided, found.is_by_grants, found.standing, steps, cures)

    def _check(self, ids: Sequence[str], roles: Sequence[UUID]) -> None:
        """Check all permissions that the caller needs, in one request to the backend."""
        checks = [check for each in ids for check in _checks_to_name(parse_securable_id(each))]
        if not self._is_own:
            checks += [_reading(parse_securable_id(each)) for each in ids]
            checks += [_reading(ObjectRef(T.ROLE, each)) for each in roles]
        unique = list(dict.fromkeys(checks))
        self._allowed = dict(zip(unique, check_permissions(self._actor, unique), strict=True)) if unique else {}

    def _is_known(self, own_id: str) -> bool:
        checks = _checks_to_name(parse_securable_id(own_id))
        return not checks or any(self._allowed[each] for each in checks)

    def _is_seen(self, own_id: str) -> bool:
        """Return whether the caller may see the object, and not only know its id because they may grant on it."""
        checks = _checks_to_name(parse_securable_id(own_id))
        return not checks or self._allowed[checks[0]]

    def _is_readable(self, ref: ObjectRef) -> bool:
        return self._is_own or self._allowed[_reading(ref)]

    def _step(self, step: Step) -> VisibleStep | None:
        named = self._objects.get(step.securable_id)
        if named is None or not self._is_readable(parse_securable_id(step.securable_id)):
            return WITHHELD
        return VisibleStep(named, step.relation, None if step.grant is None else self._grant(step.grant))

    def _grant(self, grant: GrantRow) -> VisibleGrant:
        chain = grant.through
        grantee = Grantee(role_id=chain[-1].role_id) if chain else Grantee(user_id=self._checked.user_id)
        return VisibleGrant(grant.privilege, grantee, self._through(chain), grant.expires_at)

    def _through(self, chain: Sequence[Membership]) -> list[VisibleMembership] | None:
        if not all(each.role_id in self._roles and self._is_membership_readable(each) for each in chain):
            return None
        return [
            VisibleMembership(each.role_id, self._roles[each.role_id], each.entry, each.expires_at) for each in chain
        ]

    def _is_membership_readable(self, membership: Membership) -> bool:
        # The caller has named an assumed role in the request.
        return membership.entry is Entry.ASSUMED or self._is_readable(ObjectRef(T.ROLE, membership.role_id))


def _reading(ref: ObjectRef) -> PermissionCheck:
    return reads_grants(ref), ref


def _checks_to_name(ref: ObjectRef) -> list[PermissionCheck]:
    """Return the checks of which one is sufficient to see the name of the object; none where it is public."""
    seen_by = Can.GET_METADATA if ref.type is T.PROJECT else SEEN_BY.get(ref.type)
    return [] if seen_by is None else [(seen_by, ref), _reading(ref)]
