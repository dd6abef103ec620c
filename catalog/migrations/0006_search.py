"""Indexes of parts of names and of locations, for the search over all warehouses.

On PostgreSQL the indexes of names need the extension pg_trgm, which comes with it and which the owner of a database may
create. Where that is not allowed, names are searched without an index; an administrator can create the extension and
the indexes later (docs/console.md).
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import DatabaseError, migrations, models, transaction

_INDEXES = (
    "CREATE INDEX IF NOT EXISTS tabular_by_part_of_name ON catalog_tabular USING gin (name_key gin_trgm_ops)",
    "CREATE INDEX IF NOT EXISTS namespace_by_part_of_path ON catalog_namespace USING gin (path_key gin_trgm_ops)",
)


def create_indexes(apps: Any, schema_editor: Any) -> None:
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            for index in _INDEXES:
                cursor.execute(index)
    except DatabaseError as error:
        logging.getLogger("icekeeper.migrations").warning("no index of parts of names: %s", error)


def drop_indexes(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX IF EXISTS tabular_by_part_of_name")
        schema_editor.execute("DROP INDEX IF EXISTS namespace_by_part_of_path")


class Migration(migrations.Migration):

    dependencies = [("catalog", "0005_file_statistics")]

    operations = [
        migrations.AddIndex(
            model_name="tabular",
            index=models.Index(fields=["location"], name="tabular_by_location", opclasses=["text_pattern_ops"]),
        ),
        migrations.RunPython(create_indexes, drop_indexes),
    ]
