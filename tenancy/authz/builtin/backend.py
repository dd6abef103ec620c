"""The built-in evaluator: the model over the relation rows of our own database.

Grants on the path to an object are cached until the permission epoch changes, so that a busy engine costs no statement.
Objects on whose path the subject has no grant are not cached: guessing names fills no memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import F, QuerySet, UUIDField

from icekeeper.kernel.clock import now
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.builtin.evaluation import Evaluation, looks_below
from tenancy.authz.builtin.queries import (
    GrantsOnPaths,
    Roles,
    read_all_shown_children,
    read_grants_on_paths,
    read_roles,
    read_shown_children,
    read_shown_leaves,
    read_shows_below,
    visible_securables,
)
from tenancy.authz.builtin.visible_objects import read_visible_children, read_visible_objects
from tenancy.authz.model import MANAGED_ACCESS
from tenancy.authz.permission_epoch import NO_EXPIRY, DecisionCache, SharedReads, permission_epoch, shared_reads
from tenancy.authz.port import Authorizer, PermissionCheck, Subject, VisibleChildren, VisibleObjects
from tenancy.models import Securable
from tenancy.models.securable import AsUuid, ObjectRef, securable_id

MAX_CACHED_OBJECTS: Final = 50_000
"""Pairs of subject and object, each about half a KB."""

MAX_CACHED_SUBJECTS: Final = 10_000
"""Subjects whose roles are cached."""


class BuiltinAuthorizer(Authorizer):
    name = "builtin"

    def __init__(self) -> None:
        self._objects: DecisionCache[Evaluation] = DecisionCache(MAX_CACHED_OBJECTS)
        self._subject_roles: DecisionCache[Roles] = DecisionCache(MAX_CACHED_SUBJECTS)

    def decide(self, actor: Actor, checks: Sequence[PermissionCheck]) -> list[bool]:
        """Run one statement for all objects that are not cached, rarely a second one for visible objects below them.

        One more before it when the roles of the subject are not cached.
        """
        subject = Subject.of(actor)
        relations = [(securable_id(*ref), f"can_{action.value}") for action, ref in checks]
        ids = list(dict.fromkeys([own_id for own_id, _ in relations]))
        found = self._cached(subject, ids)
        shows: dict[str, bool] = {}
        unknown = [own_id for own_id in ids if own_id not in found]
        if unknown:
            below = [own_id for own_id, relation in relations if own_id not in found and looks_below(own_id, relation)]
            read, shows = self._read(subject, unknown, list(dict.fromkeys(below)))
            found |= read
        informed = {own_id: found[own_id].with_shows_below(shows) for own_id in shows}
        decisions = [informed.get(own_id, found[own_id]).holds(relation) for own_id, relation in relations]
        if all(decisions):
            return decisions
        return self._decide_by_objects_below(subject, relations, decisions, {**found, **informed})

    def _decide_by_objects_below(
        self,
        subject: Subject,
        relations: Sequence[tuple[str, str]],
        decisions: list[bool],
        found: Mapping[str, Evaluation],
    ) -> list[bool]:
        """Decide again the denied checks that a visible object below may allow."""
        denied = {
            own_id
            for (own_id, relation), is_granted in zip(relations, decisions, strict=True)
            if not is_granted and looks_below(own_id, relation)
        }
        unknown = sorted({each for own_id in denied for each in found[own_id].unknown_below})
        if not unknown:
            return decisions
        shows = self._shows_below(subject, unknown)
        informed = {own_id: found[own_id].with_shows_below(shows) for own_id in denied}
        return [
            is_granted or (own_id in informed and informed[own_id].holds(relation))
            for (own_id, relation), is_granted in zip(relations, decisions, strict=True)
        ]

    def decide_at(self, actor: Actor, checks: Sequence[PermissionCheck], at: datetime) -> list[bool]:
        """Run two statements; nothing is cached, and objects below do not count."""
        subject = Subject.of(actor)
        relations = [(securable_id(*ref), f"can_{action.value}") for action, ref in checks]
        ids = list(dict.fromkeys(own_id for own_id, _ in relations))
        grants = read_grants_on_paths(subject, read_roles(subject, at=at).ids, ids, at=at)
        found = {own_id: Evaluation(path) for own_id, path in grants.paths.items()}
        return [found[own_id].holds(relation) for own_id, relation in relations]

    def visible_ids(
        self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID, limit: int
    ) -> list[UUID]:
        """Run one statement. Children that are visible through the parent are not included: check the parent first."""
        subject = Subject.of(actor)
        roles = self.roles_of(subject).ids
        return read_shown_children(subject, roles, parent, child_type.value, after=after, limit=limit)

    def all_visible(self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID) -> set[int]:
        subject = Subject.of(actor)
        return read_all_shown_children(subject, self.roles_of(subject).ids, parent, child_type.value, after=after)

    def all_visible_of(self, actor: Actor, *, parents: Sequence[ObjectRef], child_type: Securable.Type) -> set[int]:
        """Run one statement, which reads the index of grants once for each parent and grantee."""
        subject = Subject.of(actor)
        return read_shown_leaves(subject, self.roles_of(subject).ids, parents, child_type.value)

    def visible_objects(self, actor: Actor) -> VisibleObjects | None:
        """Run one statement, and one for the roles of a subject that is not cached."""
        subject = Subject.of(actor)
        return read_visible_objects(subject, self.roles_of(subject).ids)

    def visible_children(self, actor: Actor, *, warehouse_id: UUID) -> VisibleChildren | None:
        """Run one statement, and one for the roles of a subject that is not cached."""
        subject = Subject.of(actor)
        return read_visible_children(subject, self.roles_of(subject).ids, warehouse_id)

    def restrict_to_visible(
        self, actor: Actor, rows: QuerySet[Any], securable_type: Securable.Type, action: Can
    ) -> QuerySet[Any]:
        """Add a condition to the query; runs one statement for the roles of a subject that is not cached."""
        subject = Subject.of(actor)
        roles = self.roles_of(subject).ids
        seen = visible_securables(subject, roles, securable_type.value, f"can_{action.value}", at=now())
        ids = AsUuid("object_id") if isinstance(rows.model._meta.pk, UUIDField) else F("object_id")  # noqa: SLF001 - Django's own name
        return rows.filter(pk__in=seen.annotate(own_id=ids).values("own_id"))

    def clear_caches(self) -> None:
        self._objects.clear()
        self._subject_roles.clear()

    def roles_of(self, subject: Subject) -> Roles:
        known = self._subject_roles.get(subject)
        if known is not None:
            return known.value
        shared = shared_reads()
        if shared is not None and subject in shared.roles:
            return shared.roles[subject]
        epoch = permission_epoch.current()
        found = read_roles(subject)
        self._subject_roles.put(subject, found, epoch=epoch, ends_at=_seconds(found.expires_at))
        if shared is not None:
            shared.roles[subject] = found
        return found

    def _cached(self, subject: Subject, ids: Sequence[str]) -> dict[str, Evaluation]:
        known: dict[str, Evaluation] = {}
        shared = shared_reads()
        for own_id in ids:
            kept = self._objects.get((subject, own_id))
            if kept is not None:
                known[own_id] = kept.value
            elif shared is not None and (subject, own_id) in shared.objects:
                known[own_id] = shared.objects[subject, own_id]
        return known

    def _shows_below(self, subject: Subject, ids: Sequence[str]) -> dict[str, bool]:
        """Return by id whether an object below is visible to the subject; one statement for those not read before."""
        shared = shared_reads()
        known = {} if shared is None else shared.shows_below
        found = {each: known[subject, each] for each in ids if (subject, each) in known}
        unknown = [each for each in ids if each not in found]
        if unknown:
            found |= read_shows_below(subject, self.roles_of(subject).ids, unknown)
        if shared is not None:
            shared.shows_below |= {(subject, each): is_shown for each, is_shown in found.items()}
        return found

    def _read(
        self, subject: Subject, ids: Sequence[str], below: Sequence[str]
    ) -> tuple[dict[str, Evaluation], dict[str, bool]]:
        """Read evaluations. Visibility of objects below is not cached: new objects do not bump the epoch."""
        epoch = permission_epoch.current()
        roles = self.roles_of(subject)
        grants = read_grants_on_paths(subject, roles.ids, ids, below=below)
        ends_at = min(_seconds(grants.expires_at), _seconds(roles.expires_at))
        found = {}
        for own_id, path in grants.paths.items():
            found[own_id] = Evaluation(path)
            if any(node.relations - {MANAGED_ACCESS} for node in path):
                self._objects.put((subject, own_id), found[own_id], epoch=epoch, ends_at=ends_at)
        shared = shared_reads()
        if shared is not None and shared.epoch == epoch:
            _share(shared, subject, grants)
        return found, dict(grants.shows_below)


def _share(shared: SharedReads, subject: Subject, grants: GrantsOnPaths) -> None:
    """Keep the evaluation of each object and of its parents, whose grants were read with it."""
    for path in grants.paths.values():
        for number, node in enumerate(path, start=1):
            if (subject, node.id) not in shared.objects:
                shared.objects[subject, node.id] = Evaluation(path[:number])
    shared.shows_below |= {(subject, each): is_shown for each, is_shown in grants.shows_below.items()}


def _seconds(at: datetime | None) -> float:
    """Return seconds since 1970; infinite without expiry."""
    return NO_EXPIRY if at is None else at.timestamp()
