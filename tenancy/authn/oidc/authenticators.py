"""Authenticators of JWTs: the base class for published keys (JWKS), and OpenID Connect discovery."""

from __future__ import annotations

import logging
import re
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings

from icekeeper.kernel.http.network_addresses import UnusableAddress, parse_endpoint, require_allowed_ip, resolve
from tenancy.actor import AuthenticationFailed, Identity, SignedTokenRejected
from tenancy.authn.authenticator import Authenticator, ProviderState, ProviderUnavailable, VerifiedToken
from tenancy.authn.oidc.claims import ClaimRules, identity_of
from tenancy.authn.oidc.jwt import (
    Expected,
    Keys,
    NotAJwt,
    UnusableKey,
    read_jwt,
    read_key_set,
    signing_key_id,
    verify_signature,
)
from tenancy.authn.provider_documents import Fetcher, FetchFailed, RefreshingCache

logger = logging.getLogger("icekeeper.authn")

KEYS_LIFETIME_SECONDS: Final = 3600.0
"""Seconds after which the keys of a provider are fetched again."""
REFRESH_PAUSE_SECONDS: Final = 10.0
"""Minimum seconds between two fetches from a provider, however many tokens name unknown keys."""


@dataclass(frozen=True, slots=True)
class Published:
    """Metadata of a provider: the issuer of its tokens, its keys and their URL."""

    issuer: str
    keys_address: str
    keys: Keys = field(repr=False)


def has_published_key(token: str, published: Published | None, algorithms: frozenset[str]) -> bool:
    """Return whether the key that the header of `token` names is among the published ones."""
    try:
        key_id, _ = signing_key_id(read_jwt(token), algorithms)
    except (NotAJwt, AuthenticationFailed):
        return False
    return published is not None and key_id in published.keys


class JwksAuthenticator(Authenticator):
    """`expected` are the requirements for claims; `issuers` are accepted in addition to the published one."""

    def __init__(
        self, name: str, *, expected: Expected, issuers: frozenset[str], algorithms: frozenset[str], timeout: float
    ) -> None:
        self.name = name
        self._expected, self._issuers, self._algorithms = expected, issuers, algorithms
        self._published = RefreshingCache(
            name, self.fetch, lifetime=KEYS_LIFETIME_SECONDS, pause=REFRESH_PAUSE_SECONDS, timeout=timeout
        )

    @abstractmethod
    def fetch(self, before: Published | None) -> Published:
        """Fetch the current metadata; `before` is the previous one, if any. Raises `FetchFailed`."""

    @abstractmethod
    def identity(self, claims: Mapping[str, Any]) -> Identity:
        """Map verified claims to an identity. Raises `AuthenticationFailed`, `BadRequest` for an invalid user id."""

    def may_accept(self, token: str) -> bool:
        issuers, published = self._issuers_in(token), self._published.known
        return bool(issuers) and (published is None or not self._issuers_of(published).isdisjoint(issuers))

    def may_accept_after_refresh(self, token: str) -> bool:
        """Accept a token of a provider that has changed its issuer since the last fetch."""
        issuers = self._issuers_in(token)
        if not issuers:
            return False
        try:
            self._published.get(lambda newest: not self._issuers_of(newest).isdisjoint(issuers))
        except ProviderUnavailable as failure:
            logger.info("%s: a possible change of its issuer could not be checked: %s", self.name, failure.reason)
        return self.is_ready and self.may_accept(token)

    @property
    def is_exclusive(self) -> bool:
        return self.is_ready

    @property
    def is_ready(self) -> bool:
        return self._published.known is not None

    def has_key_of(self, token: str) -> bool:
        return has_published_key(token, self._published.known, self._algorithms)

    def state(self) -> ProviderState:
        published = self._published.known
        issuers = self._issuers if published is None else self._issuers_of(published)
        keys = None if published is None else len(published.keys)
        return ProviderState(
            self.name,
            tuple(sorted(issuers)),
            keys,
            self._published.age,
            _without_password(self._published.failure or ""),
        )

    def refresh_briefly(self) -> None:
        self._published.refresh_briefly()

    def connect(self) -> None:
        self._published.get()

    def verify(self, token: str) -> VerifiedToken:
        try:
            return self._verify(token)
        except SignedTokenRejected as failure:
            raise SignedTokenRejected(f"{self.name}: {failure}") from None
        except (NotAJwt, AuthenticationFailed) as failure:
            raise AuthenticationFailed(f"{self.name}: {failure}") from None

    def _verify(self, token: str) -> VerifiedToken:
        unverified = read_jwt(token)
        key_id, algorithm = signing_key_id(unverified, self._algorithms)
        published = self._published.get(lambda newest: key_id in newest.keys)
        verify_signature(token, published.keys.get(key_id, ()), algorithm)
        claims = unverified.claims  # verified from here on
        try:
            expires_at = self._expected.check(claims, issuers=self._issuers_of(published), now=time.time())
            return VerifiedToken(self.identity(claims), expires_at)
        except AuthenticationFailed as failure:
            raise SignedTokenRejected(failure.message) from None

    def _issuers_in(self, token: str) -> tuple[str, ...]:
        """Return the issuers that a token for one of our audiences names; empty for any other text."""
        try:
            unverified = read_jwt(token)
        except NotAJwt:
            return ()
        wanted = self._expected.audiences
        return () if wanted and wanted.isdisjoint(unverified.audiences) else unverified.issuers

    def _issuers_of(self, published: Published) -> frozenset[str]:
        return self._issuers | {published.issuer}


def _without_password(text: str) -> str:
    """Return a text without the user information of the URLs in it."""
    return re.sub(r"//[^/@\s]*@", "//", text)


DISCOVERY: Final = "/.well-known/openid-configuration"


class OidcAuthenticator(JwksAuthenticator):
    """`address` is the URL of the provider, with or without the path of its discovery document (Discovery 1.0, §4)."""

    def __init__(
        self,
        rules: ClaimRules,
        address: str,
        *,
        expected: Expected,
        issuers: frozenset[str],
        algorithms: frozenset[str],
        fetcher: Fetcher,
        is_required: bool = True,
    ) -> None:
        super().__init__(
            f"the identity provider {rules.provider_id}",
            expected=expected,
            issuers=issuers,
            algorithms=algorithms,
            timeout=2 * fetcher.timeout,
        )
        self.is_required = is_required
        self.address = f"{address.rstrip('/').removesuffix(DISCOVERY)}{DISCOVERY}"
        self._rules, self._fetcher = rules, fetcher

    def identity(self, claims: Mapping[str, Any]) -> Identity:
        return identity_of(claims, self._rules)

    def fetch(self, before: Published | None) -> Published:
        """Fetch the discovery document, which may name another URL of keys than before, and the keys."""
        try:
            issuer, keys_address = self._discover()
        except FetchFailed as reason:
            if before is None:
                raise
            logger.warning("%s: %s; its keys are fetched from the previous URL", self.name, reason)
            issuer, keys_address = before.issuer, before.keys_address
        document = self._fetcher.get(keys_address)
        try:
            return Published(issuer, keys_address, read_key_set(document, self._algorithms, self.name))
        except UnusableKey as reason:
            raise FetchFailed(f"{keys_address}: {reason}") from None

    def _discover(self) -> tuple[str, str]:
        document = self._fetcher.get(self.address)
        issuer, keys_address = document.get("issuer"), document.get("jwks_uri")
        if not isinstance(issuer, str) or not issuer:
            raise FetchFailed(f"{self.address} names no issuer")
        if issuer.removesuffix("/") != self.address.removesuffix(DISCOVERY) and issuer not in self._issuers:
            raise FetchFailed(
                f"{self.address} names an issuer that differs from the configured URL: {issuer[:200]!r}; if it is "
                "correct, add it to the provider's ADDITIONAL_ISSUERS"
            )
        if not isinstance(keys_address, str):
            raise FetchFailed(f"{self.address} names no URL of keys (jwks_uri)")
        try:
            self.require_permitted(keys_address)
        except UnusableAddress as error:
            raise FetchFailed(f"{self.address} names a URL of keys (jwks_uri) that is not allowed: {error}") from None
        return issuer, keys_address

    def require_permitted(self, address: str) -> None:
        """Validate a URL of the discovery document: the configured host is trusted, others need an allowed IP address.

        Raises `UnusableAddress`, also for an http URL if the provider has an https one, and for a host that cannot be
        resolved: a later look-up by the connection could return any address.
        """
        endpoint, configured = parse_endpoint(address), urlsplit(self.address)
        if endpoint.scheme == "http" and configured.scheme == "https":
            raise UnusableAddress("must be an https URL, as that of the provider is")
        if urlsplit(address).hostname == configured.hostname:
            return
        addresses = resolve(endpoint, self._fetcher.timeout)
        if addresses is None:
            raise UnusableAddress("the name of its host cannot be resolved")
        for ip in addresses:
            require_allowed_ip(ip, allow_private=settings.ICEKEEPER.storage.allow_private_endpoints)
