"""The interface of authenticators: one for each identity provider, one for the access tokens of this server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Identity


class ProviderUnavailable(CatalogError):
    """The keys of the provider that a token names cannot be fetched, so the token is neither valid nor invalid.

    `reason` is only logged, where the fetch failed: any client can send tokens that cause it.
    """

    status, wire_type, retry_after, is_expected = 503, "IdentityProviderUnavailable", 5, True

    def __init__(self, reason: str) -> None:
        super().__init__("An identity provider cannot be reached, so the token could not be verified; try again")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """The result of one verification; it may be cached until `expires_at`, seconds since the epoch.

    `revocations` is set for a token that can be revoked: the revocation epoch that was read before the look-up.
    """

    identity: Identity
    expires_at: float
    revocations: int | None = None


@dataclass(frozen=True, slots=True)
class ProviderState:
    """What a process knows of a provider. `keys` is the number of its keys, None before the first fetch.

    `failure` is why the last fetch failed, empty if it did not; `seconds` have passed since the last one that did not.
    """

    name: str
    issuers: tuple[str, ...]
    keys: int | None
    seconds: float | None
    failure: str


class Authenticator(ABC):
    """Verifies bearer tokens. Authenticators whose `may_accept` is true for a token are tried in their configured order
    until one accepts it."""

    name: str
    """For the log."""
    is_required: bool = True
    """Whether the server only starts when `connect` succeeds."""

    @abstractmethod
    def may_accept(self, token: str) -> bool:
        """Return whether the token claims to be of this provider; nothing is verified."""

    def may_accept_after_refresh(self, token: str) -> bool:
        """As `may_accept`, after a refresh of the provider's metadata if one is due."""
        return False

    @abstractmethod
    def verify(self, token: str) -> VerifiedToken:
        """Raises `AuthenticationFailed` with the reason for the log, or `ProviderUnavailable`."""

    @property
    def is_exclusive(self) -> bool:
        """Whether a token for which `may_accept` is true can be of no other provider."""
        return True

    @property
    def is_ready(self) -> bool:
        """Whether its own tokens can be recognised; authenticators that are not ready are tried last."""
        return True

    def has_key_of(self, token: str) -> bool:
        """Return whether the key that the token names is cached; true for providers without keys."""
        return True

    def state(self) -> ProviderState | None:
        """Return the state of the provider's metadata; None for authenticators without any. Nothing is fetched."""
        return None

    def refresh_briefly(self) -> None:  # noqa: B027 - as for `connect`
        """Refresh the provider's metadata if a refresh is due, and wait for it for one second at most."""

    def connect(self) -> None:  # noqa: B027 - most have no metadata to fetch
        """Fetch the provider's metadata before the first token. Raises `ProviderUnavailable`."""
