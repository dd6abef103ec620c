"""What is granted by `pass_grants` alone lasts no longer than what its giver has."""

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
"""Before an end, the last at which what ends counts."""


def require_to_outlast(
    actor: Actor, ref: ObjectRef, given: Sequence[tuple[str, datetime | None]], missing: CatalogError
) -> None:
    """That `actor` may still grant the privileges at their ends, in whatever way by then, memberships counted.

    Rights only end: who has them then has them until then. To be asked under the lock of the object. One decision for
    each privilege. `missing` tells how the caller named the object. Raises `GrantActionForbidden` (403).
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
