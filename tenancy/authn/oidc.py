"""Identity providers that speak OpenID Connect."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tenancy.authn.acceptance import Expected
from tenancy.authn.claims import ClaimRules, identity_of
from tenancy.authn.fetching import Fetcher, FetchFailed
from tenancy.authn.jwks import UnusableKey, read_key_set
from tenancy.authn.keyed import KeyedAuthenticator, Published
from tenancy.identity import Identity

logger = logging.getLogger("icekeeper.authn")

DISCOVERY: Final = "/.well-known/openid-configuration"


class OidcAuthenticator(KeyedAuthenticator):
    """`address` is the provider's, below which its discovery document lies (OpenID Connect Discovery 1.0, §4)."""

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
            patience=2 * fetcher.timeout,
        )
        self.is_required = is_required
        self.address = f"{address.rstrip('/').removesuffix(DISCOVERY)}{DISCOVERY}"
        self._rules, self._fetcher = rules, fetcher

    def identity(self, claims: Mapping[str, Any]) -> Identity:
        return identity_of(claims, self._rules)

    def fetch(self, before: Published | None) -> Published:
        """Where the keys are may change as well as the keys, so both are looked at."""
        try:
            issuer, keys_address = self._discover()
        except FetchFailed as reason:
            if before is None:
                raise
            logger.warning("%s: %s; its keys are looked for where they were", self.name, reason)
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
        if not isinstance(keys_address, str) or not _is_as_safe(keys_address, self.address):
            raise FetchFailed(f"{self.address} names no address of keys (jwks_uri) that could be used")
        return issuer, keys_address


def _is_as_safe(address: str, than: str) -> bool:
    """Whether `address` is one over HTTP, and over TLS if the other is."""
    try:
        scheme, host = urlsplit(address).scheme, urlsplit(address).hostname
    except ValueError:
        return False
    return bool(host) and (scheme == "https" or (scheme == "http" and urlsplit(than).scheme == "http"))
