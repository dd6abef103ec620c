"""Which store keeps the secrets of this deployment."""

from __future__ import annotations

from django.conf import settings
from django.db import connection

from storage.secrets.database import DatabaseSecrets
from storage.secrets.port import SecretStore


def secret_store() -> SecretStore:
    """The one that new secrets go to."""
    return database_secrets()


def secret_stores() -> list[SecretStore]:
    """That one first, then any other in which secrets may still lie."""
    return [database_secrets()]


def database_secrets() -> DatabaseSecrets:
    """The database, with `LAKEKEEPER__PG_ENCRYPTION_KEY`; on PostgreSQL nothing is kept without that.

    Beside SQLite the signing key can stand in for it: both lie in the data folder, with the database. What was kept so
    can still be read when a key is chosen later.
    """
    own = settings.ICEKEEPER
    chosen = [key for key in (own.pg_encryption_key, *own.pg_encryption_old_keys) if key is not None]
    texts = [key.get_secret_value() for key in chosen]
    return DatabaseSecrets([*texts, settings.SECRET_KEY] if connection.vendor == "sqlite" else texts)
