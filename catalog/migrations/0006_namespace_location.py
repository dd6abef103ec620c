from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0005_generic_tables")]

    operations = [
        migrations.AddField(model_name="namespace", name="location", field=models.TextField(null=True)),
    ]
