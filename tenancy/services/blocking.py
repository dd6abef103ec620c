"""Services that block and unblock users of this server, independent of their identity provider."""

from __future__ import annotations

from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authn.own_tokens.stored_tokens import revocation_transaction
from tenancy.authz.actions import Can
from tenancy.models import User
from tenancy.selectors.users import require_for_user, user_not_found
from tenancy.user_ids import require_user_id


def block_user(*, actor: Actor, user_id: str) -> bool:
    """Reject all tokens of a user; return whether the user was not blocked before. Grants and tokens are kept.

    The last administrator can be blocked, too: blocking must not depend on others. A deleted user can be blocked and
    then cannot register again. Tokens of this server are rejected immediately in this process and within 5 seconds
    elsewhere, those of identity providers within a minute, at their next verification.
    Raises `InvalidUserId` (400), `UserNotFound` (404).
    """
    return _set_active(actor, user_id, is_active=False)


def unblock_user(*, actor: Actor, user_id: str) -> bool:
    """Unblock a user; return whether the user was blocked. Raises as `block_user`."""
    return _set_active(actor, user_id, is_active=True)


def _set_active(actor: Actor, user_id: str, *, is_active: bool) -> bool:
    require_user_id(user_id)
    require_for_user(actor, Can.DELETE, user_id)
    with revocation_transaction():
        rows = User.objects.filter(pk=user_id)
        changed = bool(rows.exclude(is_active=is_active).update(is_active=is_active))
        if not changed and not rows.exists():
            raise user_not_found(user_id)
        if changed:
            record(Event.USER_UNBLOCKED if is_active else Event.USER_BLOCKED, actor=actor, subject=user_id)
    return changed
