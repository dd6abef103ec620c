from __future__ import annotations

from typing import Any

from django.db import models

from icekeeper.kernel.ids import new_id
from storage.storage import Storage


class Warehouse(models.Model):
    """A place in an object store that tables live in, with its rules.

    `storage_profile` is the profile as the API shows it, `location` its base without a trailing slash, `place` that
    base as others are compared with it (`storage.profiles.place`). The credential for the store is not in this row:
    `credential_type` says of which type it is, `secret_id` where the secret store has it. `version` counts changes, so
    that caches and ETags can tell. `enforced_signatures` is what the store was found to enforce of signatures by the
    warehouse's keys (`storage.signing.enforcement`), null when it was not probed.
    """

    class Status(models.TextChoices):
        ACTIVE = "active"
        INACTIVE = "inactive"

    class ManagedBy(models.TextChoices):
        SELF_MANAGED = "self-managed"
        INSTANCE_ADMIN = "instance-admin"

    id = models.UUIDField(primary_key=True, default=new_id)
    project = models.ForeignKey("tenancy.Project", on_delete=models.RESTRICT, related_name="warehouses")
    name = models.CharField(max_length=128)
    name_key = models.CharField(max_length=2048)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.ACTIVE)
    storage_profile: models.JSONField[dict[str, Any]] = models.JSONField()
    location = models.TextField()
    place = models.TextField()
    delete_profile: models.JSONField[dict[str, Any]] = models.JSONField()
    allowed_format_versions: models.JSONField[list[int]] = models.JSONField()
    default_format_version = models.SmallIntegerField(null=True)
    credential_type = models.CharField(max_length=32, null=True)  # noqa: DJ001 - null: it has no credential
    secret_id = models.UUIDField(null=True)
    enforced_signatures = models.CharField(max_length=32, null=True)  # noqa: DJ001 - null: the store was not probed
    managed_by = models.CharField(max_length=16, choices=ManagedBy.choices, default=ManagedBy.SELF_MANAGED)
    protected = models.BooleanField(default=False)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name_key"], name="warehouse_name_once_per_project")]
        indexes = [
            models.Index(fields=["project", "id"], name="warehouse_by_project"),
            models.Index(fields=["project", "status", "id"], name="warehouse_by_status"),
            models.Index(fields=["place"], opclasses=["text_pattern_ops"], name="warehouse_at"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def storage(self) -> Storage:
        return Storage(self.pk, self.version, self.storage_profile, self.secret_id, self.enforced_signatures)

    @property
    def has_soft_delete(self) -> bool:
        return bool(self.delete_profile["type"] == "soft")
