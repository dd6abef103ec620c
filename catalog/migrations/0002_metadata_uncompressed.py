from django.db import migrations


def store_uncompressed(apps, schema_editor):
    """PostgreSQL would compress the documents and unpack them at each load; they are read far more than written."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE catalog_tabularmetadata ALTER COLUMN document SET STORAGE EXTERNAL")


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_initial")]

    operations = [migrations.RunPython(store_uncompressed, migrations.RunPython.noop)]
