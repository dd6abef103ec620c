"""Warnings of `manage.py check --deploy` about settings that are not suitable for production, with a hint for each.

Invalid values stop every command when the settings are read (`icekeeper.conf`). Warnings of Django that do not apply
to this server are silenced in the settings (`SILENCED_SYSTEM_CHECKS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage
from pydantic import AnyHttpUrl, SecretStr

from icekeeper.conf.authentication import KUBERNETES
from icekeeper.conf.values import require_signing_key
from tenancy.authz.port import is_authorization_off, is_openfga

PRIVATE_HOSTS: Final = ("", "localhost", "127.0.0.1", "::1")
ENCRYPTED: Final = frozenset({"require", "verify-ca", "verify-full"})

SIGNING_KEY_IN_DATABASE: Final = checks.Warning(
    "The signing key of tokens depends on the database alone: a copy of the database is enough to sign tokens.",
    hint="Set LAKEKEEPER__PG_ENCRYPTION_KEY to a long random text, the same on every node; the signing key then "
    "depends on it as well.",
    id="icekeeper.W001",
)
NO_ENCRYPTION_KEY: Final = checks.Warning(
    "LAKEKEEPER__PG_ENCRYPTION_KEY is not set: credentials of warehouses cannot be stored.",
    hint="Set it to a long random text, the same on every node. Keep a copy: encrypted credentials cannot be read "
    "without it.",
    id="icekeeper.W010",
)
NO_BASE_URI: Final = checks.Warning(
    "LAKEKEEPER__BASE_URI is not set: links in responses are built from the headers of each request.",
    hint="Set it to the public URL of the server, such as https://catalog.example.com.",
    id="icekeeper.W002",
)
EMBEDDED_DATABASE: Final = checks.Warning(
    "The embedded SQLite is used: one node, one writer at a time, no standby.",
    hint="Set LAKEKEEPER__PG_DATABASE_URL_WRITE to a PostgreSQL database.",
    id="icekeeper.W003",
)
ANY_ORIGIN: Final = checks.Warning(
    "LAKEKEEPER__ALLOW_ORIGIN is *: pages of every site can call the APIs from a user's browser.",
    hint="List the origins of the pages that call the APIs.",
    id="icekeeper.W004",
)
UNENCRYPTED_DATABASE_CONNECTION: Final = checks.Warning(
    "The connection to PostgreSQL may be unencrypted.",
    hint="Set LAKEKEEPER__PG_SSL_MODE to verify-full, and LAKEKEEPER__PG_SSL_ROOT_CERT to the CA of its certificate.",
    id="icekeeper.W005",
)
FORGED_BASE_URI: Final = checks.Warning(
    "x-forwarded-* headers are trusted from every client: one that reaches the server directly can forge the URL in "
    "its links.",
    hint="Set LAKEKEEPER__BASE_URI, or LAKEKEEPER__USE_X_FORWARDED_HEADERS=false if no proxy sets these headers.",
    id="icekeeper.W006",
)

WEAK_ENCRYPTION_KEY: Final = checks.Warning(
    "LAKEKEEPER__PG_ENCRYPTION_KEY is weak: it can be guessed from a copy of the database.",
    hint="Choose 32 or more random characters, add the former key to ICEKEEPER__PG_ENCRYPTION_OLD_KEYS, and run "
    "manage.py rotate_encryption_key.",
    id="icekeeper.W011",
)

UNENCRYPTED_VAULT: Final = checks.Warning(
    "Requests to Vault use plain HTTP: the credentials of warehouses are sent unencrypted.",
    hint="Set LAKEKEEPER__KV2__URL to an https URL.",
    id="icekeeper.W012",
)
UNUSED_VAULT: Final = checks.Warning(
    "LAKEKEEPER__KV2__URL is set, but LAKEKEEPER__SECRET_BACKEND is not kv2: new credentials are stored in the "
    "database.",
    hint="Set LAKEKEEPER__SECRET_BACKEND=kv2, or run manage.py move_secrets and unset LAKEKEEPER__KV2__*.",
    id="icekeeper.W013",
)
WIDE_SIGNATURES: Final = checks.Warning(
    "Writes are signed for warehouses without STS, because ICEKEEPER__STORAGE__SIGN_WRITES_WITH_WAREHOUSE_KEYS is on "
    "or no authorization is configured: in a store that does not enforce signatures, such as MinIO, a user with write "
    "access to one table can reach every bucket of the warehouse's keys.",
    hint="Set sts-enabled in the storage profiles of warehouses whose store has STS, restrict the keys to the "
    "warehouse, unset the variable, and set LAKEKEEPER__AUTHZ_BACKEND.",
    id="icekeeper.W014",
)

AUDIENCE_OF_ALL_TOKENS: Final = checks.Warning(
    "An engine of LAKEKEEPER__TRUSTED_ENGINES__* is identified by audiences that every token of its provider has: "
    "every authenticated user can act as the engine, name owners of views, and read with their permissions.",
    hint="List the engine's users in SUBJECTS, or issue its tokens with their own audience.",
    id="icekeeper.W015",
)

UNENCRYPTED_OPENFGA: Final = checks.Warning(
    "Requests to OpenFGA use plain HTTP: its key is sent unencrypted, and its decisions can be forged.",
    hint="Set LAKEKEEPER__OPENFGA__ENDPOINT to an https URL.",
    id="icekeeper.W016",
)
MAX_OPENFGA_DEPTH: Final = 10
"""Nested roles that OpenFGA resolves by default: a path from a table needs the rest of its 25 steps."""
DEEPER_THAN_OPENFGA: Final = checks.Warning(
    f"LAKEKEEPER__ROLE__MAX_NESTING_DEPTH is more than {MAX_OPENFGA_DEPTH}, and OpenFGA decides: by default it cannot "
    "resolve roles that are nested more deeply, and requests of their members fail with 503.",
    hint=f"Set it to {MAX_OPENFGA_DEPTH} or less. Or raise OPENFGA_RESOLVE_NODE_LIMIT of OpenFGA from 25 by the "
    "difference, and silence this check.",
    id="icekeeper.W017",
)


@checks.register(checks.Tags.security, deploy=True)
def check_deployment(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Return the warnings that apply to the settings."""
    conf = settings.ICEKEEPER
    database = settings.DATABASES["default"]
    is_postgres = database["ENGINE"].endswith("postgresql")
    found: list[tuple[bool, CheckMessage]] = [
        (is_postgres and conf.secret_key is None and conf.pg_encryption_key is None, SIGNING_KEY_IN_DATABASE),
        (is_postgres and conf.pg_encryption_key is None and conf.kv2.url is None, NO_ENCRYPTION_KEY),
        (_is_weak(conf.pg_encryption_key), WEAK_ENCRYPTION_KEY),
        (_is_plain(conf.kv2.url), UNENCRYPTED_VAULT),
        (_is_plain(conf.openfga.endpoint), UNENCRYPTED_OPENFGA),
        (is_openfga() and conf.role.max_nesting_depth > MAX_OPENFGA_DEPTH, DEEPER_THAN_OPENFGA),
        (conf.kv2.url is not None and conf.secret_backend != "kv2", UNUSED_VAULT),  # noqa: S105 - the name of a backend
        (conf.storage.sign_writes_with_warehouse_keys or is_authorization_off(), WIDE_SIGNATURES),
        (conf.base_uri is None, NO_BASE_URI),
        (conf.base_uri is None and conf.use_x_forwarded_headers, FORGED_BASE_URI),
        (not is_postgres, EMBEDDED_DATABASE),
        ("*" in conf.allow_origin, ANY_ORIGIN),
        (_trusts_all_tokens(conf), AUDIENCE_OF_ALL_TOKENS),
        (is_postgres and not _is_private(database), UNENCRYPTED_DATABASE_CONNECTION),
    ]
    return [message for applies, message in found if applies]


def _is_weak(key: SecretStr | None) -> bool:
    """Return whether the key is too weak for a signing key; as an encryption key Lakekeeper accepts it."""
    try:
        if key is not None:
            require_signing_key(key.get_secret_value())
    except ValueError:
        return True
    return False


def _trusts_all_tokens(conf: Any) -> bool:
    """Return whether the audiences of a trusted engine include all audiences that its provider's tokens may have."""
    audiences = {name: provider.audience for name, provider in conf.identity_providers.items()}
    audiences[KUBERNETES] = conf.kubernetes_authentication_audience
    identities = [each for engine in conf.trusted_engines.values() for each in engine.identities.items()]
    return any(
        audiences.get(provider_id) and set(its.audiences).issuperset(audiences[provider_id])
        for provider_id, its in identities
    )


def _is_plain(url: AnyHttpUrl | None) -> bool:
    return url is not None and url.scheme == "http" and str(url.host).strip("[]") not in PRIVATE_HOSTS


def _is_private(database: dict[str, Any]) -> bool:
    """Return whether the connection to the database is local or encrypted."""
    host = str(database.get("HOST") or "")
    return host in PRIVATE_HOSTS or host.startswith("/") or database["OPTIONS"].get("sslmode") in ENCRYPTED
