"""Builds the authenticators that the settings configure, and checks these settings (`manage.py check --deploy`)."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register

from tenancy.authn.authenticator import Authenticator, ProviderUnavailable
from tenancy.authn.kubernetes import (
    LEGACY_ISSUERS,
    Cluster,
    KubernetesJwksAuthenticator,
    TokenReviewAuthenticator,
)
from tenancy.authn.kubernetes import PROVIDER_ID as KUBERNETES_ID
from tenancy.authn.oidc.authenticators import OidcAuthenticator
from tenancy.authn.oidc.claims import ClaimRules, parse_template
from tenancy.authn.oidc.jwt import Expected
from tenancy.authn.own_tokens.access_tokens import AccessTokenAuthenticator
from tenancy.authn.provider_documents import Fetcher

logger = logging.getLogger("icekeeper.authn")


class ProvidersUnreachable(Exception):
    """Required providers cannot be reached at the start; the message says which and why."""


@cache
def authenticators() -> tuple[Authenticator, ...]:
    """Return the authenticators in the order in which they are tried; empty if authentication is off."""
    providers: tuple[Authenticator, ...] = (*_oidc_authenticators(), *_kubernetes_authenticators())
    accepts_own = settings.ICEKEEPER.access_tokens
    if accepts_own or (accepts_own is None and providers):
        providers = (*providers, AccessTokenAuthenticator())
    return providers


def is_identity_provider(provider_id: str) -> bool:
    """Whether the ids of users of a configured identity provider begin with `provider_id`."""
    own = settings.ICEKEEPER
    return provider_id in own.identity_providers or (
        provider_id == KUBERNETES_ID and own.enable_kubernetes_authentication
    )


def connect_providers() -> None:
    """Fetch the metadata of every provider before the server starts. Raises `ProvidersUnreachable`."""
    missing = []
    for authenticator in authenticators():
        try:
            authenticator.connect()
        except ProviderUnavailable as failure:
            if authenticator.is_required:
                missing.append(failure.reason)
            else:
                logger.warning("%s; it is tried again with its next token", failure.reason)
    if missing:
        raise ProvidersUnreachable("; ".join(missing))


def _oidc_authenticators() -> Iterator[Authenticator]:
    own = settings.ICEKEEPER
    rules = own.authentication
    for provider_id, provider in own.identity_providers.items():
        template, claims = provider.display_name_template, own.openid_claims.get(provider_id)
        yield OidcAuthenticator(
            ClaimRules(
                provider_id=provider_id,
                subject=tuple(provider.subject_claims),
                roles=provider.roles_claim,
                name=tuple(claims.name) if claims is not None else (),
                email=tuple(claims.email) if claims is not None else (),
                template=parse_template(template) if template is not None else None,
            ),
            str(provider.uri),
            expected=Expected(frozenset(provider.audience), provider.scope, rules.leeway),
            issuers=frozenset(provider.additional_issuers),
            algorithms=frozenset(rules.algorithms),
            fetcher=Fetcher(rules.timeout, rules.ca_file),
            is_required=provider.require_connected_on_startup,
        )


def _kubernetes_authenticators() -> Iterator[Authenticator]:
    """Yield one authenticator for tokens with our audience and one for legacy tokens, if they are accepted."""
    own = settings.ICEKEEPER
    if not own.enable_kubernetes_authentication:
        return
    rules, api, source = own.authentication, own.kubernetes, own.kubernetes_authentication_subject_source
    address = str(api.api_url).rstrip("/")
    ca_file = api.ca_file if address.startswith("https://") else None
    cluster = Cluster(address, Fetcher(rules.timeout, ca_file, through_proxy=False), api.token_file)
    audiences = frozenset(own.kubernetes_authentication_audience)
    if api.method == "jwks":
        expected = Expected(audiences, leeway=rules.leeway)
        yield KubernetesJwksAuthenticator(
            "Kubernetes", cluster, expected=expected, source=source, algorithms=frozenset(rules.algorithms)
        )
    else:
        yield TokenReviewAuthenticator(
            "Kubernetes", cluster, audiences=audiences, issuers=frozenset(), source=source, leeway=rules.leeway
        )
    if own.kubernetes_authentication_accept_legacy_serviceaccount:
        yield TokenReviewAuthenticator(
            "Kubernetes (legacy)", cluster, audiences=frozenset(), issuers=LEGACY_ISSUERS, source=source,
            leeway=rules.leeway,
        )  # fmt: skip


NO_AUTHENTICATION = "icekeeper.E007"
PLAIN_HTTP = "icekeeper.W008"
ANY_AUDIENCE = "icekeeper.W009"


@register(Tags.security, deploy=True)
def check_authentication(**_: Any) -> list[CheckMessage]:
    if not authenticators():
        return [
            Error(
                "Authentication is off: every client that reaches the port has all permissions",
                hint="Set LAKEKEEPER__OPENID_PROVIDER_URI or ICEKEEPER__ACCESS_TOKENS=true: docs/authentication.md",
                id=NO_AUTHENTICATION,
            )
        ]
    return [*_plain_http_providers(), *_open_audiences()]


def _plain_http_providers() -> Iterator[CheckMessage]:
    own = settings.ICEKEEPER
    providers = {f"The identity provider {each}": provider.uri for each, provider in own.identity_providers.items()}
    if own.enable_kubernetes_authentication:
        providers["The Kubernetes API"] = own.kubernetes.api_url
    for name, address in providers.items():
        parts = urlsplit(str(address))
        if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
            yield checks.Warning(
                f"{name} is contacted over plain HTTP: an attacker on the network can forge accepted tokens",
                hint="Configure its https URL",
                id=PLAIN_HTTP,
            )


def _open_audiences() -> Iterator[CheckMessage]:
    own = settings.ICEKEEPER
    for provider_id, provider in own.identity_providers.items():
        if not provider.audience:
            yield checks.Warning(
                f"Tokens of the identity provider {provider_id} are accepted for any audience",
                hint="Set its AUDIENCE to the aud claim of its tokens for this server",
                id=ANY_AUDIENCE,
            )
    if own.enable_kubernetes_authentication and not own.kubernetes_authentication_audience:
        yield checks.Warning(
            "Tokens of Kubernetes service accounts are accepted for any audience",
            hint="Set LAKEKEEPER__KUBERNETES_AUTHENTICATION_AUDIENCE",
            id=ANY_AUDIENCE,
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
