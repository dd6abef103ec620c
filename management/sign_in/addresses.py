"""One-time addresses: an administrator with a shell creates one for a user, who signs in with it once."""

from __future__ import annotations

import secrets
from datetime import timedelta
from hashlib import sha256
from typing import Final
from urllib.parse import urlencode

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import Forbidden
from management.models import SignInAddress
from management.sign_in.paths import CONSOLE_PATH
from tenancy.actor import ANONYMOUS, Actor, AuthenticationFailed
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import User
from tenancy.selectors.users import user_not_found

LIFETIME: Final = timedelta(minutes=15)


class AddressRejected(AuthenticationFailed):
    wire_type = "AddressRejected"


def create_sign_in_address(*, actor: Actor, user_id: str, base_url: str) -> str:
    """Return a URL below `base_url` that signs `user_id` in once within 15 minutes; only its hash is stored.

    The code is in the query, which no log line contains. Only the server's own commands create addresses. Raises
    `Forbidden` (403), also for a blocked user, and `UserNotFound` (404).
    """
    if not actor.is_internal:
        raise Forbidden("One-time addresses are created by the command sign_in_address alone")
    user = User.objects.existing().filter(pk=user_id).first()
    if user is None:
        raise user_not_found(user_id)
    if not user.is_active:
        raise Forbidden(f"User is not active: {user_id}")
    code, at = secrets.token_urlsafe(32), now()
    with change(actor) as tx:
        row = SignInAddress.objects.create(digest=_digest(code), user=user, created_at=at, expires_at=at + LIFETIME)
        tx.record(Change.SIGN_IN_ADDRESS_CREATED, subject=row.pk[:16], user=user_id, expires_at=row.expires_at)
    return f"{base_url}{CONSOLE_PATH}/sign-in/once/?{urlencode({'code': code})}"


def find_user_of_address(code: str) -> User | None:
    """Return the user whom `code` would sign in; None if it is unknown, used or expired."""
    row = SignInAddress.objects.valid(now()).filter(pk=_digest(code)).select_related("user").first()
    return None if row is None else row.user


def use_address(code: str) -> None:
    """Mark the address of `code` as used, in the transaction of the sign-in.

    Raises `AddressRejected` (401) if it is unknown, used or expired, which holds for all but one of concurrent calls.
    """
    at = now()
    if not SignInAddress.objects.valid(at).filter(pk=_digest(code)).update(used_at=at):
        raise AddressRejected("the one-time address is unknown, used or expired")


def find_claimant(code: str) -> Actor:
    """Return whom a rejected code was for, for the audit trail; anonymous if it is unknown or was deleted."""
    row = SignInAddress.objects.filter(pk=_digest(code)).first()
    return ANONYMOUS if row is None else Actor(user_id=row.user_id)


def _digest(code: str) -> str:
    return sha256(code.encode(errors="surrogatepass")).hexdigest()
