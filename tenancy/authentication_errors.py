"""Errors for rejected tokens, from which the audit trail reads the user of a genuine token."""

from __future__ import annotations

from icekeeper.kernel.errors.types import Unauthorized
from tenancy.actor import Actor, Identity


class AuthenticationFailed(Unauthorized):
    """The token is not accepted; only the log contains the reason."""

    wire_type = "AuthenticationFailed"
    challenge = 'Bearer error="invalid_token"'


class SignedTokenRejected(AuthenticationFailed):
    """A token with a valid signature that was rejected for its claims; keys of other providers cannot help."""


class GenuineTokenRejected(SignedTokenRejected):
    """A genuine token that is no longer valid; the audit trail gets its user and `reason`, the caller does not."""

    def __init__(self, message: str, claimant: Identity, reason: str) -> None:
        super().__init__(message)
        self.claimant = Actor(user_id=claimant.user_id, identity=claimant)
        self.reason = reason
