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
from typing import Final
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import Forbidden
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.builtin.decision_cache import NO_EXPIRY, DecisionCache
from tenancy.authz.builtin.queries import read_shown_paths, read_token_roles
from tenancy.authz.model import DOWN, UP, Computed, Linked, MalformedModel, parts_of
from tenancy.authz.openfga.authorization_model import unfolded_model
from tenancy.authz.openfga.client import OpenFgaUnavailable
from tenancy.authz.openfga.outbox import PendingTuples
from tenancy.authz.openfga.store import Check, openfga_store
from tenancy.authz.openfga.tuples import TupleKey, assumed_subject, member_key, user_subject
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.port import Authorizer, PermissionCheck
from tenancy.authz.subject import Subject
from tenancy.models import Securable
from tenancy.refs import ObjectRef, securable_id

_HERE: Final = 0


_ABOVE: Final = 1


@cache
def asked_relation(object_type: str, action: str) -> str | None:
    """The relation that `can_<action>` is another name of; None for what cannot be done with such objects.

    Most actions are a few relations by other names, each of which need be asked but once.
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
    """Whether the answer may depend on what lies below the object, or below its parent (`types_below_parent`)."""
    return bool(_levels(object_type, relation))


@cache
def types_below_parent() -> tuple[str, ...]:
    """The types of objects about which something depends on what else lies below their parent, as roles and tags."""
    return tuple(
        object_type
        for object_type, relations in unfolded_model().types.items()
        if any(_ABOVE in _levels(object_type, relation) for relation in relations)
    )


@cache
def _levels(object_type: str, relation: str) -> frozenset[int]:
    """How far above the object it is whose `child` links count. Raises `MalformedModel` above its parent."""
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
    """The `child` links from the object at `path` to the one at `below`, each path as `Securable.path` has it."""
    top = path.rstrip("/").rpartition("/")[2]
    steps = [top, *below.removeprefix(path).rstrip("/").split("/")]
    return [TupleKey(above, DOWN, child) for above, child in pairwise(steps)]


MOST_TOLD: Final = 100
"""Tuples that OpenFGA lets be told with a question."""


LONGEST_WAY_DOWN: Final = 10
"""Of them, those that are kept free for the way down: project, warehouse, five namespaces, table at most."""


LONGEST_ANSWER: Final = 10.0
"""Seconds that all requests for one decision may take together."""


MAX_CACHED_TOKEN_ROLES: Final = 10_000
"""Lists of roles in tokens."""


_OBJECT_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


class TooManyTokenRoles(Forbidden):
    """A token names more roles of ours than OpenFGA can be told."""

    wire_type = "TooManyTokenRoles"


@dataclass(frozen=True, slots=True)
class _TupleUser:
    """Who asks: as what, and by which tuples that are told with each question."""

    name: str
    told: tuple[TupleKey, ...]


class OpenFgaAuthorizer(Authorizer):
    name = "openfga"

    def __init__(self) -> None:
        self._record = BuiltinAuthorizer()
        self._pending = PendingTuples()
        self._token_roles: DecisionCache[tuple[UUID, ...]] = DecisionCache(MAX_CACHED_TOKEN_ROLES)

    def decide(self, actor: Actor, questions: Sequence[PermissionCheck]) -> list[bool]:
        """One request for up to MAX_BATCH_CHECK_SIZE different ones; a statement more where what lies below counts.

        Also raises `TooManyTokenRoles` (403).
        """
        tuple_user = self._tuple_user(actor)
        if tuple_user is None:
            return [False] * len(questions)
        # Before OpenFGA is asked: what is committed after that may count or not.
        is_everything_there = self._pending.is_none()
        asked = [_relation(question) for question in questions]
        distinct = list(dict.fromkeys(each for each in asked if each is not None))
        found = dict(zip(distinct, self._ask(actor, tuple_user, distinct), strict=True))
        answers = [each is not None and found[each] for each in asked]
        if is_everything_there or not any(answers):
            return answers
        return self._confirmed(actor, questions, answers)

    def decide_at(self, actor: Actor, questions: Sequence[PermissionCheck], at: datetime) -> list[bool]:
        """By our rows, which have all the ends that OpenFGA is told."""
        return self._record.decide_at(actor, questions, at)

    def decide_in_turn(self, actor: Actor, questions: Sequence[PermissionCheck]) -> Iterator[bool]:
        """What our rows deny is no, without a question; OpenFGA is asked about MAX_BATCH_CHECK_SIZE of the others at
        once, as soon as the first of them is come to.
        """
        recorded = self._record.decide(actor, questions)
        candidates = [question for question, answer in zip(questions, recorded, strict=True) if answer]
        answers = self._in_turn(actor, candidates)
        yield from (is_recorded and next(answers) for is_recorded in recorded)

    def _in_turn(self, actor: Actor, questions: Sequence[PermissionCheck]) -> Iterator[bool]:
        size = settings.ICEKEEPER.openfga.max_batch_check_size
        for first in range(0, len(questions), size):
            yield from self.decide(actor, questions[first : first + size])

    def visible_ids(
        self,
        actor: Actor,
        *,
        parent: ObjectRef,
        child_type: Securable.Type,
        after: UUID,
        limit: int,
    ) -> list[UUID]:
        """Of what is visible by our rows, what OpenFGA shows: a request for up to MAX_BATCH_CHECK_SIZE of them."""
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
        """Of what is visible by our rows, what OpenFGA shows: a request for up to MAX_BATCH_CHECK_SIZE of them."""
        recorded = sorted(self._record.all_visible_of(actor, parents=parents, child_type=child_type))
        refs = [ObjectRef(child_type, UUID(int=each)) for each in recorded]
        shown = self.decide(actor, [(Can.INCLUDE_IN_LIST, ref) for ref in refs])
        return {each for each, is_shown in zip(recorded, shown, strict=True) if is_shown}

    def clear_caches(self) -> None:
        self._record.clear_caches()
        self._pending.invalidate()
        self._token_roles.clear()

    def _ask(self, actor: Actor, tuple_user: _TupleUser, asked: Sequence[tuple[str, str]]) -> list[bool]:
        if not asked:
            return []
        ways = self._ways_down(actor, asked)
        checks = [
            Check(
                TupleKey(own_id, relation, tuple_user.name),
                tuple_user.told + (ways.get(own_id, ()) if looks_below(_type(own_id), relation) else ()),
            )
            for own_id, relation in asked
        ]
        store, at, answers = openfga_store(), now(), list[bool]()
        until = time.monotonic() + LONGEST_ANSWER
        for batch in _batches(checks, settings.ICEKEEPER.openfga.max_batch_check_size):
            if answers and time.monotonic() > until:
                raise OpenFgaUnavailable("it takes too long over many questions")
            answers += store.check(batch, at=at)
        return answers

    def _ways_down(self, actor: Actor, asked: Sequence[tuple[str, str]]) -> dict[str, tuple[TupleKey, ...]]:
        """To what may be visible below the objects; OpenFGA finds its way up by itself, and judges the rest."""
        ids = list(dict.fromkeys(own_id for own_id, relation in asked if looks_below(_type(own_id), relation)))
        if not ids:
            return {}
        subject = Subject.of(actor)
        roles = self._record.roles_of(subject).ids
        found = read_shown_paths(subject, roles, ids, by_parent=types_below_parent())
        return {own_id: tuple(links_down(*paths)) for own_id, paths in found.items()}

    def _confirmed(self, actor: Actor, questions: Sequence[PermissionCheck], answers: Sequence[bool]) -> list[bool]:
        """The answers, less those that our rows do not bear out."""
        open_questions = [question for question, answer in zip(questions, answers, strict=True) if answer]
        recorded = iter(self._record.decide(actor, open_questions))
        return [answer and next(recorded) for answer in answers]

    def _tuple_user(self, actor: Actor) -> _TupleUser | None:
        """None for who has no rights whatever is granted. Raises `TooManyTokenRoles`."""
        subject = Subject.of(actor)
        if subject.assumed_role is not None:
            name = assumed_subject(subject.assumed_role)
            return _TupleUser(name, (TupleKey(f"role:{subject.assumed_role}", "assignee", name),))
        if subject.user_id is None:
            return None
        roles = self._roles_of_token(subject) if subject.token_roles else ()
        if len(roles) > MOST_TOLD - LONGEST_WAY_DOWN:
            raise TooManyTokenRoles(
                f"The token names {len(roles)} roles of this server; with OpenFGA it may be "
                f"{MOST_TOLD - LONGEST_WAY_DOWN} at most"
            )
        told = tuple(member_key(each, user_id=subject.user_id, member_role_id=None) for each in roles)
        return _TupleUser(user_subject(subject.user_id), told)

    def _roles_of_token(self, subject: Subject) -> tuple[UUID, ...]:
        key = (subject.provider_id, subject.token_roles)
        known = self._token_roles.get(key)
        if known is not None:
            return known.value
        stamp = permission_epoch.current()
        roles = tuple(read_token_roles(subject))
        self._token_roles.put(key, roles, epoch=stamp, ends_at=NO_EXPIRY)
        return roles


def _relation(question: PermissionCheck) -> tuple[str, str] | None:
    """The object and the relation that are asked about; None for what is no object of OpenFGA's."""
    action, (object_type, object_id) = question
    relation = asked_relation(object_type.value, action.value)
    if relation is None or not _OBJECT_ID.fullmatch(str(object_id)):
        return None
    return securable_id(object_type, object_id), relation


def _type(own_id: str) -> str:
    return own_id.partition(":")[0]


def _batches(checks: Sequence[Check], size: int) -> Iterator[Sequence[Check]]:
    for first in range(0, len(checks), size):
        yield checks[first : first + size]
