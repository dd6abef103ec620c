"""What the console and a support bundle report about the server: versions, settings, health and periodic jobs.

It contains no secret: secret settings are masked, and jobs are reported with the type of their error, without its
message.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import django
from django.conf import settings
from django.db import connections

from icekeeper.conf.listing import ShownSetting, show_settings
from icekeeper.kernel.clock import now
from icekeeper.version import LAKEKEEPER_VERSION, VERSION, commit_sha
from management.health import ServiceHealth, list_job_statuses, list_service_health
from management.sign_in.providers import console_providers
from tasks.runtime.status import JobStatus
from tenancy import maintenance
from tenancy.actor import Actor
from tenancy.authn.authenticator import ProviderState
from tenancy.authn.own_tokens.access_tokens import AccessTokenAuthenticator
from tenancy.authn.providers import authenticators
from tenancy.authz.actions import Can
from tenancy.authz.port import authorizer
from tenancy.selectors.projects import get_server
from tenancy.selectors.users import require_permission_on_server


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """An identity provider whose tokens are accepted; users can sign in to the console with some of them."""

    id: str
    uri: str
    audiences: tuple[str, ...]
    is_for_console: bool


@dataclass(frozen=True, slots=True)
class ServerReport:
    created_at: datetime
    version: str
    commit: str | None
    lakekeeper_version: str
    python_version: str
    django_version: str
    databases: dict[str, str]
    server_id: str
    bootstrapped_at: datetime | None
    authorization_backend: str
    is_authentication_on: bool
    maintenance_mode: str
    health: tuple[ServiceHealth, ...]
    jobs: tuple[JobStatus, ...]
    identity_providers: tuple[IdentityProvider, ...]
    settings: tuple[ShownSetting, ...]
    unread_variables: tuple[str, ...]


def report_server_for(*, actor: Actor) -> ServerReport:
    """Return the report. Requires `read_audit` on the server, which administrators and operators of it have.

    Raises `ServerActionForbidden` (403).
    """
    require_permission_on_server(actor, Can.READ_AUDIT)
    server, own = get_server(), settings.ICEKEEPER
    shown = tuple(show_settings(own))
    return ServerReport(
        created_at=now(),
        version=VERSION,
        commit=commit_sha(),
        lakekeeper_version=LAKEKEEPER_VERSION,
        python_version=platform.python_version(),
        django_version=django.get_version(),
        databases={alias: connections[alias].vendor for alias in settings.DATABASES},
        server_id=str(server.server_id),
        bootstrapped_at=server.bootstrapped_at,
        authorization_backend=authorizer().name,
        is_authentication_on=bool(authenticators()),
        maintenance_mode=str(maintenance.mode()),
        health=tuple(list_service_health()),
        jobs=tuple(list_job_statuses()),
        identity_providers=_identity_providers(shown),
        settings=shown,
        unread_variables=tuple(settings.UNREAD_VARIABLES),
    )


@dataclass(frozen=True, slots=True)
class IdentityProviders:
    """The configured providers, and what this process knows of those whose keys it fetches."""

    providers: tuple[IdentityProvider, ...]
    states: tuple[ProviderState, ...]
    accepts_own_tokens: bool


def list_identity_providers_for(*, actor: Actor) -> IdentityProviders:
    """Requires `read_audit` on the server, as the report. Raises `ServerActionForbidden` (403)."""
    require_permission_on_server(actor, Can.READ_AUDIT)
    known = authenticators()
    return IdentityProviders(
        _identity_providers(tuple(show_settings(settings.ICEKEEPER))),
        tuple(state for each in known if (state := each.state()) is not None),
        any(isinstance(each, AccessTokenAuthenticator) for each in known),
    )


def _identity_providers(shown: tuple[ShownSetting, ...]) -> tuple[IdentityProvider, ...]:
    """Return the providers with the addresses as the settings show them: without a password."""
    addresses = {str(each.value) for each in shown if isinstance(each.value, str)}
    for_console = console_providers()
    return tuple(
        IdentityProvider(
            provider_id,
            str(provider.uri) if str(provider.uri) in addresses else "",
            tuple(provider.audience or ()),
            provider_id in for_console,
        )
        for provider_id, provider in settings.ICEKEEPER.identity_providers.items()
    )


def write_support_bundle(report: ServerReport) -> dict[str, Any]:
    """Return the report as a JSON document for those who help with a problem."""
    return {
        "created-at": report.created_at.isoformat(),
        "version": report.version,
        "commit": report.commit,
        "lakekeeper-version": report.lakekeeper_version,
        "python-version": report.python_version,
        "django-version": report.django_version,
        "databases": report.databases,
        "server-id": report.server_id,
        "bootstrapped-at": None if report.bootstrapped_at is None else report.bootstrapped_at.isoformat(),
        "authorization-backend": report.authorization_backend,
        "authentication": "on" if report.is_authentication_on else "off",
        "maintenance-mode": report.maintenance_mode,
        "health": [
            {"name": each.name, "status": each.status, "missing-migrations": each.missing} for each in report.health
        ],
        "jobs": [
            {
                "name": each.name,
                "status": each.status,
                "ended-at": None if each.ended_at is None else each.ended_at.isoformat(),
                "seconds": each.seconds,
                "error-type": each.error_type or None,
            }
            for each in report.jobs
        ],
        "identity-providers": [
            {"id": each.id, "uri": each.uri, "audiences": each.audiences, "console": each.is_for_console}
            for each in report.identity_providers
        ],
        "settings": [
            {
                "variable": each.variable,
                "value": each.value,
                "from": "environment" if each.is_set else "default",
                "secret": each.is_secret,
            }
            for each in report.settings
        ],
        "unread-variables": report.unread_variables,
    }
