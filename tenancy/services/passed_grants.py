"""Limit of grants by `pass_grants` alone: they expire no later than the privileges of the granting actor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.builtin.role_paths import NEVER, expiry_timestamp
from tenancy.authz.errors import GrantActionForbidden, display_name
from tenancy.authz.permissions import check_permissions_at
from tenancy.authz.privileges import grant_action
from tenancy.refs import ObjectRef

_LAST_MOMENT: Final = timedelta(microseconds=1)
"""A grant is last valid this long before its expiry."""


def require_to_outlast(
    actor: Actor, ref: ObjectRef, given: Sequence[tuple[str, datetime | None]], missing: CatalogError
) -> None:
    """Require that `actor` may still grant each privilege just before its expiry, also through memberships.

    Grants only expire, so a permission at that time also exists until then. Call it under the lock of the object. One
    check per privilege. `missing` has the name of the object in the request. Raises `GrantActionForbidden` (403).
    """
    latest: dict[str, datetime | None] = {}
    for privilege, end in given:
        latest[privilege] = max(latest.get(privilege, end), end, key=expiry_timestamp)
    for privilege, end in latest.items():
        action = grant_action(privilege)
        if not check_permissions_at(actor, [(action, ref)], NEVER if end is None else end - _LAST_MOMENT)[0]:
            record_denial(
                actor=actor, action=action, object_type=ref.type.value, object_id=ref.id, reason="ActionForbidden"
            )
            raise GrantActionForbidden(
                f"{actor.name} may not grant on {display_name(ref, missing)}: {privilege} for longer than they have it "
                "themselves with pass_grants; an earlier expires-at is needed"
            )
