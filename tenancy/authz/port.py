"""The one question about rights, and who answers it.

Services and selectors call `require`; which backend answers is the deployment's choice
(`LAKEKEEPER__AUTHZ_BACKEND`). This version has `allowall`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache

from django.conf import settings

from icekeeper.kernel.errors import Forbidden
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Securable


class Authorizer(ABC):
    @abstractmethod
    def allows(self, actor: Actor, action: Can, securable_type: Securable.Type, object_id: object) -> bool:
        """Whether `actor` may do `action` on the object."""


class AllowAll(Authorizer):
    """Everybody may do everything: for laptops, and for networks that guard the server themselves."""

    def allows(self, actor: Actor, action: Can, securable_type: Securable.Type, object_id: object) -> bool:
        return True


_BACKENDS: dict[str, type[Authorizer]] = {"allowall": AllowAll}


@cache
def authorizer() -> Authorizer:
    return _BACKENDS[settings.ICEKEEPER.authz_backend]()


def require(actor: Actor, action: Can, securable_type: Securable.Type, object_id: object) -> None:
    """Raises `Forbidden` (403) unless `actor` may do `action` on the object."""
    if not authorizer().allows(actor, action, securable_type, object_id):
        raise Forbidden(f"{actor.name} may not {action} on {securable_type} {object_id}")
