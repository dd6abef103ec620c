"""An index of the audit records that are findings of rules about changes, which are few among all."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0009_event_positions"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="auditrecord",
            index=models.Index(
                condition=models.Q(
                    ("position__isnull", False),
                    ("event__in", ["change.vetoed", "change.overridden", "change.reported"]),
                ),
                fields=["at", "id"],
                name="audit_record_findings",
            ),
        ),
    ]
