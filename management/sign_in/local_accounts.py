"""Local accounts of the console: users `local~NAME` with a password, for the case that no provider is available.

Sign-ins are limited by user id and address together, also for ids that do not exist, and by address alone. A failure
has no hint which part was wrong and takes the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Final

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import fetch_all
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import BadRequest, Forbidden
from icekeeper.kernel.request_context import current_context
from management.models import PasswordAttempt
from management.sign_in.sessions import Method, delete_sessions_of, record_failed_sign_in
from tenancy.actor import Actor, AuthenticationFailed, Identity, InvalidUserId, require_local_user_id
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import User
from tenancy.selectors.users import user_not_found
from tenancy.services.registration import lock_user

MAX_ATTEMPTS: Final = 5
PERIOD: Final = timedelta(minutes=15)
"""At most so many attempts in a period, for one user id from one address."""

MAX_ATTEMPTS_OF_ADDRESS: Final = 50
"""At most so many attempts in a period from one address, successful ones included, whatever the user ids are."""

MAX_PASSWORD_LENGTH: Final = 1024
"""Characters."""


class WeakPassword(BadRequest):
    wire_type = "WeakPassword"


@dataclass(frozen=True, slots=True)
class VerifiedPassword:
    """The identity of a user who gave the password with the hash `encoded`."""

    identity: Identity
    encoded: str = field(repr=False)

    def require_unchanged(self, user: User) -> None:
        """Raise `AuthenticationFailed` (401) if the user got another password since."""
        if user.password != self.encoded:
            raise AuthenticationFailed(f"the password of {user.pk} was changed during the sign-in")


def check_password(request: HttpRequest, *, user_id: str, password: str) -> VerifiedPassword | None:
    """Verify the password of the local user `user_id`; None if it is wrong, or if the attempt is not allowed.

    The attempt is counted before the password is checked, so that concurrent ones are counted as well. Beyond the limit
    of its address it costs neither a hash nor a row, and only the first one in a period is recorded.
    """
    attempts = _count_attempt(_address_key())
    if attempts > MAX_ATTEMPTS_OF_ADDRESS:
        if attempts == MAX_ATTEMPTS_OF_ADDRESS + 1:
            record_failed_sign_in(Method.PASSWORD, "TooManyAttempts")
        return None
    try:
        require_local_user_id(user_id)
    except InvalidUserId:
        record_failed_sign_in(Method.PASSWORD, "InvalidUserId")
        return None
    key = _attempt_key(user_id)
    if _count_attempt(key) > MAX_ATTEMPTS:
        record_failed_sign_in(Method.PASSWORD, "TooManyAttempts", claimant=Actor(user_id=user_id))
        return None
    # Django's own check takes the same time for unknown users and for those without a password.
    user = ModelBackend().authenticate(request, username=user_id, password=password[:MAX_PASSWORD_LENGTH])
    if not isinstance(user, User) or user.deleted_at is not None:
        record_failed_sign_in(Method.PASSWORD, "PasswordRejected", claimant=Actor(user_id=user_id))
        return None
    with write_transaction():
        PasswordAttempt.objects.filter(pk=key).delete()
    return VerifiedPassword(identity_of_user(user), user.password)


def identity_of_user(user: User) -> Identity:
    """Return the identity of a user who signs in without a token: it has no roles of a provider and no scopes."""
    return Identity(
        user_id=user.pk,
        provider_id=user.pk.partition("~")[0],
        user_type="application" if user.user_type == User.Type.APPLICATION else "human",
        name=user.name or None,
        email=user.email or None,
    )


def set_password(*, actor: Actor, user_id: str, password: str) -> None:
    """Set the password of a local user and delete their sessions and one-time addresses.

    Only the server's own commands can do so. Raises `Forbidden` (403), `InvalidUserId`, `WeakPassword` (400),
    `UserNotFound` (404).
    """
    if not actor.is_internal:
        raise Forbidden("Passwords are set by the command set_password alone")
    require_local_user_id(user_id)
    user = User.objects.existing().filter(pk=user_id).first()
    if user is None:
        raise user_not_found(user_id)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise WeakPassword(" ".join(error.messages), field="password") from None
    if len(password) > MAX_PASSWORD_LENGTH:
        raise WeakPassword(f"The password is longer than {MAX_PASSWORD_LENGTH} characters", field="password")
    encoded = make_password(password)
    with change(actor) as tx:
        locked = lock_user(user_id)
        if locked is None or locked.deleted_at is not None:
            raise user_not_found(user_id)
        User.objects.filter(pk=user_id).update(password=encoded)
        sessions = delete_sessions_of(user_id)
        tx.record(Change.USER_PASSWORD_SET, subject=user_id, sessions_revoked=sessions)


def is_enabled() -> bool:
    return bool(settings.ICEKEEPER.console.local_accounts)


_COUNT: Final = """
INSERT INTO management_passwordattempt AS known (key, attempts, started_at) VALUES (%s, 1, %s)
ON CONFLICT (key) DO UPDATE
   SET attempts = CASE WHEN known.started_at < %s THEN 1 ELSE known.attempts + 1 END,
       started_at = CASE WHEN known.started_at < %s THEN excluded.started_at ELSE known.started_at END
RETURNING attempts
"""


def _count_attempt(key: str) -> int:
    """Return the number of attempts in the current period, this one included."""
    at = now()
    with write_transaction():
        ((attempts,),) = fetch_all("default", _COUNT, [key, at, at - PERIOD, at - PERIOD])
    return int(attempts)


def _attempt_key(user_id: str) -> str:
    return sha256(f"{user_id} {current_context().origin.address}".encode()).hexdigest()


def _address_key() -> str:
    # No user id begins so: they contain `~`.
    return sha256(f"address {current_context().origin.address}".encode()).hexdigest()
