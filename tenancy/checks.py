"""Checks of the authentication settings for `manage.py check --deploy`."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register

from tenancy.authn.providers import authenticators

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
