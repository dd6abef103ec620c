"""Permission checks and their errors: `require_permission` for one operation, `are_allowed` for lists.

Some decisions are the same for every backend (`Standing`); the backend decides the others (`tenancy.authz.port`).
Required permissions are checked again before a write when permissions changed meanwhile
(`icekeeper.kernel.request_context`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import CatalogError, Forbidden
from tenancy.actor import Actor, is_instance_admin
from tenancy.audit.occurrences import record_denial, record_override
from tenancy.authz import port
from tenancy.authz.actions import SEEN_BY, Can, reads_grants
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.port import (
    AuthorizationBackendError,
    PermissionCheck,
    VisibleObjects,
    require_decision_for_each,
)
from tenancy.authz.securables import are_registered
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

Missing = CatalogError | Callable[[], CatalogError] | None
"""The error for an object that does not exist, or a function that builds it; hot paths build it only when needed."""


class ServerActionForbidden(Forbidden):
    wire_type = "ServerActionForbidden"


class ProjectActionForbidden(Forbidden):
    wire_type = "ProjectActionForbidden"


class WarehouseActionForbidden(Forbidden):
    wire_type = "WarehouseActionForbidden"


class NamespaceActionForbidden(Forbidden):
    wire_type = "NamespaceActionForbidden"


class TableActionForbidden(Forbidden):
    wire_type = "TableActionForbidden"


class ViewActionForbidden(Forbidden):
    wire_type = "ViewActionForbidden"


class GenericTableActionForbidden(Forbidden):
    wire_type = "GenericTableActionForbidden"


class RoleActionForbidden(Forbidden):
    wire_type = "RoleActionForbidden"


class TagActionForbidden(Forbidden):
    wire_type = "TagActionForbidden"


class UserActionForbidden(Forbidden):
    wire_type = "UserActionForbidden"


class GrantActionForbidden(Forbidden):
    wire_type = "GrantActionForbidden"


_ERRORS: dict[Securable.Type, type[Forbidden]] = {
    Securable.Type.SERVER: ServerActionForbidden,
    Securable.Type.PROJECT: ProjectActionForbidden,
    Securable.Type.WAREHOUSE: WarehouseActionForbidden,
    Securable.Type.NAMESPACE: NamespaceActionForbidden,
    Securable.Type.TABLE: TableActionForbidden,
    Securable.Type.VIEW: ViewActionForbidden,
    Securable.Type.GENERIC_TABLE: GenericTableActionForbidden,
    Securable.Type.ROLE: RoleActionForbidden,
    Securable.Type.TAG: TagActionForbidden,
    Securable.Type.USER: UserActionForbidden,
}


_TABULARS: Final = frozenset({Securable.Type.TABLE, Securable.Type.VIEW, Securable.Type.GENERIC_TABLE})
"""Types whose id in the API differs from the id of the securable."""


def build_missing(missing: Missing) -> CatalogError | None:
    return missing() if callable(missing) else missing


def display_name(ref: ObjectRef, missing: CatalogError | None) -> str:
    """Return how messages name an object: as the caller named it (`missing.about`), never by an internal id."""
    if missing is not None and missing.about is not None:
        return missing.about
    securable_type, object_id = ref
    return f"this {securable_type}" if securable_type in _TABULARS else f"{securable_type} {object_id}"


def deny_as_missing(actor: Actor, action: Can, ref: ObjectRef, missing: CatalogError) -> CatalogError:
    """Return `missing`, because the object is hidden from the actor, and audit the denial with its true reason."""
    record_denial(actor=actor, action=action, object_type=ref.type.value, object_id=ref.id, reason="CannotSeeResource")
    return missing


def action_forbidden(actor: Actor, action: Can, ref: ObjectRef, missing: CatalogError | None = None) -> Forbidden:
    """Return the error to raise, and audit the denial. `missing` is the error for an object that does not exist."""
    securable_type, object_id = ref
    record_denial(actor=actor, action=action, object_type=securable_type.value, object_id=object_id)
    return _ERRORS[securable_type](f"{actor.name} may not {action} on {display_name(ref, missing)}")


NOT_BY_OVERRIDE: Final = frozenset(
    {Can.READ_DATA, Can.WRITE_DATA, Can.SELECT, Can.ASSUME, Can.CHANGE_OWNERSHIP, Can.SET_MANAGED_ACCESS}
    | {action for action in Can if action.value.startswith("grant_")}
)
"""Actions for which an instance admin needs grants like every user: on data, on roles, and on grants."""


class Standing(StrEnum):
    """Why a permission is decided without the backend."""

    INTERNAL = "internal"
    BLOCKED = "blocked"
    EVERYBODY = "everybody"
    INSTANCE_ADMIN = "instance-admin"


def standing_right(actor: Actor, action: Can, ref: ObjectRef) -> bool | None:
    """Return the decision that is independent of the backend; None when the backend decides."""
    reason = standing_reason(actor, action, ref)
    return None if reason is None else reason is not Standing.BLOCKED


def standing_reason(actor: Actor, action: Can, ref: ObjectRef) -> Standing | None:
    """Return why the decision is independent of the backend; None when the backend decides."""
    if actor.is_internal:
        return Standing.INTERNAL
    if actor.is_blocked:
        return Standing.BLOCKED
    if ref.type is Securable.Type.ROLE and action is Can.READ_METADATA:
        return Standing.EVERYBODY  # every caller that knows the id of a role may read its name
    if action not in NOT_BY_OVERRIDE and is_instance_admin(actor):
        return Standing.INSTANCE_ADMIN
    return None


def check_permissions(actor: Actor, checks: Sequence[PermissionCheck]) -> list[bool]:
    """Return for each check, in order, whether it is allowed; calls the backend at most once.

    Raises `AuthorizationBackendError` (503) when the backend is unavailable.
    """
    return _decide(actor, checks, lambda rest: port.authorizer().decide(actor, rest))


def check_permissions_at(actor: Actor, checks: Sequence[PermissionCheck], at: datetime) -> list[bool]:
    """As `check_permissions`, at a later moment, by the current grants. An assumed role must be assumable then."""
    if actor.assumed_role is not None:
        user = replace(actor, assumed_role=None)
        assuming: PermissionCheck = (Can.ASSUME, ObjectRef(Securable.Type.ROLE, actor.assumed_role))
        if not check_permissions_at(user, [assuming], at)[0]:
            return [False] * len(checks)
    return _decide(actor, checks, lambda rest: port.authorizer().decide_at(actor, rest, at))


def is_allowed(actor: Actor, action: Can, securable_type: Securable.Type, object_id: object) -> bool:
    """Check one permission without requiring it, for responses that show less without it."""
    return check_permissions(actor, [(action, ObjectRef(securable_type, object_id))])[0]


def are_allowed(actor: Actor, action: Can, objects: Sequence[ObjectRef]) -> Iterator[bool]:
    """Yield for each object, in order, whether `actor` may do `action` on it; for lists that may stop early.

    The backend is called as decisions are consumed, and raises `AuthorizationBackendError` (503) then.
    """
    decisions = [standing_right(actor, action, ref) for ref in objects]
    undecided = [(action, ref) for ref, decision in zip(objects, decisions, strict=True) if decision is None]
    by_backend = port.authorizer().decide_in_turn(actor, undecided) if undecided else iter(())
    for decision in decisions:
        yield next(by_backend) if decision is None else decision


def visible_objects(actor: Actor) -> VisibleObjects | None:
    """Return all warehouses, namespaces and tabulars that `actor` may see, and perhaps hidden ones: check these.

    None: they are all or too many objects, or unknown before they are checked. A constant number of statements.
    """
    if standing_right(actor, Can.INCLUDE_IN_LIST, ObjectRef(Securable.Type.WAREHOUSE, port.NO_OBJECT)) is not None:
        return None
    return port.authorizer().visible_objects(actor)


def require_permission(
    actor: Actor, action: Can, securable_type: Securable.Type, object_id: object, *, missing: Missing = None
) -> None:
    """Raise `Forbidden` (403) unless `actor` may do `action` on the object.

    When the object must stay hidden from the actor, raise `missing` instead: the error for an object that does not
    exist.
    """
    require_permission_and_check(actor, action, ObjectRef(securable_type, object_id), (), missing=missing)


def require_permission_and_check(
    actor: Actor, action: Can, ref: ObjectRef, more: Sequence[Can], *, missing: Missing = None
) -> list[bool]:
    """As `require_permission`, and return whether each of `more` is allowed too; calls the backend once."""
    epoch = permission_epoch.current()
    seen_by = SEEN_BY.get(ref.type, action)
    actions = list(dict.fromkeys((action, seen_by, *more)))
    allowed = dict(zip(actions, check_permissions(actor, [(each, ref) for each in actions]), strict=True))
    if allowed[action]:
        recheck_before_write(actor, [(action, ref)], epoch, missing)
        return [allowed[each] for each in more]
    error = build_missing(missing)
    if error is not None and not allowed[seen_by] and ref.type in SEEN_BY:
        raise deny_as_missing(actor, action, ref, error)
    raise action_forbidden(actor, action, ref, error)


def require_not_hidden(actor: Actor, ref: ObjectRef, missing: CatalogError) -> None:
    """Raise `missing` unless `actor` may see the object or read the grants on it."""
    checks = visibility_checks(ref)
    if checks and not any(check_permissions(actor, checks)):
        raise deny_as_missing(actor, SEEN_BY[ref.type], ref, missing)


def visibility_checks(ref: ObjectRef) -> list[PermissionCheck]:
    """Return the checks of which one is sufficient to know that the object exists; empty for types that are public."""
    seen_by = SEEN_BY.get(ref.type)
    return [] if seen_by is None else [(seen_by, ref), (reads_grants(ref), ref)]


class _RequiredPermission(NamedTuple):
    actor: Actor
    check: PermissionCheck
    epoch: int
    missing: Missing


def recheck_before_write(actor: Actor, checks: Sequence[PermissionCheck], epoch: int, missing: Missing = None) -> None:
    """Record that the request depends on these permissions; `epoch` is the one before they were checked.

    `missing` is as for `require_permission`, for checks on one object.
    """
    if is_instance_admin(actor):
        record_overrides(actor, [each for each in checks if standing_reason(actor, *each) is Standing.INSTANCE_ADMIN])
    for check in checks:
        request_context.record_permission(_recheck, _RequiredPermission(actor, check, epoch, missing))


def record_overrides(actor: Actor, checks: Sequence[PermissionCheck]) -> None:
    """Audit which of these are allowed to an instance admin without any grant.

    Calls the backend once more. While the backend is unavailable, all of them are audited.
    """
    if not checks or actor.is_internal:
        return
    try:
        granted = port.authorizer().decide(actor, checks)
    except AuthorizationBackendError:
        granted = [False] * len(checks)
    for (action, ref), is_granted in zip(checks, granted, strict=True):
        if not is_granted:
            record_override(actor=actor, action=action, object_type=ref.type.value, object_id=ref.id)


def required_permissions(actor: Actor) -> list[PermissionCheck]:
    """Return the permissions that the current request depends on, without duplicates; empty outside requests."""
    required = request_context.recorded_permissions(_recheck)
    return list(dict.fromkeys(each.check for each in required if each.actor == actor))


def _recheck(required: list[_RequiredPermission]) -> None:
    """Raise `Forbidden` (403) for a permission that was revoked. Checks nothing while the epoch is the same.

    Objects that were deleted meanwhile are skipped: the write itself finds that they do not exist.
    """
    epoch = permission_epoch.current()
    outdated = [each for each in required if each.epoch != epoch]
    for actor in {id(each.actor): each.actor for each in outdated}.values():
        missing = {each.check: each.missing for each in outdated if each.actor is actor}
        allowed = zip(missing, check_permissions(actor, list(missing)), strict=True)
        denied = [check for check, is_still_allowed in allowed if not is_still_allowed]
        exists = are_registered([ref for _, ref in denied]) if denied else []
        for (action, ref), does_exist in zip(denied, exists, strict=True):
            if does_exist:
                raise action_forbidden(actor, action, ref, build_missing(missing[action, ref]))
    required[:] = [each._replace(epoch=epoch) for each in required]


def _decide(
    actor: Actor, checks: Sequence[PermissionCheck], by_backend: Callable[[Sequence[PermissionCheck]], list[bool]]
) -> list[bool]:
    """Decide what does not depend on the backend, and the rest with `by_backend`."""
    decisions: list[bool | None] = [standing_right(actor, action, ref) for action, ref in checks]
    undecided = [check for check, decision in zip(checks, decisions, strict=True) if decision is None]
    if not undecided:
        return [bool(decision) for decision in decisions]
    rest = iter(require_decision_for_each(by_backend(undecided), undecided))
    return [next(rest) if decision is None else decision for decision in decisions]
