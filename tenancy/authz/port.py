"""The one question about rights, and who answers it.

Services and selectors call `require`, listings `are_allowed`, `visible_ids` and `all_visible`. Required permissions are
checked again before a write if grants changed meanwhile (`icekeeper.kernel.request.permission_recheck`).
`LAKEKEEPER__AUTHZ_BACKEND` selects the backend; `tenancy.authz.permissions` holds what is true for every backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import ClassVar
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from icekeeper.kernel.http.paging import EVERYTHING
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.refs import ObjectRef

PermissionCheck = tuple[Can, ObjectRef]
"""Whether somebody may do something on an object."""


NO_OBJECT = UUID(int=0)
"""The id of no object of any type."""


class Authorizer(ABC):
    """Who decides. A class of a deployment's own is named by `LAKEKEEPER__AUTHZ_BACKEND` with its dotted path.

    It raises `AuthorizationBackendError` when it cannot tell: what is not known to be allowed is not.
    """

    name: ClassVar[str]
    """Shown by `GET /management/v1/info`."""

    @abstractmethod
    def decide(self, actor: Actor, questions: Sequence[PermissionCheck]) -> list[bool]:
        """An answer for each question, in their order. Objects that there are not answer no."""

    def decide_in_turn(self, actor: Actor, questions: Sequence[PermissionCheck]) -> Iterator[bool]:
        """As `decide`, for lists, which may end before the last answer: what costs much is asked as it is come to."""
        yield from require_decision_for_each(self.decide(actor, questions), questions)

    def decide_at(self, actor: Actor, questions: Sequence[PermissionCheck], at: datetime) -> list[bool]:
        """As `decide`, of a moment to come and by what is granted now: for backends whose rights end to say.

        Asked only about what `actor` may do now.
        """
        return self.decide(actor, questions)

    @abstractmethod
    def visible_ids(
        self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID, limit: int
    ) -> list[UUID]:
        """The first `limit` ids behind `after` of what `actor` sees of the direct children of `parent`, in order.

        Asked only for who may not do `Can.LIST_EVERYTHING` on the parent.
        """

    def all_visible(self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID) -> set[int]:
        """All that `visible_ids` would find, by `UUID.int`: numbers are made and compared in a fraction of the time."""
        ids = self.visible_ids(actor, parent=parent, child_type=child_type, after=after, limit=EVERYTHING)
        return {each.int for each in ids}

    def all_visible_of(self, actor: Actor, *, parents: Sequence[ObjectRef], child_type: Securable.Type) -> set[int]:
        """As `all_visible`, of the children of several objects, and of a type that has no children itself."""
        found: set[int] = set()
        for parent in parents:
            found |= self.all_visible(actor, parent=parent, child_type=child_type, after=NO_OBJECT)
        return found


class AllowAll(Authorizer):
    """Everybody may do everything: for laptops, and for networks that guard the server themselves."""

    name = "allowall"

    def decide(self, actor: Actor, questions: Sequence[PermissionCheck]) -> list[bool]:
        return [True] * len(questions)

    def visible_ids(
        self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID, limit: int
    ) -> list[UUID]:
        raise RuntimeError("nobody's view is asked for: everybody may list everything")


_BACKENDS = {
    "allowall": "tenancy.authz.port.AllowAll",
    "builtin": "tenancy.authz.builtin.backend.BuiltinAuthorizer",
    "openfga": "tenancy.authz.openfga.backend.OpenFgaAuthorizer",
}


@cache
def authorizer() -> Authorizer:
    chosen: str = settings.ICEKEEPER.effective_authz_backend
    made: Authorizer = import_string(_BACKENDS.get(chosen, chosen))()
    return made


def require_decision_for_each(decided: list[bool], questions: Sequence[PermissionCheck]) -> list[bool]:
    if len(decided) != len(questions):
        raise RuntimeError("the authorizer did not answer each question")
    return decided
