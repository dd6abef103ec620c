"""Many questions about rights at once: whether the caller, or whoever else is named, may do something somewhere.

Whoever asks about themselves learns nothing but yes and no: what there is not, what is hidden and what is refused are
the same no. Whoever asks about others must be allowed to read the grants on the object, and who may not gets the same
answer whether there is one or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from icekeeper.kernel.errors.types import CatalogError, Forbidden
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.errors import deny_as_missing
from tenancy.authz.permissions import check_permissions
from tenancy.authz.port import NO_OBJECT, PermissionCheck
from tenancy.grantee import Grantee, acting_as
from tenancy.models import Project, Role, Securable
from tenancy.refs import ObjectRef
from tenancy.selectors.projects import no_such_project
from tenancy.selectors.roles import role_id_not_found
from tenancy.selectors.server import get_server
from tenancy.selectors.users import blocked_among

THE_SERVER: Final[ObjectRef] = ObjectRef(Securable.Type.SERVER, "")
"""The one that is asked: it needs no id."""


class CannotInspectPermissions(Forbidden):
    wire_type = "CannotInspectPermissions"


class NamedTarget(Hashable, Protocol):
    """An object as the caller named it, not yet resolved: see `catalog.objects.addresses.Address`."""

    @property
    def securable_type(self) -> Securable.Type: ...

    @property
    def warehouse_id(self) -> Any: ...

    def missing(self) -> CatalogError:
        """Return the error for an object that does not exist."""


ResolveTargets = Callable[[Sequence[Any]], list[ObjectRef | None]]
"""Resolves named targets in their order, None where the object does not exist."""


@dataclass(frozen=True, slots=True)
class ActionCheck:
    """Whether `identity`, or the caller when that is None, may do `action` on `target`.

    The target is `THE_SERVER`, the ref of a project, or the address of what is in one.
    """

    action: Can
    target: NamedTarget | ObjectRef
    identity: Grantee | None = None

    @property
    def securable_type(self) -> Securable.Type:
        return self.target.type if isinstance(self.target, ObjectRef) else self.target.securable_type


@dataclass(frozen=True, slots=True)
class Verdict:
    """With an `error` the question was not answered."""

    is_allowed: bool
    error: CatalogError | None = None


def check_actions_for(
    *, actor: Actor, checks: Sequence[ActionCheck], must_exist: bool, resolve: ResolveTargets
) -> list[Verdict]:
    """A verdict for each of the checks, in their order: some statements for all of them, and some for each identity.

    The errors are `RoleIdNotFound` (404) for a role that there is not, and `CannotInspectPermissions` (403). With
    `must_exist` it raises what is said of an object that there is not for the first one that the caller does not see.
    """
    found = _find(checks, resolve)
    refused = _unknown_roles(checks) | _not_to_inspect(actor, checks, found)
    askers: dict[Grantee | None, list[ActionCheck]] = {}
    for check in checks:
        if check not in refused:
            askers.setdefault(None if _is_oneself(actor, check) else check.identity, []).append(check)
    blocked = blocked_among({each.user_id for each in askers if each is not None and each.user_id is not None})
    allowed: dict[ActionCheck, bool] = {}
    for identity, own in askers.items():
        asker = actor if identity is None else _asked_about(identity, blocked)
        answers = check_permissions(asker, [(check.action, _place(check, found)) for check in own])
        allowed |= {check: answer and check in found for check, answer in zip(own, answers, strict=True)}
    if must_exist:
        _require_known(actor, [check for check in checks if check in allowed and not allowed[check]], found)
    return [Verdict(allowed.get(check, False), refused.get(check)) for check in checks]


def _is_oneself(actor: Actor, check: ActionCheck) -> bool:
    return check.identity is None or check.identity == acting_as(actor)


def _asked_about(identity: Grantee, blocked: Collection[str]) -> Actor:
    """Somebody who need not be registered: many a gateway asks before anybody has come here."""
    return Actor(
        user_id=identity.user_id,
        assumed_role=identity.role_id,
        is_asked_about=True,
        is_blocked=identity.user_id in blocked,
    )


def _find(checks: Sequence[ActionCheck], resolve: ResolveTargets) -> dict[ActionCheck, ObjectRef]:
    """What there is of what is asked about."""
    named_targets = [check.target for check in checks if not isinstance(check.target, ObjectRef)]
    resolved = dict(zip(named_targets, resolve(named_targets), strict=True)) if named_targets else {}
    refs = {check.target for check in checks if isinstance(check.target, ObjectRef)}
    named = {object_id for securable_type, object_id in refs if securable_type is Securable.Type.PROJECT}
    projects = set(Project.objects.filter(pk__in=named).values_list("pk", flat=True)) if named else set()
    server = ObjectRef(Securable.Type.SERVER, get_server().server_id) if THE_SERVER in refs else None
    found: dict[ActionCheck, ObjectRef] = {}
    for check in checks:
        if not isinstance(check.target, ObjectRef):
            ref = resolved[check.target]
        elif check.target == THE_SERVER:
            ref = server
        else:
            ref = check.target if check.target.id in projects else None
        if ref is not None:
            found[check] = ref
    return found


def _place(check: ActionCheck, found: Mapping[ActionCheck, ObjectRef]) -> ObjectRef:
    """The object that the authorizer is asked about; `NO_OBJECT` of its type where there is none."""
    if check in found:
        return found[check]
    return check.target if isinstance(check.target, ObjectRef) else ObjectRef(check.securable_type, NO_OBJECT)


def _unknown_roles(checks: Sequence[ActionCheck]) -> dict[ActionCheck, CatalogError]:
    named = {
        check.identity.role_id for check in checks if check.identity is not None and check.identity.role_id is not None
    }
    unknown = named - set(Role.objects.filter(pk__in=named).values_list("pk", flat=True)) if named else named
    return {
        check: role_id_not_found(check.identity.role_id)
        for check in checks
        if check.identity is not None and check.identity.role_id in unknown
    }


def _not_to_inspect(
    actor: Actor, checks: Sequence[ActionCheck], found: Mapping[ActionCheck, ObjectRef]
) -> dict[ActionCheck, CatalogError]:
    """Those about others, on objects on which the caller may not read grants.

    Where there is nothing, it takes the right to read the grants of whatever may be in the warehouse: to manage grants
    there, which comes down to everything in it.
    """
    wanted = {check: _reading_grants(check, found) for check in checks if not _is_oneself(actor, check)}
    questions = list(dict.fromkeys(question for each in wanted.values() for question in each))
    answers = dict(zip(questions, check_permissions(actor, questions), strict=True))
    refused = [check for check, enough in wanted.items() if not any(answers[question] for question in enough)]
    for securable_type, object_id in dict.fromkeys(_place(check, found) for check in refused):
        record_denial(actor=actor, action=Can.READ_GRANTS, object_type=securable_type.value, object_id=object_id)
    return {
        check: CannotInspectPermissions(
            f"{actor.name} may not ask what {check.identity} may do on this {check.securable_type.value}"
        )
        for check in refused
    }


def _reading_grants(check: ActionCheck, found: Mapping[ActionCheck, ObjectRef]) -> list[PermissionCheck]:
    """What each is enough to inspect what others may do."""
    here: PermissionCheck = (Can.READ_GRANTS, _place(check, found))
    if isinstance(check.target, ObjectRef):
        return [here]
    return [here, (Can.GRANT_MANAGE_GRANTS, ObjectRef(Securable.Type.WAREHOUSE, check.target.warehouse_id))]


def _require_known(actor: Actor, denied: Sequence[ActionCheck], found: Mapping[ActionCheck, ObjectRef]) -> None:
    """Raises what is said of a missing object, for the first of `denied` that is missing or hidden from the caller."""
    hiding = [check for check in denied if check in found and check.securable_type in SEEN_BY]
    seen = check_permissions(actor, [(SEEN_BY[check.securable_type], found[check]) for check in hiding])
    unseen = {check for check, is_seen in zip(hiding, seen, strict=True) if not is_seen}
    for check in denied:
        if check not in found:
            raise _missing(check)
        if check in unseen and _is_oneself(actor, check):
            raise deny_as_missing(actor, SEEN_BY[found[check][0]], found[check], _missing(check))


def _missing(check: ActionCheck) -> CatalogError:
    return no_such_project(check.target.id) if isinstance(check.target, ObjectRef) else check.target.missing()
