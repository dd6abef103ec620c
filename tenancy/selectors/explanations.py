"""Why somebody may do something, or what would let them, as far as who asks may be told.

The right to ask about others is the right to read grants on the one object that is asked about. What explains the
answer may be granted elsewhere: each grant is told to who may read grants there, each membership to who may read who is
in the role, and nothing names an object that the caller may not know of. Whoever asks about others is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_access_review
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.builtin.role_paths import Entry, Membership
from tenancy.authz.errors import AuthorizationBackendError
from tenancy.authz.explanation import Explanation, GrantRow, Step, explain
from tenancy.authz.permissions import check_permissions, is_allowed
from tenancy.authz.port import PermissionCheck
from tenancy.authz.privileges import reads_grants
from tenancy.grantee import Grantee
from tenancy.models import Role, Securable
from tenancy.refs import ObjectRef
from tenancy.selectors.allowed_actions import actor_of, asked_about
from tenancy.selectors.object_names import NamedObject, NameObjects

T = Securable.Type


@dataclass(frozen=True, slots=True)
class ToldMembership:
    role_id: UUID
    role_name: str
    entry: Entry
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ToldGrant:
    """`through` leads from who is asked about to the role `grantee`; None where the caller may not read all of it."""

    privilege: str
    grantee: Grantee
    through: Sequence[ToldMembership] | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ToldStep:
    """That there is `relation` to an object: by `grant`, else because of the steps before."""

    object: NamedObject
    relation: str
    grant: ToldGrant | None


WITHHELD: Final = None
"""In a chain: steps on objects on which the caller may not read what is granted."""


@dataclass(frozen=True, slots=True)
class ToldCure:
    privilege: str
    object: NamedObject


@dataclass(frozen=True, slots=True)
class Explained:
    """`is_allowed` is what the backend in force says; None: it cannot be asked. What follows is by the relation rows.

    The two differ while OpenFGA has not been told of a change, and where a backend of another making decides.
    """

    is_allowed: bool | None
    is_by_grants: bool
    standing: str | None
    chain: Sequence[ToldStep | None]
    cures: Sequence[ToldCure]


def explain_for(
    *,
    actor: Actor,
    grantee: Grantee | None,
    ref: ObjectRef,
    action: Can,
    missing: CatalogError,
    name_objects: NameObjects,
) -> Explained:
    """Why `grantee`, or who asks, may do `action` on an object, or the grants any one of which would let them.

    Raises what `asked_about` raises.
    """
    asked = asked_about(actor=actor, grantee=grantee, ref=ref, missing=missing)
    if grantee is not None and asked is not actor:
        _record(actor, grantee, ref, action)
    decided = is_allowed(asked, action, *ref)
    return _Teller(actor, asked, name_objects).tell(explain(asked, action, ref), is_decided=decided)


def explain_to_operator(
    *, actor: Actor, grantee: Grantee, ref: ObjectRef, action: Can, name_objects: NameObjects
) -> Explained:
    """As `explain_for`, of somebody who comes in person; also while the backend cannot be asked.

    Raises what `actor_of` raises.
    """
    asked = replace(actor_of(grantee), is_asked_about=False)
    _record(actor, grantee, ref, action)
    try:
        decided = is_allowed(asked, action, *ref)
    except AuthorizationBackendError:
        decided = None
    return _Teller(actor, asked, name_objects).tell(explain(asked, action, ref), is_decided=decided)


def _record(actor: Actor, grantee: Grantee, ref: ObjectRef, action: Can) -> None:
    told = {"principal": str(grantee), "explained": action.value}
    record_access_review(actor=actor, ref=(ref.type.value, ref.id), project=None, details=told)


class _Teller:
    """Tells `actor` about the rights of `asked`."""

    def __init__(self, actor: Actor, asked: Actor, name_objects: NameObjects) -> None:
        self._actor, self._asked, self._name_objects = actor, asked, name_objects
        self._is_own = asked is actor
        self._allowed: Mapping[PermissionCheck, bool] = {}
        self._objects: Mapping[str, NamedObject] = {}
        self._roles: Mapping[UUID, str] = {}

    def tell(self, found: Explanation, *, is_decided: bool | None) -> Explained:
        ids = dict.fromkeys(
            [*(each.securable_id for each in found.chain), *(each.securable_id for each in found.cures)]
        )
        grants = [step.grant for step in found.chain if step.grant is not None]
        roles = dict.fromkeys(each.role_id for grant in grants for each in grant.through)
        self._ask(list(ids), list(roles))
        self._objects = {
            own_id: named if self._is_seen(own_id) else named.without_names()
            for own_id, named in self._name_objects(each for each in ids if self._is_known(each)).items()
        }
        if roles:
            self._roles = dict(Role.objects.filter(pk__in=list(roles)).values_list("pk", "name"))
        steps: list[ToldStep | None] = []
        for step in found.chain:
            told = self._step(step)
            if told is not WITHHELD or steps[-1:] != [WITHHELD]:
                steps.append(told)
        cures = [
            ToldCure(each.privilege, self._objects[each.securable_id])
            for each in found.cures
            if each.securable_id in self._objects
        ]
        return Explained(is_decided, found.is_by_grants, found.standing, steps, cures)

    def _ask(self, ids: Sequence[str], roles: Sequence[UUID]) -> None:
        """All that the caller must be allowed, in one question to the backend."""
        questions = [question for each in ids for question in _ways_to_be_told(_ref(each))]
        if not self._is_own:
            questions += [_reading(_ref(each)) for each in ids]
            questions += [_reading(ObjectRef(T.ROLE, each)) for each in roles]
        asked = list(dict.fromkeys(questions))
        self._allowed = dict(zip(asked, check_permissions(self._actor, asked), strict=True)) if asked else {}

    def _is_known(self, own_id: str) -> bool:
        ways = _ways_to_be_told(_ref(own_id))
        return not ways or any(self._allowed[each] for each in ways)

    def _is_seen(self, own_id: str) -> bool:
        """Not only known, as by who may grant on it: its name, and those above it, are no secret."""
        ways = _ways_to_be_told(_ref(own_id))
        return not ways or self._allowed[ways[0]]

    def _is_readable(self, ref: ObjectRef) -> bool:
        return self._is_own or self._allowed[_reading(ref)]

    def _step(self, step: Step) -> ToldStep | None:
        named = self._objects.get(step.securable_id)
        if named is None or not self._is_readable(_ref(step.securable_id)):
            return WITHHELD
        return ToldStep(named, step.relation, None if step.grant is None else self._grant(step.grant))

    def _grant(self, grant: GrantRow) -> ToldGrant:
        way = grant.through
        grantee = Grantee(role_id=way[-1].role_id) if way else Grantee(user_id=self._asked.user_id)
        return ToldGrant(grant.privilege, grantee, self._through(way), grant.expires_at)

    def _through(self, way: Sequence[Membership]) -> list[ToldMembership] | None:
        if not all(each.role_id in self._roles and self._is_membership_readable(each) for each in way):
            return None
        return [ToldMembership(each.role_id, self._roles[each.role_id], each.entry, each.expires_at) for each in way]

    def _is_membership_readable(self, membership: Membership) -> bool:
        # Who is asked about as a role is that role, which the caller has named.
        return membership.entry is Entry.ASSUMED or self._is_readable(ObjectRef(T.ROLE, membership.role_id))


def _ref(own_id: str) -> ObjectRef:
    kind, _, object_id = own_id.partition(":")
    return ObjectRef(T(kind), object_id)


def _reading(ref: ObjectRef) -> PermissionCheck:
    return reads_grants(ref), ref


def _ways_to_be_told(ref: ObjectRef) -> list[PermissionCheck]:
    """What each is enough to be told what the object is called; none where everybody is."""
    seen_by = Can.GET_METADATA if ref.type is T.PROJECT else SEEN_BY.get(ref.type)
    return [] if seen_by is None else [(seen_by, ref), _reading(ref)]
