"""The port of authorization backends, and the backend that `LAKEKEEPER__AUTHZ_BACKEND` selects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils.module_loading import import_string

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import NO_LIMIT
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef


class AuthorizationBackendError(CatalogError):
    """The authorization backend is unavailable, so every check is denied."""

    status, wire_type, retry_after = 503, "AuthorizationBackendError", 5


class Subject(NamedTuple):
    """A user with the roles of the token, or one assumed role."""

    user_id: str | None
    assumed_role: UUID | None
    provider_id: str
    token_roles: tuple[str, ...]

    @classmethod
    def of(cls, actor: Actor) -> Subject:
        if actor.assumed_role is not None:
            return cls(None, actor.assumed_role, "", ())
        identity = actor.identity
        if identity is None or not identity.roles:
            return cls(actor.user_id, None, "", ())
        return cls(actor.user_id, None, identity.provider_id, tuple(r for r in identity.roles if "\x00" not in r))

    def grants_filter(self, roles: Iterable[UUID]) -> Q:
        """Return the filter for grants to the subject or to one of its `roles`."""
        to_roles = Q(role_id__in=list(roles))
        return to_roles if self.user_id is None else to_roles | Q(user_id=self.user_id)


PermissionCheck = tuple[Can, ObjectRef]
"""An action and the object to check it on."""

NO_OBJECT = UUID(int=0)
"""An id that no object has."""


@dataclass(frozen=True, slots=True)
class VisibleObjects:
    """The warehouses, namespaces and tabulars that an actor may see, by their ids.

    Everything in `projects` and `warehouses`, what is directly in `namespaces`, and `tabulars`. `parents` are the
    warehouses and namespaces above those.
    """

    projects: frozenset[str]
    warehouses: frozenset[UUID]
    namespaces: frozenset[UUID]
    tabulars: frozenset[UUID]
    parents: frozenset[UUID]


class VisibleChildren(NamedTuple):
    """By id of a warehouse or namespace: the ids of what an actor sees directly in it, by a grant on that or below it.

    Without `is_exact` there may be hidden ones: check these.
    """

    ids: Mapping[UUID, Collection[UUID]]
    is_exact: bool


class Authorizer(ABC):
    """Decides permission checks. A deployment may name a class of its own in `LAKEKEEPER__AUTHZ_BACKEND`.

    Methods raise `AuthorizationBackendError` (503) when they cannot decide: the check is denied then.
    """

    name: ClassVar[str]
    """Shown by `GET /management/v1/info`."""

    @abstractmethod
    def decide(self, actor: Actor, checks: Sequence[PermissionCheck]) -> list[bool]:
        """Return a decision for each check, in order. Unknown objects are denied."""

    def decide_in_turn(self, actor: Actor, checks: Sequence[PermissionCheck]) -> Iterator[bool]:
        """As `decide`, for lists that may stop early: expensive decisions are computed as they are consumed."""
        yield from require_decision_for_each(self.decide(actor, checks), checks)

    def decide_at(self, actor: Actor, checks: Sequence[PermissionCheck], at: datetime) -> list[bool]:
        """As `decide`, at a later moment, by the current grants; for backends whose grants expire.

        Called only for checks that are allowed now.
        """
        return self.decide(actor, checks)

    @abstractmethod
    def visible_ids(
        self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID, limit: int
    ) -> list[UUID]:
        """Return the first `limit` ids after `after`, in order, of the children of `parent` that `actor` may see.

        Called only for actors without `Can.LIST_EVERYTHING` on the parent.
        """

    def all_visible(self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID) -> set[int]:
        """Return all ids that `visible_ids` finds, as `UUID.int`: integers are much faster to create and compare."""
        ids = self.visible_ids(actor, parent=parent, child_type=child_type, after=after, limit=NO_LIMIT)
        return {each.int for each in ids}

    def all_visible_of(self, actor: Actor, *, parents: Sequence[ObjectRef], child_type: Securable.Type) -> set[int]:
        """As `all_visible`, for the children of several objects, of a type that has no children itself."""
        found: set[int] = set()
        for parent in parents:
            found |= self.all_visible(actor, parent=parent, child_type=child_type, after=NO_OBJECT)
        return found

    def visible_objects(self, actor: Actor) -> VisibleObjects | None:
        """Return all warehouses, namespaces and tabulars that `actor` may see, and perhaps hidden ones: check these.

        None: they are all or too many objects, or unknown before they are checked.
        """
        return None

    def visible_children(self, actor: Actor, *, warehouse_id: UUID) -> VisibleChildren | None:
        """Return the visible children of each object of a warehouse in which `actor` does not see everything.

        None: too many objects, or unknown before they are checked.
        """
        return None

    def restrict_to_visible(
        self, actor: Actor, rows: QuerySet[Any], securable_type: Securable.Type, action: Can
    ) -> QuerySet[Any]:
        """Return those of the rows, of objects of a type by their primary key, on which `action` is allowed."""
        ids = list(rows.values_list("pk", flat=True))
        decided = self.decide(actor, [(action, ObjectRef(securable_type, each)) for each in ids]) if ids else []
        return rows.filter(pk__in=[each for each, is_seen in zip(ids, decided, strict=True) if is_seen])


class AllowAll(Authorizer):
    """Allows everything: for laptops, and for networks that protect the server themselves."""

    name = "allowall"

    def decide(self, actor: Actor, checks: Sequence[PermissionCheck]) -> list[bool]:
        return [True] * len(checks)

    def visible_ids(
        self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID, limit: int
    ) -> list[UUID]:
        raise RuntimeError("every actor may list everything, so visible ids are never read")

    def restrict_to_visible(
        self, actor: Actor, rows: QuerySet[Any], securable_type: Securable.Type, action: Can
    ) -> QuerySet[Any]:
        return rows


_BACKENDS = {
    "allowall": "tenancy.authz.port.AllowAll",
    "builtin": "tenancy.authz.builtin.backend.BuiltinAuthorizer",
    "openfga": "tenancy.authz.openfga.backend.OpenFgaAuthorizer",
}


@cache
def authorizer() -> Authorizer:
    chosen: str = settings.ICEKEEPER.effective_authz_backend
    backend: Authorizer = import_string(_BACKENDS.get(chosen, chosen))()
    return backend


def is_openfga() -> bool:
    """Return whether OpenFGA decides permissions."""
    return bool(settings.ICEKEEPER.authz_backend == "openfga")


def is_authorization_off() -> bool:
    """Return whether the catalog has no authorization, so that all callers may do everything in it."""
    return bool(settings.ICEKEEPER.effective_authz_backend == AllowAll.name)


def require_decision_for_each(decided: list[bool], checks: Sequence[PermissionCheck]) -> list[bool]:
    if len(decided) != len(checks):
        raise RuntimeError("the authorizer did not decide each check")
    return decided
