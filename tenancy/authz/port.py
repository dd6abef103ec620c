"""The one question about rights, and who answers it.

Services and selectors call `require`, listings `are_allowed`; which backend answers is the deployment's choice
(`LAKEKEEPER__AUTHZ_BACKEND`). This version has `allowall`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache

from django.conf import settings

from icekeeper.kernel.errors import CatalogError, Forbidden
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.securables import Ref
from tenancy.models import Securable


class Authorizer(ABC):
    @abstractmethod
    def allows(self, actor: Actor, action: Can, securable_type: Securable.Type, object_id: object) -> bool:
        """Whether `actor` may do `action` on the object."""

    def allows_each(self, actor: Actor, action: Can, objects: Sequence[Ref]) -> list[bool]:
        """`allows` for each of the objects; a backend that has to look something up does so for all at once."""
        return [self.allows(actor, action, securable_type, object_id) for securable_type, object_id in objects]


class AllowAll(Authorizer):
    """Everybody may do everything: for laptops, and for networks that guard the server themselves."""

    def allows(self, actor: Actor, action: Can, securable_type: Securable.Type, object_id: object) -> bool:
        return True


_BACKENDS: dict[str, type[Authorizer]] = {"allowall": AllowAll}


@cache
def authorizer() -> Authorizer:
    return _BACKENDS[settings.ICEKEEPER.authz_backend]()


def require(
    actor: Actor, action: Can, securable_type: Securable.Type, object_id: object, *, missing: CatalogError | None = None
) -> None:
    """Raises `Forbidden` (403) unless `actor` may do `action` on the object.

    Where even that the object exists must stay hidden from the actor, it raises `missing` instead: what the caller
    would raise if there were none.
    """
    if not authorizer().allows(actor, action, securable_type, object_id):
        raise Forbidden(f"{actor.name} may not {action} on {securable_type} {object_id}")


def is_allowed(actor: Actor, action: Can, securable_type: Securable.Type, object_id: object) -> bool:
    """`require` as a question, for listings that show less to some."""
    return authorizer().allows(actor, action, securable_type, object_id)


def are_allowed(actor: Actor, action: Can, objects: Sequence[Ref]) -> list[bool]:
    """Whether `actor` may do `action` on each of the objects, in their order."""
    answers = authorizer().allows_each(actor, action, objects)
    if len(answers) != len(objects):
        raise RuntimeError("the authorizer did not answer for each object")
    return answers


def require_each(actor: Actor, action: Can, objects: Sequence[Ref]) -> None:
    """As `require`, for all of the objects: one that is refused refuses all."""
    for (securable_type, object_id), answer in zip(objects, are_allowed(actor, action, objects), strict=True):
        if not answer:
            raise Forbidden(f"{actor.name} may not {action} on {securable_type} {object_id}")
