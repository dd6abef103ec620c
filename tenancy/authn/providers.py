"""Who verifies tokens in this deployment."""

from __future__ import annotations

from functools import cache

from django.conf import settings

from tenancy.authn.access_tokens import AccessTokens
from tenancy.authn.authenticator import Authenticator


@cache
def authenticators() -> tuple[Authenticator, ...]:
    """In the order in which they are asked. Empty: authentication is off, and everybody is anonymous."""
    providers: tuple[Authenticator, ...] = ()
    takes_own = settings.ICEKEEPER.access_tokens
    if takes_own or (takes_own is None and providers):
        providers = (*providers, AccessTokens())
    return providers
