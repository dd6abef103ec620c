from __future__ import annotations

from typing import Any

from django.db import models

from icekeeper.kernel.ids import new_id
from storage.storage import WarehouseStorage


class Warehouse(models.Model):
    """A location in an object store where tables are kept, with the rules for them.

    `storage_profile` is the profile as the API shows it, `location` its base without a trailing slash, `location_key`
    the form by which bases of warehouses are compared (`storage.profiles.location_keys`). The row does not contain the
    credential for the store: `credential_type` is its type, `secret_id` its id in the secret store. `version` counts
    changes and is part of cache keys and ETags. `enforced_signatures` says which signed headers the store was found to
    enforce (`storage.signing.enforcement`), null when the store was not probed.
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
    location_key = models.TextField()
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
            models.Index(fields=["location_key"], opclasses=["text_pattern_ops"], name="warehouse_by_location_key"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def storage(self) -> WarehouseStorage:
        return WarehouseStorage(self.pk, self.version, self.storage_profile, self.secret_id, self.enforced_signatures)

    @property
    def has_soft_delete(self) -> bool:
        return bool(self.delete_profile["type"] == "soft")
