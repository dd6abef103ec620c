"""Which store keeps the secrets of this deployment."""

from __future__ import annotations

from django.conf import settings
from django.db import connection

from storage.secrets.database import DatabaseSecrets
from storage.secrets.port import SecretStore
from storage.secrets.vault import vault_secrets


def secret_store() -> SecretStore:
    """The one that new secrets go to (`LAKEKEEPER__SECRET_BACKEND`)."""
    return secret_stores()[0]


def secret_stores() -> list[SecretStore]:
    """That one first, then the other if secrets may still lie there: `manage.py move_secrets` brings them over."""
    own = settings.ICEKEEPER
    if own.kv2.url is None:
        return [database_secrets()]
    stores: list[SecretStore] = [database_secrets(), vault_secrets()]
    return stores[::-1] if own.secret_backend == "kv2" else stores  # noqa: S105 - the name of one


def database_secrets() -> DatabaseSecrets:
    """The database, with `LAKEKEEPER__PG_ENCRYPTION_KEY`; on PostgreSQL nothing is kept without that.

    Beside SQLite the signing key can stand in for it: both lie in the data folder, with the database. What was kept so
    can still be read when a key is chosen later.
    """
    own = settings.ICEKEEPER
    chosen = [key for key in (own.pg_encryption_key, *own.pg_encryption_old_keys) if key is not None]
    texts = [key.get_secret_value() for key in chosen]
    return DatabaseSecrets([*texts, settings.SECRET_KEY] if connection.vendor == "sqlite" else texts)
