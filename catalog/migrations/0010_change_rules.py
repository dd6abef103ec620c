"""Rules that approve or reject changes of objects, and the number of their changes."""

from __future__ import annotations

import django.db.models.deletion
import icekeeper.kernel.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0009_children_by_name'),
        ('tenancy', '0008_events_by_warehouse'),
    ]

    operations = [
        migrations.CreateModel(
            name='ChangeRulesVersion',
            fields=[
                ('singleton', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('number', models.BigIntegerField(default=0, help_text='Number of changes of rules.')),
            ],
            options={
                'verbose_name': 'version of the change rules',
                'constraints': [models.CheckConstraint(condition=models.Q(('singleton', 1)), name='one_change_rules_version')],
            },
        ),
        migrations.CreateModel(
            name='ChangeRule',
            fields=[
                ('id', models.UUIDField(default=icekeeper.kernel.ids.new_id, primary_key=True, serialize=False)),
                ('name', models.CharField(help_text='Unique among the rules of the object, ignoring case.', max_length=128)),
                ('name_key', models.CharField(help_text='Normalised name.', max_length=512)),
                ('kind', models.CharField(max_length=32)),
                ('configuration', models.JSONField(default=dict)),
                ('mode', models.CharField(choices=[('enforce', 'Enforce'), ('dry-run', 'Dry Run')], max_length=16)),
                ('on_failure', models.CharField(choices=[('deny', 'Deny'), ('allow', 'Allow')], max_length=16)),
                ('is_enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('secret_id', models.UUIDField(help_text='Secret of an HTTP hook, in the secret store.', null=True)),
                ('version', models.BigIntegerField(default=1, help_text='Number of changes, which detects concurrent updates.')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(null=True)),
                ('securable', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='change_rules', to='tenancy.securable')),
            ],
            options={
                'verbose_name': 'change rule',
                'constraints': [models.UniqueConstraint(fields=('securable', 'name_key'), name='change_rule_once_per_object'), models.CheckConstraint(condition=models.Q(('mode__in', ['enforce', 'dry-run'])), name='change_rule_mode_is_known'), models.CheckConstraint(condition=models.Q(('on_failure__in', ['deny', 'allow'])), name='change_rule_failure_is_known')],
            },
        ),
    ]
