"""Those who verify bearer tokens: one for each identity provider, one for the tokens of this server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from icekeeper.kernel.errors.types import CatalogError, Unauthorized
from tenancy.actor import Actor
from tenancy.identity import Identity


class AuthenticationFailed(Unauthorized):
    """Why is said in the log only."""

    wire_type = "AuthenticationFailed"
    challenge = 'Bearer error="invalid_token"'


class SignedTokenRefused(AuthenticationFailed):
    """A token whose signature is that of a provider, refused for what it says: no other provider's keys are missing."""


class GenuineTokenRefused(SignedTokenRefused):
    """A token that is what it says, and is not good any more. The audit trail is told whose it is, and `reason`; the
    caller is not."""

    def __init__(self, message: str, claimant: Identity, reason: str) -> None:
        super().__init__(message)
        self.claimant = Actor(user_id=claimant.user_id, identity=claimant)
        self.reason = reason


class ProviderUnavailable(CatalogError):
    """The keys of the provider that a token names cannot be had, so nothing is known of the token.

    `reason` is for the log, which tells of the look that failed: anybody can send tokens that meet this.
    """

    status, wire_type, retry_after, is_on_purpose = 503, "IdentityProviderUnavailable", 5, True

    def __init__(self, reason: str) -> None:
        super().__init__("An identity provider cannot be asked now, so the token could not be verified; try again")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Verified:
    """The outcome of one verification; it holds until `expires_at`, seconds since the epoch, at the latest.

    `revocations` is set for a token that can be revoked: what `tenancy.authn.revocations` gave before it was looked up.
    """

    identity: Identity
    expires_at: float
    revocations: int | None = None


class Authenticator(ABC):
    """`verify` is asked for tokens that `is_for` takes, in the order of the deployment, until one accepts the token."""

    name: str
    """For the log."""
    is_required: bool = True
    """Whether the server may only start when `connect` succeeds."""

    @abstractmethod
    def is_for(self, token: str) -> bool:
        """Whether the token claims to be one of this provider's; decided without any verification."""

    def looks_again_for(self, token: str) -> bool:
        """As `is_for`, after another look at the provider, if one may be taken now; for tokens that nobody takes."""
        return False

    @abstractmethod
    def verify(self, token: str) -> Verified:
        """Raises `AuthenticationFailed` with the reason for the log, or `ProviderUnavailable`."""

    @property
    def is_sure(self) -> bool:
        """Whether a token that `is_for` takes is no other provider's: nobody else need look for it."""
        return True

    @property
    def is_ready(self) -> bool:
        """Whether it can tell which tokens are its own. One that is not is asked after those that are."""
        return True

    def knows_key_of(self, token: str) -> bool:
        """Whether the key that the token names is there without another look; also for providers without keys."""
        return True

    def look_briefly(self) -> None:  # noqa: B027 - as for `connect`
        """Take another look at the provider, if one may be taken now, and wait for its first second at most."""

    def connect(self) -> None:  # noqa: B027 - most have nobody to look at
        """Look at the provider before there is any token. Raises `ProviderUnavailable`."""
