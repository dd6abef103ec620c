"""Indexes of parts of the names and email addresses of users, for the search of users.

On PostgreSQL only, where the owner of the database may create the extension pg_trgm (`catalog/migrations/0006_search`).
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import DatabaseError, migrations, transaction

_INDEXES = {
    "user_by_part_of_name": "tenancy_user USING gin (name_key gin_trgm_ops)",
    "user_by_part_of_email": "tenancy_user USING gin (lower(email) gin_trgm_ops)",
}


def create_indexes(apps: Any, schema_editor: Any) -> None:
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            for name, definition in _INDEXES.items():
                cursor.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {definition}")
    except DatabaseError as error:
        logging.getLogger("icekeeper.migrations").warning("no index of parts of names: %s", error)


def drop_indexes(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for name in _INDEXES:
            schema_editor.execute(f"DROP INDEX IF EXISTS {name}")


class Migration(migrations.Migration):

    dependencies = [("tenancy", "0006_grants_by_end")]

    operations = [migrations.RunPython(create_indexes, drop_indexes)]
