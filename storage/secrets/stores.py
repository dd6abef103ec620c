"""Which store keeps the secrets of this deployment."""

from __future__ import annotations

from django.conf import settings
from django.db import connection

from storage.secrets.database import DatabaseSecrets
from storage.secrets.port import SecretStore


def secret_store() -> SecretStore:
    """The database, with `LAKEKEEPER__PG_ENCRYPTION_KEY`; on PostgreSQL nothing is kept without that.

    Beside SQLite the signing key can stand in for it: both lie in the data folder, with the database. What was kept so
    can still be read when a key is chosen later.
    """
    chosen = settings.ICEKEEPER.pg_encryption_key
    keys = [] if chosen is None else [chosen.get_secret_value()]
    return DatabaseSecrets([*keys, settings.SECRET_KEY] if connection.vendor == "sqlite" else keys)
