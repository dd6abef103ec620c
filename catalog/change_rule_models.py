"""Rules that approve or reject changes of objects before they are written, and the number of their changes."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q

from icekeeper.kernel.ids import new_id


class ChangeRule(models.Model):
    """A rule about changes of an object and of everything below it: the `securable`, with which it is deleted.

    `configuration` is that of its kind (`catalog.services.approval.rule_kinds`). A rule in the mode `dry-run` only
    reports. `on_failure` decides when the rule itself fails, such as when its server does not respond. `secret_id` is
    the secret of an HTTP hook. `version` counts the updates.
    """

    class Mode(models.TextChoices):
        ENFORCE = "enforce"
        DRY_RUN = "dry-run"

    class OnFailure(models.TextChoices):
        DENY = "deny"
        ALLOW = "allow"

    id = models.UUIDField(primary_key=True, default=new_id)
    securable = models.ForeignKey(
        "tenancy.Securable", on_delete=models.CASCADE, related_name="change_rules", db_index=False
    )
    name = models.CharField(max_length=128, help_text="Unique among the rules of the object, ignoring case.")
    name_key = models.CharField(max_length=512, help_text="Normalised name.")
    kind = models.CharField(max_length=32)
    configuration: models.JSONField[dict[str, Any]] = models.JSONField(default=dict)
    mode = models.CharField(max_length=16, choices=Mode.choices)
    on_failure = models.CharField(max_length=16, choices=OnFailure.choices)
    is_enabled = models.BooleanField("enabled", default=True)
    secret_id = models.UUIDField(null=True, help_text="Secret of an HTTP hook, in the secret store.")
    version = models.BigIntegerField(default=1, help_text="Number of changes, which detects concurrent updates.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "change rule"
        constraints = [
            models.UniqueConstraint(fields=["securable", "name_key"], name="change_rule_once_per_object"),
            models.CheckConstraint(condition=Q(mode__in=["enforce", "dry-run"]), name="change_rule_mode_is_known"),
            models.CheckConstraint(condition=Q(on_failure__in=["deny", "allow"]), name="change_rule_failure_is_known"),
        ]

    def __str__(self) -> str:
        return self.name


class ChangeRulesVersion(models.Model):
    """The single row that counts changes of rules; missing until there is the first rule.

    The statement that finds the target of a write reads it, so each process uses the rules that are committed then.
    """

    singleton = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.BigIntegerField(default=0, help_text="Number of changes of rules.")

    class Meta:
        verbose_name = "version of the change rules"
        constraints = [models.CheckConstraint(condition=Q(singleton=1), name="one_change_rules_version")]

    def __str__(self) -> str:
        return str(self.number)
