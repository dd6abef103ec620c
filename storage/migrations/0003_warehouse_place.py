from django.db import migrations, models

from storage.profiles.place import place_of


def place_warehouses(apps, schema_editor):
    warehouses = apps.get_model("storage", "Warehouse").objects
    for warehouse in warehouses.only("storage_profile", "location").iterator():
        place = place_of(warehouse.storage_profile, warehouse.location)
        warehouses.filter(pk=warehouse.pk).update(place=place)


class Migration(migrations.Migration):
    dependencies = [("storage", "0002_credentials")]

    operations = [
        migrations.AddField("warehouse", "place", models.TextField(default=""), preserve_default=False),
        migrations.RunPython(place_warehouses, migrations.RunPython.noop, elidable=True),
        migrations.AddIndex(
            "warehouse", models.Index(fields=["place"], opclasses=["text_pattern_ops"], name="warehouse_at")
        ),
    ]
