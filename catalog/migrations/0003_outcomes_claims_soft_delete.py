import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0002_metadata_uncompressed"), ("storage", "0001_initial")]

    operations = [
        migrations.RemoveConstraint(model_name="formerlocation", name="former_location_once"),
        migrations.RemoveIndex(model_name="formerlocation", name="former_location_at"),
        migrations.RenameModel("FormerLocation", "LocationClaim"),
        migrations.AddField(model_name="locationclaim", name="task_id", field=models.UUIDField(null=True)),
        migrations.AlterField(
            model_name="locationclaim",
            name="tabular",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="location_claims",
                to="catalog.tabular",
            ),
        ),
        migrations.AddIndex(
            model_name="locationclaim",
            index=models.Index(
                fields=["warehouse", "location"], name="location_claim_at", opclasses=["uuid_ops", "text_pattern_ops"]
            ),
        ),
        migrations.AddIndex(
            model_name="locationclaim", index=models.Index(fields=["task_id"], name="location_claim_by_task")
        ),
        migrations.AddConstraint(
            model_name="locationclaim",
            constraint=models.UniqueConstraint(
                fields=("warehouse", "tabular", "location"), name="location_claim_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="locationclaim",
            constraint=models.CheckConstraint(
                condition=models.Q(("tabular__isnull", True)) ^ models.Q(("task_id__isnull", True)),
                name="location_claim_of_one",
            ),
        ),
        migrations.AddField(model_name="tabular", name="deleted_at", field=models.DateTimeField(null=True)),
        migrations.RemoveConstraint(model_name="tabular", name="tabular_name_once_per_namespace"),
        migrations.AddConstraint(
            model_name="tabular",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at__isnull", True)),
                fields=("namespace", "name_key"),
                name="tabular_name_once_per_namespace",
            ),
        ),
        migrations.CreateModel(
            name="Outcome",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("warehouse_id", models.UUIDField()),
                ("key", models.UUIDField()),
                ("fingerprint", models.BinaryField(max_length=32)),
                ("status", models.SmallIntegerField()),
                ("answer", models.TextField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("warehouse_id", "key"), name="outcome_once_per_key")
                ],
                "indexes": [models.Index(fields=["created_at"], name="outcome_by_age")],
            },
        ),
    ]
