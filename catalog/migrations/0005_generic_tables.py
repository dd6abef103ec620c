import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0004_metrics")]

    operations = [
        migrations.CreateModel(
            name="GenericTable",
            fields=[
                (
                    "tabular",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="generic_table",
                        serialize=False,
                        to="catalog.tabular",
                    ),
                ),
                ("format", models.CharField(max_length=64)),
                ("doc", models.TextField(null=True)),
                ("properties", models.JSONField(default=dict)),
                ("schema", models.TextField(null=True)),
                ("statistics", models.TextField(null=True)),
            ],
        ),
    ]
