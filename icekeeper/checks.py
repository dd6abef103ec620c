"""Warnings of `manage.py check --deploy` about settings that are fine on a laptop and not in production, with a cure.

Invalid values stop every command when the settings are read (`icekeeper.conf`). Warnings of Django that do not concern
this server are silenced in the settings (`SILENCED_SYSTEM_CHECKS`), with the reasons.
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

PRIVATE_HOSTS: Final = ("", "localhost", "127.0.0.1", "::1")
ENCRYPTED: Final = frozenset({"require", "verify-ca", "verify-full"})

KEY_IN_DATABASE_ALONE: Final = checks.Warning(
    "The signing key of tokens follows from the database alone: who has a copy of it can sign tokens of this server.",
    hint="Set LAKEKEEPER__PG_ENCRYPTION_KEY to a long random text, the same on every node, which then goes into it.",
    id="icekeeper.W001",
)
NO_ENCRYPTION_KEY: Final = checks.Warning(
    "LAKEKEEPER__PG_ENCRYPTION_KEY is not set: no warehouse can have a credential of its own.",
    hint="Set it to a long random text, the same on every node, and keep it: what it encrypted needs it.",
    id="icekeeper.W010",
)
NO_BASE_URI: Final = checks.Warning(
    "LAKEKEEPER__BASE_URI is not set: the address that clients are told comes from headers of their own requests.",
    hint="Set it to the address that clients use, such as https://catalog.example.com.",
    id="icekeeper.W002",
)
EMBEDDED_DATABASE: Final = checks.Warning(
    "The embedded SQLite is used: one node, one writer at a time, no standby.",
    hint="Set LAKEKEEPER__PG_DATABASE_URL_WRITE to a PostgreSQL.",
    id="icekeeper.W003",
)
ANY_ORIGIN: Final = checks.Warning(
    "LAKEKEEPER__ALLOW_ORIGIN is *: pages of any site may call the APIs from people's browsers.",
    hint="Name the origins of the pages that are to call them.",
    id="icekeeper.W004",
)
PLAIN_DATABASE_CONNECTION: Final = checks.Warning(
    "The connection to PostgreSQL need not be encrypted.",
    hint="Set LAKEKEEPER__PG_SSL_MODE to verify-full, and LAKEKEEPER__PG_SSL_ROOT_CERT to the CA of its certificate.",
    id="icekeeper.W005",
)
FORGED_ADDRESS: Final = checks.Warning(
    "x-forwarded-* headers are believed from everybody: a client that reaches the server directly can forge the "
    "address that is told to it.",
    hint="Set LAKEKEEPER__BASE_URI, or LAKEKEEPER__USE_X_FORWARDED_HEADERS=false where no proxy sets them.",
    id="icekeeper.W006",
)

SHORT_ENCRYPTION_KEY: Final = checks.Warning(
    "LAKEKEEPER__PG_ENCRYPTION_KEY is short: who has a copy of the database may guess it.",
    hint="Take 32 or more random characters, name the former text in ICEKEEPER__PG_ENCRYPTION_OLD_KEYS, and run "
    "manage.py rotate_encryption_key.",
    id="icekeeper.W011",
)

PLAIN_VAULT: Final = checks.Warning(
    "Vault is asked over plain HTTP: whoever is on the way learns the credentials of warehouses.",
    hint="Set LAKEKEEPER__KV2__URL to its https address.",
    id="icekeeper.W012",
)
TWO_PLACES: Final = checks.Warning(
    "LAKEKEEPER__KV2__URL is set, and LAKEKEEPER__SECRET_BACKEND is not kv2: new credentials go to the database.",
    hint="Set LAKEKEEPER__SECRET_BACKEND=kv2, or run manage.py move_secrets and unset LAKEKEEPER__KV2__*.",
    id="icekeeper.W013",
)
WIDE_SIGNATURES: Final = checks.Warning(
    "Writes are signed for warehouses without STS, as ICEKEEPER__STORAGE__SIGN_WRITES_WITH_WAREHOUSE_KEYS is on or "
    "nobody is authorized: where a store does not enforce signatures, as MinIO, who may write one table reaches every "
    "bucket that the warehouse's keys reach.",
    hint="Set sts-enabled in the storage profiles of warehouses whose store has STS, give keys no access beyond the "
    "warehouse, unset the variable, and set LAKEKEEPER__AUTHZ_BACKEND.",
    id="icekeeper.W014",
)

TRUSTED_BY_EVERYBODYS_AUDIENCE: Final = checks.Warning(
    "An engine of LAKEKEEPER__TRUSTED_ENGINES__* is told by audiences that every token has which its provider may "
    "issue for this server: whoever may come in can name owners of views, and read with their rights.",
    hint="Name the engine's users in SUBJECTS, or give its tokens an audience of their own.",
    id="icekeeper.W015",
)

PLAIN_OPENFGA: Final = checks.Warning(
    "OpenFGA is asked over plain HTTP: whoever is on the way learns its key, and can let anybody do anything.",
    hint="Set LAKEKEEPER__OPENFGA__ENDPOINT to its https address.",
    id="icekeeper.W016",
)
STEPS_OF_OPENFGA: Final = 10
"""Roles in roles that OpenFGA follows as it comes: its 25 steps are for the way up from a table, too."""
DEEPER_THAN_OPENFGA: Final = checks.Warning(
    f"LAKEKEEPER__ROLE__MAX_NESTING_DEPTH is more than {STEPS_OF_OPENFGA}, and OpenFGA decides: as it comes, it has no "
    "answer for members of roles that are nested more deeply, and they are refused with 503.",
    hint=f"Set it to {STEPS_OF_OPENFGA} or less, or OPENFGA_RESOLVE_NODE_LIMIT of OpenFGA to more than its 25 by what "
    "this is more, and silence this.",
    id="icekeeper.W017",
)


@checks.register(checks.Tags.security, deploy=True)
def check_deployment(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """What is not as it should be in production."""
    conf = settings.ICEKEEPER
    database = settings.DATABASES["default"]
    is_postgres = database["ENGINE"].endswith("postgresql")
    found: list[tuple[bool, CheckMessage]] = [
        (is_postgres and conf.secret_key is None and conf.pg_encryption_key is None, KEY_IN_DATABASE_ALONE),
        (is_postgres and conf.pg_encryption_key is None and conf.kv2.url is None, NO_ENCRYPTION_KEY),
        (_is_guessable(conf.pg_encryption_key), SHORT_ENCRYPTION_KEY),
        (_is_plain(conf.kv2.url), PLAIN_VAULT),
        (_is_plain(conf.openfga.endpoint), PLAIN_OPENFGA),
        (
            conf.effective_authz_backend == "openfga" and conf.role.max_nesting_depth > STEPS_OF_OPENFGA,
            DEEPER_THAN_OPENFGA,
        ),
        (conf.kv2.url is not None and conf.secret_backend != "kv2", TWO_PLACES),  # noqa: S105 - the name of one
        (
            conf.storage.sign_writes_with_warehouse_keys or conf.effective_authz_backend == "allowall",
            WIDE_SIGNATURES,
        ),
        (conf.base_uri is None, NO_BASE_URI),
        (conf.base_uri is None and conf.use_x_forwarded_headers, FORGED_ADDRESS),
        (not is_postgres, EMBEDDED_DATABASE),
        ("*" in conf.allow_origin, ANY_ORIGIN),
        (_trusts_everybody(conf), TRUSTED_BY_EVERYBODYS_AUDIENCE),
        (is_postgres and not _is_private(database), PLAIN_DATABASE_CONNECTION),
    ]
    return [message for is_so, message in found if is_so]


def _is_guessable(key: SecretStr | None) -> bool:
    """Whether a signing key like this would be refused; this one is not, as the peer takes any."""
    try:
        if key is not None:
            require_signing_key(key.get_secret_value())
    except ValueError:
        return True
    return False


def _trusts_everybody(conf: Any) -> bool:
    """Whether the audiences by which an engine is told hold all that a token may be for to be let in."""
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
    """Whether nobody between here and the database can listen."""
    host = str(database.get("HOST") or "")
    return host in PRIVATE_HOSTS or host.startswith("/") or database["OPTIONS"].get("sslmode") in ENCRYPTED
