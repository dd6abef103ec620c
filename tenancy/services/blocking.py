"""Users who are locked out of this server, whatever their provider says, and let in again."""

from __future__ import annotations

from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authn.own_tokens.stored_tokens import revocation_transaction
from tenancy.authz.actions import Can
from tenancy.models import User
from tenancy.selectors.users import require_for_user, user_not_found
from tenancy.user_ids import require_user_id


def block_user(*, actor: Actor, user_id: str) -> bool:
    """No token speaks for the user from now on; whether any did until now. Rights and tokens are kept.

    The last administrator can be blocked, too: it must be possible at once. Who was deleted can be, and then does not
    come back. Tokens of this server are refused at once in this process and within 5 seconds elsewhere, those of
    providers within a minute, when they are verified anew.
    Raises `InvalidUserId` (400), `UserNotFound` (404).
    """
    return _set_active(actor, user_id, is_active=False)


def unblock_user(*, actor: Actor, user_id: str) -> bool:
    """Whether the user was blocked. Raises as `block_user`."""
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
