"""PostgreSQL compresses metadata files with LZ4: pglz, its default, takes several times as long in each commit."""

from __future__ import annotations

from typing import Any

from django.db import migrations

_HAS_LZ4 = "SELECT 1 FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)"
_COMPRESS = "ALTER TABLE catalog_tabularmetadata ALTER COLUMN document SET COMPRESSION "


def _compress(method: str) -> Any:
    """Return an operation that sets the compression of new documents. Stored ones keep theirs until their next commit.

    A server that was built without LZ4 keeps its default.
    """

    def alter(apps: Any, schema_editor: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(_HAS_LZ4)
            if cursor.fetchone() is not None:
                cursor.execute(_COMPRESS + method)

    return alter


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_initial")]
    operations = [migrations.RunPython(_compress("lz4"), _compress("pglz"))]
