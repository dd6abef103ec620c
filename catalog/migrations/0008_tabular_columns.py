"""Names of columns, for the search over all warehouses.

The index of parts of names needs the extension pg_trgm on PostgreSQL, as those of migration 0006 do.
"""

from __future__ import annotations

import logging
from typing import Any

import django.db.models.deletion
from django.db import DatabaseError, migrations, models, transaction

_INDEX = "CREATE INDEX IF NOT EXISTS column_by_part_of_name ON catalog_tabularcolumns USING gin (keys gin_trgm_ops)"


def create_index(apps: Any, schema_editor: Any) -> None:
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=connection.alias):
            schema_editor.execute(_INDEX)
    except DatabaseError as error:
        logging.getLogger("icekeeper.migrations").warning("no index of parts of column names: %s", error)


class Migration(migrations.Migration):

    dependencies = [("catalog", "0007_slow_tables")]

    operations = [
        migrations.CreateModel(
            name="TabularColumns",
            fields=[
                ("tabular", models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name="columns", serialize=False, to="catalog.tabular")),
                ("names", models.TextField(help_text="Dotted full names as spelled, each between two line breaks.")),
                ("keys", models.TextField(help_text="Normalised names.")),
            ],
            options={"verbose_name": "column names", "verbose_name_plural": "column names"},
        ),
        migrations.RunPython(create_index, migrations.RunPython.noop),
    ]
