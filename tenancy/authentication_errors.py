"""Errors of tokens that are not accepted; the audit trail reads from them whose token it was."""

from __future__ import annotations

from icekeeper.kernel.errors.types import Unauthorized
from tenancy.actor import Actor
from tenancy.identity import Identity


class AuthenticationFailed(Unauthorized):
    """Why is said in the log only."""

    wire_type = "AuthenticationFailed"
    challenge = 'Bearer error="invalid_token"'


class SignedTokenRejected(AuthenticationFailed):
    """A token whose signature is that of a provider, refused for what it says: no other provider's keys are missing."""


class GenuineTokenRejected(SignedTokenRejected):
    """A token that is what it says, and is not good any more. The audit trail is told whose it is, and `reason`; the
    caller is not."""

    def __init__(self, message: str, claimant: Identity, reason: str) -> None:
        super().__init__(message)
        self.claimant = Actor(user_id=claimant.user_id, identity=claimant)
        self.reason = reason
