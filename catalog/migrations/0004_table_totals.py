"""The totals of a table get a row of their own, its last commit goes to the row of the table.

No version was released with these columns next to the document, where SQLite reads the whole document before them.
"""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

_COPIED = (
    """
    INSERT INTO catalog_tabletotals (tabular_id, records, files_size, data_files, delete_files, position_deletes,
                                     equality_deletes, manifests, snapshot_count, ref_count)
    SELECT m.tabular_id, m.total_records, m.total_files_size, m.total_data_files, m.total_delete_files,
           m.total_position_deletes, m.total_equality_deletes, m.manifests, m.snapshot_count, m.ref_count
      FROM catalog_tabularmetadata m JOIN catalog_tabular t ON t.id = m.tabular_id
     WHERE t.kind = 'table' AND m.snapshot_count IS NOT NULL
    """,
    """
    UPDATE catalog_tabular
       SET committed_at = m.committed_at, committed_by = m.committed_by, engine = m.engine
      FROM catalog_tabularmetadata m
     WHERE m.tabular_id = catalog_tabular.id AND m.committed_at IS NOT NULL
    """,
)

_MOVED = (
    "total_records", "total_files_size", "total_data_files", "total_delete_files", "total_position_deletes",
    "total_equality_deletes", "manifests", "snapshot_count", "ref_count", "committed_at", "committed_by", "engine",
)

# SQLite would write all documents again for each dropped column.
_REBUILT_ON_SQLITE = (
    """
    CREATE TABLE new__catalog_tabularmetadata (
        tabular_id char(32) NOT NULL PRIMARY KEY REFERENCES catalog_tabular (id) DEFERRABLE INITIALLY DEFERRED,
        document BLOB NULL
    )
    """,
    "INSERT INTO new__catalog_tabularmetadata SELECT tabular_id, document FROM catalog_tabularmetadata",
    "DROP TABLE catalog_tabularmetadata",
    "ALTER TABLE new__catalog_tabularmetadata RENAME TO catalog_tabularmetadata",
)


def _drop_columns(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "sqlite":
        statements = _REBUILT_ON_SQLITE
    else:
        statements = (f"ALTER TABLE catalog_tabularmetadata {', '.join(f'DROP COLUMN {name}' for name in _MOVED)}",)
    for statement in statements:
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0003_totals'),
    ]

    operations = [
        migrations.AddField(
            model_name='tabular',
            name='committed_at',
            field=models.DateTimeField(help_text='Time of the last commit.', null=True),
        ),
        migrations.AddField(
            model_name='tabular',
            name='committed_by',
            field=models.CharField(help_text='User of the last commit.', max_length=255, null=True),
        ),
        migrations.AddField(
            model_name='tabular',
            name='engine',
            field=models.CharField(help_text='Engine of the last commit, as it names itself.', max_length=80, null=True),
        ),
        migrations.CreateModel(
            name='TableTotals',
            fields=[
                ('tabular', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='totals', serialize=False, to='catalog.tabular')),
                ('records', models.BigIntegerField(help_text='Rows of the current snapshot.', null=True)),
                ('files_size', models.BigIntegerField(help_text='Bytes of its data and delete files.', null=True)),
                ('data_files', models.BigIntegerField(null=True)),
                ('delete_files', models.BigIntegerField(null=True)),
                ('position_deletes', models.BigIntegerField(null=True)),
                ('equality_deletes', models.BigIntegerField(null=True)),
                ('manifests', models.BigIntegerField(null=True)),
                ('snapshot_count', models.IntegerField(null=True)),
                ('ref_count', models.IntegerField(null=True, verbose_name='number of branches and tags')),
                ('target_file_size', models.BigIntegerField(help_text='Bytes of a data file that writers aim at; null: their default.', null=True)),
            ],
            options={
                'verbose_name': 'table totals',
                'verbose_name_plural': 'table totals',
            },
        ),
        migrations.RunSQL(_COPIED, migrations.RunSQL.noop),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(_drop_columns)],
            state_operations=[migrations.RemoveField('tabularmetadata', name) for name in _MOVED],
        ),
    ]
