from __future__ import annotations

from typing import Final

from django.db import models
from django.db.models import Q

from icekeeper.kernel.ids import new_id

NO_HASH: Final = "0" * 64
"""Stands before the first row of the chain."""


class AuditRecord(models.Model):
    """Who did what to what, when, from where, and what came of it. Texts are empty where there is nothing to tell.

    `actor` is a user's id, `anonymous` or `internal`; `access_token_id` is the token of this server that came.
    `action` is the right that was asked for, where it was one. Objects are named, not referred to: the row outlives
    them. A row that sums up stands for `count` occurrences from `at` to `last_at` (null where there was one only).
    `details` is a JSON object, never with a secret.

    A row is written without `position` and gets it, with the hashes, when it is sealed (`tenancy.audit.chain`). Nothing
    changes it after that.
    """

    class Outcome(models.TextChoices):
        ALLOWED = "allowed"
        DENIED = "denied"
        FAILED = "failed"

    class PrivilegeSource(models.TextChoices):
        AUTHORIZER = "authorizer"
        INSTANCE_ADMIN = "instance_admin"
        INTERNAL = "internal"

    id = models.UUIDField(primary_key=True, default=new_id)
    position = models.BigIntegerField(null=True, unique=True)
    at = models.DateTimeField()
    last_at = models.DateTimeField(null=True)
    count = models.BigIntegerField(default=1)
    event = models.CharField(max_length=64)
    action = models.CharField(max_length=255, blank=True, default="")
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    reason = models.CharField(max_length=64, blank=True, default="")
    privilege_source = models.CharField(max_length=16, choices=PrivilegeSource.choices, blank=True, default="")
    actor = models.CharField(max_length=255)
    assumed_role = models.UUIDField(null=True)
    access_token_id = models.UUIDField(null=True)
    object_type = models.CharField(max_length=32, blank=True, default="")
    object_id = models.CharField(max_length=255, blank=True, default="")
    project_id = models.CharField(max_length=128, blank=True, default="")
    request_id = models.UUIDField(null=True)
    address = models.CharField(max_length=64, blank=True, default="")
    forwarded_for = models.CharField(max_length=256, blank=True, default="")
    user_agent = models.CharField(max_length=256, blank=True, default="")
    details = models.TextField(default="{}")
    previous_hash = models.CharField(max_length=64, blank=True, default="")
    hash = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["at", "id"], name="audit_record_by_time"),
            models.Index(fields=["at", "id"], condition=Q(position=None), name="audit_record_unsealed"),
            models.Index(fields=["actor", "at"], name="audit_record_by_actor"),
            models.Index(fields=["event", "at"], name="audit_record_by_event"),
            models.Index(fields=["object_id", "at"], name="audit_record_by_object"),
            models.Index(fields=["project_id", "at"], name="audit_record_by_project"),
            models.Index(fields=["access_token_id", "at"], name="audit_record_by_token"),
            models.Index(fields=["request_id"], name="audit_record_by_request"),
            models.Index(fields=["outcome", "at"], condition=~Q(outcome="allowed"), name="audit_record_refused"),
            models.Index(fields=["object_type", "at"], name="audit_record_by_type"),
            # Of what most rows are without, only those that have it.
            models.Index(fields=["action", "at"], condition=~Q(action=""), name="audit_record_by_action"),
            models.Index(
                fields=["assumed_role", "at"], condition=Q(assumed_role__isnull=False), name="audit_record_by_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.object_type} {self.object_id} by {self.actor}"


class AuditChain(models.Model):
    """The one row that says where the chain of sealed records ends, and, once old ones were deleted, where it begins.

    `anchor` is the last row that was deleted for its age: the next one continues its hash. Who seals or deletes holds
    the lock of this row.
    """

    singleton = models.PositiveSmallIntegerField(primary_key=True, default=1)
    position = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=NO_HASH)
    anchor_position = models.BigIntegerField(default=0)
    anchor_hash = models.CharField(max_length=64, default=NO_HASH)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(singleton=1), name="one_audit_chain")]

    def __str__(self) -> str:
        return f"{self.anchor_position} to {self.position}"
