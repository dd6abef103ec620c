"""Indexes of the audit records that are findings of rules about changes, which are few among all."""

from django.db import migrations, models

from tenancy.models.audit_record import DetailText

FINDINGS = models.Q(
    ("position__isnull", False), ("event__in", ["change.vetoed", "change.overridden", "change.reported"])
)


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0009_event_positions"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="auditrecord",
            index=models.Index(condition=FINDINGS, fields=["at", "id"], name="audit_record_findings"),
        ),
        migrations.AddIndex(
            model_name="auditrecord",
            index=models.Index(
                DetailText(key="rule"),
                models.F("at"),
                models.F("id"),
                condition=FINDINGS,
                name="audit_record_by_rule",
            ),
        ),
        migrations.AddIndex(
            model_name="auditrecord",
            index=models.Index(
                DetailText(key="warehouse"),
                models.F("at"),
                models.F("id"),
                condition=FINDINGS,
                name="audit_record_in_warehouse",
            ),
        ),
    ]
