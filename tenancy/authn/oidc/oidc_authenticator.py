"""Authenticator for OpenID Connect providers: discovery and claims."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings

from icekeeper.kernel.http.network_addresses import UnusableAddress, parse_endpoint, require_allowed_ip, resolve
from tenancy.authn.oidc.claims import ClaimRules, identity_of
from tenancy.authn.oidc.jwks_authenticator import JwksAuthenticator, Published
from tenancy.authn.oidc.jwt import Expected
from tenancy.authn.oidc.keys import UnusableKey, read_key_set
from tenancy.authn.provider_documents import Fetcher, FetchFailed
from tenancy.identity import Identity

logger = logging.getLogger("icekeeper.authn")

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
                f"{self.address} names another issuer than the address that is configured: {issuer[:200]!r}; if that "
                "is right, name it in the provider's ADDITIONAL_ISSUERS"
            )
        if not isinstance(keys_address, str):
            raise FetchFailed(f"{self.address} names no URL of keys (jwks_uri)")
        try:
            self._require_permitted(keys_address)
        except UnusableAddress as error:
            raise FetchFailed(f"{self.address} names a URL of keys (jwks_uri) that is not allowed: {error}") from None
        return issuer, keys_address

    def _require_permitted(self, keys_address: str) -> None:
        """Validate the URL of the keys: the configured host is trusted, other hosts need an allowed IP address.

        Raises `UnusableAddress`, also for an http URL if the provider has an https one, and for a host that cannot be
        resolved: a later look-up by the connection could return any address.
        """
        keys, configured = parse_endpoint(keys_address), urlsplit(self.address)
        if keys.scheme == "http" and configured.scheme == "https":
            raise UnusableAddress("must be an https URL, as that of the provider is")
        if urlsplit(keys_address).hostname == configured.hostname:
            return
        addresses = resolve(keys, self._fetcher.timeout)
        if addresses is None:
            raise UnusableAddress("the name of its host cannot be resolved")
        for ip in addresses:
            require_allowed_ip(ip, allow_private=settings.ICEKEEPER.storage.allow_private_endpoints)
