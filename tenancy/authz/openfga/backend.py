"""The OpenFGA backend: OpenFGA decides, by the tuples of our rows.

While tuples are pending, a check is allowed only if our rows allow it too: a revocation takes effect at once, a new
grant as soon as OpenFGA has it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import Forbidden
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.builtin.queries import read_shown_paths, read_token_roles
from tenancy.authz.model import DOWN, UP, Computed, Linked, MalformedModel, parts_of
from tenancy.authz.openfga.authorization_model import unfolded_model
from tenancy.authz.openfga.client import OpenFgaUnavailable
from tenancy.authz.openfga.outbox import PendingTuples
from tenancy.authz.openfga.store import TupleCheck, openfga_store
from tenancy.authz.openfga.tuples import TupleKey, assumed_subject, member_key, user_subject
from tenancy.authz.permission_epoch import NO_EXPIRY, DecisionCache, permission_epoch
from tenancy.authz.port import Authorizer, PermissionCheck, Subject, VisibleChildren, VisibleObjects
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, securable_id

_HERE: Final = 0


_ABOVE: Final = 1


@cache
def underlying_relation(object_type: str, action: str) -> str | None:
    """Return the relation that `can_<action>` is an alias of; None if objects of the type do not have the action.

    Many actions are aliases of the same relation, which is then checked only once.
    """
    relations = unfolded_model().types.get(object_type, {})
    relation = f"can_{action}"
    if relation not in relations:
        return None
    while isinstance(expression := relations[relation], Computed):
        relation = expression.relation
    return relation


@cache
def looks_below(object_type: str, relation: str) -> bool:
    """Return whether the decision may depend on objects below the object or its parent (`types_below_parent`)."""
    return bool(_levels(object_type, relation))


@cache
def types_below_parent() -> tuple[str, ...]:
    """Return the types of objects, such as roles and tags, with relations that depend on others below their parent."""
    return tuple(
        object_type
        for object_type, relations in unfolded_model().types.items()
        if any(_ABOVE in _levels(object_type, relation) for relation in relations)
    )


@cache
def _levels(object_type: str, relation: str) -> frozenset[int]:
    """Return how many levels above the object `child` links are followed. Raises `MalformedModel` above the parent."""
    found: set[int] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [(object_type, relation, 0)]
    while waiting:
        own_type, own_relation, level = waiting.pop()
        if (own_type, own_relation) in seen:
            continue
        seen.add((own_type, own_relation))
        expression = unfolded_model().types[own_type].get(own_relation)
        for part in () if expression is None else parts_of(expression):
            if isinstance(part, Computed):
                waiting.append((own_type, part.relation, level))
            elif isinstance(part, Linked) and part.link == UP:
                parents = unfolded_model().links(own_type, UP)
                waiting += [(parent, part.relation, level + 1) for parent in parents]
            elif isinstance(part, Linked):
                found.add(level)
    if found - {_HERE, _ABOVE}:
        raise MalformedModel(f"{object_type}#{relation} depends on what is below something far above")
    return frozenset(found)


def links_down(path: str, below: str) -> Sequence[TupleKey]:
    """Return the `child` links from the object at `path` to the one at `below`, both given by `Securable.path`."""
    top = path.rstrip("/").rpartition("/")[2]
    steps = [top, *below.removeprefix(path).rstrip("/").split("/")]
    return [TupleKey(above, DOWN, child) for above, child in pairwise(steps)]


MAX_CONTEXTUAL_TUPLES: Final = 100
"""Contextual tuples that OpenFGA accepts with a check."""


MAX_LINKS_DOWN: Final = 10
"""Contextual tuples reserved for `child` links: project, warehouse, five namespaces, table at most."""


MAX_DECISION_SECONDS: Final = 10.0
"""The timeout for all requests of one decision together."""


MAX_CACHED_TOKEN_ROLES: Final = 10_000
"""Lists of roles in tokens."""


_OBJECT_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


class TooManyTokenRoles(Forbidden):
    """A token names more roles of this server than OpenFGA accepts as contextual tuples."""

    wire_type = "TooManyTokenRoles"


@dataclass(frozen=True, slots=True)
class _TupleUser:
    """The user of the checks in OpenFGA, and the contextual tuples of each of its checks."""

    name: str
    contextual_tuples: tuple[TupleKey, ...]


class OpenFgaAuthorizer(Authorizer):
    name = "openfga"

    def __init__(self) -> None:
        self._record = BuiltinAuthorizer()
        self._pending = PendingTuples()
        self._token_roles: DecisionCache[tuple[UUID, ...]] = DecisionCache(MAX_CACHED_TOKEN_ROLES)

    def decide(self, actor: Actor, checks: Sequence[PermissionCheck]) -> list[bool]:
        """Send one request for up to MAX_BATCH_CHECK_SIZE different checks; one more statement if objects below count.

        Also raises `TooManyTokenRoles` (403).
        """
        tuple_user = self._tuple_user(actor)
        if tuple_user is None:
            return [False] * len(checks)
        # Before the request to OpenFGA: later commits may or may not count.
        is_everything_delivered = self._pending.is_none()
        relations = [_relation(check) for check in checks]
        distinct = list(dict.fromkeys(each for each in relations if each is not None))
        found = dict(zip(distinct, self._check(actor, tuple_user, distinct), strict=True))
        decisions = [each is not None and found[each] for each in relations]
        if is_everything_delivered or not any(decisions):
            return decisions
        return self._confirmed(actor, checks, decisions)

    def decide_at(self, actor: Actor, checks: Sequence[PermissionCheck], at: datetime) -> list[bool]:
        """Decide by our rows, which have all expiry times that OpenFGA has."""
        return self._record.decide_at(actor, checks, at)

    def decide_in_turn(self, actor: Actor, checks: Sequence[PermissionCheck]) -> Iterator[bool]:
        """Deny without a request what our rows deny; send the others in batches of MAX_BATCH_CHECK_SIZE.

        A batch is sent when the first of its decisions is consumed.
        """
        recorded = self._record.decide(actor, checks)
        candidates = [check for check, decision in zip(checks, recorded, strict=True) if decision]
        decisions = self._in_batches(actor, candidates)
        yield from (is_recorded and next(decisions) for is_recorded in recorded)

    def _in_batches(self, actor: Actor, checks: Sequence[PermissionCheck]) -> Iterator[bool]:
        size = settings.ICEKEEPER.openfga.max_batch_check_size
        for first in range(0, len(checks), size):
            yield from self.decide(actor, checks[first : first + size])

    def visible_ids(
        self,
        actor: Actor,
        *,
        parent: ObjectRef,
        child_type: Securable.Type,
        after: UUID,
        limit: int,
    ) -> list[UUID]:
        """Filter what is visible by our rows through OpenFGA, in requests of up to MAX_BATCH_CHECK_SIZE checks."""
        found: list[UUID] = []
        while len(found) < limit:
            wanted = limit - len(found)
            ids = self._record.visible_ids(actor, parent=parent, child_type=child_type, after=after, limit=wanted)
            shown = self.decide(actor, [(Can.INCLUDE_IN_LIST, ObjectRef(child_type, each)) for each in ids])
            found += [each for each, is_shown in zip(ids, shown, strict=True) if is_shown]
            if len(ids) < wanted:
                break
            after = ids[-1]
        return found

    def all_visible_of(self, actor: Actor, *, parents: Sequence[ObjectRef], child_type: Securable.Type) -> set[int]:
        """Filter what is visible by our rows through OpenFGA, in requests of up to MAX_BATCH_CHECK_SIZE checks."""
        recorded = sorted(self._record.all_visible_of(actor, parents=parents, child_type=child_type))
        refs = [ObjectRef(child_type, UUID(int=each)) for each in recorded]
        shown = self.decide(actor, [(Can.INCLUDE_IN_LIST, ref) for ref in refs])
        return {each for each, is_shown in zip(recorded, shown, strict=True) if is_shown}

    def visible_objects(self, actor: Actor) -> VisibleObjects | None:
        """Return what is visible by our rows, which have more than OpenFGA only until it has the tuples."""
        return self._record.visible_objects(actor)

    def visible_children(self, actor: Actor, *, warehouse_id: UUID) -> VisibleChildren | None:
        """As `visible_objects`."""
        found = self._record.visible_children(actor, warehouse_id=warehouse_id)
        return None if found is None else found._replace(is_exact=False)

    def restrict_to_visible(
        self, actor: Actor, rows: QuerySet[Any], securable_type: Securable.Type, action: Can
    ) -> QuerySet[Any]:
        """Filter what is visible by our rows through OpenFGA, in requests of up to MAX_BATCH_CHECK_SIZE checks.

        Raises `OpenFgaUnavailable` (503) if they take longer than `MAX_DECISION_SECONDS`: filter a page of a big table.
        """
        candidates = self._record.restrict_to_visible(actor, rows, securable_type, action)
        return super().restrict_to_visible(actor, candidates, securable_type, action)

    def clear_caches(self) -> None:
        self._record.clear_caches()
        self._pending.invalidate()
        self._token_roles.clear()

    def _check(self, actor: Actor, tuple_user: _TupleUser, relations: Sequence[tuple[str, str]]) -> list[bool]:
        if not relations:
            return []
        links = self._links_to_visible(actor, relations)
        checks = [
            TupleCheck(
                TupleKey(own_id, relation, tuple_user.name),
                tuple_user.contextual_tuples + (links.get(own_id, ()) if looks_below(_type(own_id), relation) else ()),
            )
            for own_id, relation in relations
        ]
        store, at, decisions = openfga_store(), now(), list[bool]()
        until = time.monotonic() + MAX_DECISION_SECONDS
        for batch in _batches(checks, settings.ICEKEEPER.openfga.max_batch_check_size):
            if decisions and time.monotonic() > until:
                raise OpenFgaUnavailable("it takes too long over many checks")
            decisions += store.check(batch, at=at)
        return decisions

    def _links_to_visible(self, actor: Actor, relations: Sequence[tuple[str, str]]) -> dict[str, tuple[TupleKey, ...]]:
        """Return the links down to an object that may be visible; OpenFGA resolves the links up itself and decides."""
        ids = list(dict.fromkeys(own_id for own_id, relation in relations if looks_below(_type(own_id), relation)))
        if not ids:
            return {}
        subject = Subject.of(actor)
        roles = self._record.roles_of(subject).ids
        found = read_shown_paths(subject, roles, ids, by_parent=types_below_parent())
        return {own_id: tuple(links_down(*paths)) for own_id, paths in found.items()}

    def _confirmed(self, actor: Actor, checks: Sequence[PermissionCheck], decisions: Sequence[bool]) -> list[bool]:
        """Deny what OpenFGA allows and our rows deny."""
        allowed_checks = [check for check, decision in zip(checks, decisions, strict=True) if decision]
        recorded = iter(self._record.decide(actor, allowed_checks))
        return [decision and next(recorded) for decision in decisions]

    def _tuple_user(self, actor: Actor) -> _TupleUser | None:
        """Return None for an actor to which nothing can be granted. Raises `TooManyTokenRoles`."""
        subject = Subject.of(actor)
        if subject.assumed_role is not None:
            name = assumed_subject(subject.assumed_role)
            return _TupleUser(name, (TupleKey(f"role:{subject.assumed_role}", "assignee", name),))
        if subject.user_id is None:
            return None
        roles = self._roles_of_token(subject) if subject.token_roles else ()
        if len(roles) > MAX_CONTEXTUAL_TUPLES - MAX_LINKS_DOWN:
            raise TooManyTokenRoles(
                f"The token names {len(roles)} roles of this server; the maximum with OpenFGA is "
                f"{MAX_CONTEXTUAL_TUPLES - MAX_LINKS_DOWN}"
            )
        contextual = tuple(member_key(each, user_id=subject.user_id, member_role_id=None) for each in roles)
        return _TupleUser(user_subject(subject.user_id), contextual)

    def _roles_of_token(self, subject: Subject) -> tuple[UUID, ...]:
        key = (subject.provider_id, subject.token_roles)
        known = self._token_roles.get(key)
        if known is not None:
            return known.value
        epoch = permission_epoch.current()
        roles = tuple(read_token_roles(subject))
        self._token_roles.put(key, roles, epoch=epoch, ends_at=NO_EXPIRY)
        return roles


def _relation(check: PermissionCheck) -> tuple[str, str] | None:
    """Return the object and the relation to check; None for an object that OpenFGA cannot have."""
    action, (object_type, object_id) = check
    relation = underlying_relation(object_type.value, action.value)
    if relation is None or not _OBJECT_ID.fullmatch(str(object_id)):
        return None
    return securable_id(object_type, object_id), relation


def _type(own_id: str) -> str:
    return own_id.partition(":")[0]


def _batches(checks: Sequence[TupleCheck], size: int) -> Iterator[Sequence[TupleCheck]]:
    for first in range(0, len(checks), size):
        yield checks[first : first + size]
