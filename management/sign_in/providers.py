"""The console as a client of the identity providers: the same providers as those of the APIs, with their endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from requests.auth import HTTPBasicAuth

from icekeeper.kernel.http.network_addresses import UnusableAddress
from tenancy.actor import AuthenticationFailed
from tenancy.authn.authenticator import ProviderUnavailable
from tenancy.authn.oidc.authenticators import (
    DISCOVERY,
    KEYS_LIFETIME_SECONDS,
    REFRESH_PAUSE_SECONDS,
    OidcAuthenticator,
)
from tenancy.authn.oidc.claims import ClaimRules
from tenancy.authn.oidc.jwt import Expected
from tenancy.authn.provider_documents import Fetcher, FetchFailed, RefreshingCache

PRIMARY: Final = "oidc"
"""Id of the provider of LAKEKEEPER__OPENID_PROVIDER_URI."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Endpoints of a provider. Browsers use `authorization` and `end_session` (None: it has none), this server `token`.

    `takes_secret_in_body` is whether clients may authenticate with `client_secret_post`.
    """

    authorization: str
    token: str
    end_session: str | None
    takes_secret_in_body: bool


class ConsoleProvider:
    """An identity provider with which users can sign in to the console."""

    def __init__(self, provider_id: str) -> None:
        own = settings.ICEKEEPER
        provider, client, ui = own.identity_providers[provider_id], own.console.providers.get(provider_id), own.ui
        is_primary = provider_id == PRIMARY
        self.id = provider_id
        self.name: str = (client and client.name) or urlsplit(str(provider.uri)).hostname or provider_id
        self.client_id: str = (client and client.client_id) or ui.openid_client_id
        self.client_secret: str | None = (
            client.client_secret.get_secret_value() if client and client.client_secret is not None else None
        )
        self.scope: str = (client and client.scope) or ui.openid_scope
        self.resource: str | None = ui.openid_resource if is_primary else None
        self.uses_id_token = is_primary and ui.openid_token_type == "id_token"  # noqa: S105 - a name
        self._uri = str(provider.uri).rstrip("/").removesuffix(DISCOVERY)
        browser_uri = str(ui.openid_provider_uri).rstrip("/") if ui.openid_provider_uri is not None else self._uri
        self._browser_uri = browser_uri if is_primary else self._uri
        self._fetcher = Fetcher(own.authentication.timeout, own.authentication.ca_file)
        self._id_tokens = OidcAuthenticator(
            ClaimRules(provider_id=provider_id, subject=("sub",), roles=None, name=(), email=(), template=None),
            str(provider.uri),
            expected=Expected(frozenset({self.client_id}), None, own.authentication.leeway),
            issuers=frozenset(provider.additional_issuers),
            algorithms=frozenset(own.authentication.algorithms),
            fetcher=self._fetcher,
            is_required=False,
        )
        self._endpoints = RefreshingCache(
            f"sign-in with the identity provider {provider_id}",
            self._fetch_endpoints,
            lifetime=KEYS_LIFETIME_SECONDS,
            pause=REFRESH_PAUSE_SECONDS,
            timeout=own.authentication.timeout,
            what="endpoints",
        )

    def endpoints(self) -> Endpoints:
        """Raises `ProviderUnavailable` (503)."""
        return self._endpoints.get()

    def verify_id_token(self, token: str) -> None:
        """Require that this provider issued `token` for the console. Raises `AuthenticationFailed`,
        `ProviderUnavailable`."""
        self._id_tokens.verify(token)

    def exchange_code(self, form: dict[str, Any]) -> dict[str, Any]:
        """Return the response of the token endpoint to `form`, without client authentication in it.

        Raises `AuthenticationFailed` for a code that the provider rejects, `ProviderUnavailable`.
        """
        endpoints = self.endpoints()
        fields = {name: value for name, value in form.items() if value is not None and name != "client_secret"}
        if self.resource is not None:
            fields["resource"] = self.resource
        auth = None
        if self.client_secret is not None and endpoints.takes_secret_in_body:
            fields["client_secret"] = self.client_secret
        elif self.client_secret is not None:
            auth = HTTPBasicAuth(self.client_id, self.client_secret)
        try:
            return self._fetcher.post_form(endpoints.token, fields, auth=auth)
        except FetchFailed as failure:
            if failure.status in {400, 401, 403}:
                raise AuthenticationFailed(f"the token endpoint rejected the code: {failure}") from None
            raise ProviderUnavailable(f"{self.id}: {failure}") from None

    def end_session_url(self, back: str) -> str | None:
        """Return the URL that signs the user out at the provider and then leads to `back`; None if it has none.

        It has no `id_token_hint`: the ID token is not stored, so the provider may ask the user to confirm.
        """
        try:
            address = self.endpoints().end_session
        except ProviderUnavailable:
            return None
        if address is None:
            return None
        joint = "&" if urlsplit(address).query else "?"
        return address + joint + urlencode({"client_id": self.client_id, "post_logout_redirect_uri": back})

    def _fetch_endpoints(self, _before: Endpoints | None) -> Endpoints:
        address = self._id_tokens.address
        document = self._fetcher.get(address)
        authorization, token = _url(document.get("authorization_endpoint")), _url(document.get("token_endpoint"))
        if authorization is None or token is None:
            raise FetchFailed(
                f"{address} names no authorization_endpoint and token_endpoint: users cannot sign in there"
            )
        try:
            self._id_tokens.require_permitted(token)
        except UnusableAddress as error:
            raise FetchFailed(f"{address} names a token_endpoint that is not allowed: {error}") from None
        end_session = _url(document.get("end_session_endpoint"))
        methods = document.get("token_endpoint_auth_methods_supported")
        return Endpoints(
            self._for_browsers(authorization),
            token,
            self._for_browsers(end_session) if end_session is not None else None,
            isinstance(methods, list) and "client_secret_post" in methods,
        )

    def _for_browsers(self, address: str) -> str:
        """Replace the URL by which this server reaches the provider by the one for browsers."""
        if address == self._uri or address.startswith(f"{self._uri}/"):
            return self._browser_uri + address[len(self._uri) :]
        return address


def _url(value: object) -> str | None:
    """Return `value` if it is an http or https URL with a host."""
    if not isinstance(value, str):
        return None
    parts = urlsplit(value)
    return value if parts.scheme in {"http", "https"} and parts.hostname else None


@cache
def console_providers() -> dict[str, ConsoleProvider]:
    """Return the providers with which users can sign in, by id: the primary one, and those with a client id."""
    own = settings.ICEKEEPER
    return {
        provider_id: ConsoleProvider(provider_id)
        for provider_id in own.identity_providers
        if provider_id == PRIMARY or provider_id in own.console.providers
    }
