"""Warehouses, and the encrypted secrets of their credentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from django.db import models

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from tenancy.models import Project
from tenancy.models.querysets import VisibleQuerySet


@dataclass(frozen=True, slots=True)
class WarehouseStorage:
    """The storage profile of a warehouse, as stored, and the id of its credential in the secret store.

    `version` counts the changes of the warehouse, so `key` serves as a cache key.
    """

    warehouse_id: UUID
    version: int
    profile: dict[str, Any]
    secret_id: UUID | None
    enforced_signatures: str | None = None
    """See `storage.signing.enforcement`; None: the store was not probed."""

    @property
    def key(self) -> tuple[UUID, int]:
        return self.warehouse_id, self.version


class WarehouseQuerySet(VisibleQuerySet["Warehouse"]):
    def in_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def named(self, name: str) -> Self:
        """Return the warehouses with a name, however it is spelled: one a project at most."""
        return self.filter(name_key=name_key(name))

    def active(self) -> Self:
        return self.filter(status=Warehouse.Status.ACTIVE)

    def with_credential(self) -> Self:
        return self.filter(secret_id__isnull=False)

    def with_secret(self, secret_id: UUID) -> Self:
        """Return the warehouse whose credential this secret is."""
        return self.filter(secret_id=secret_id)


class Warehouse(models.Model):
    """A location in an object store for tables, with the rules for them.

    `storage_profile` is the profile as the API returns it. `location_key` finds overlapping warehouses
    (`storage.profiles.location`). The row does not contain the credential for the store: `credential_type` is its type,
    `secret_id` its id in the secret store. `version` is part of cache keys and ETags. `enforced_signatures` is what the
    store enforces of a signature (`storage.signing.enforcement`), null when it was not probed.
    """

    class Status(models.TextChoices):
        ACTIVE = "active"
        INACTIVE = "inactive"

    class ManagedBy(models.TextChoices):
        SELF_MANAGED = "self-managed"
        INSTANCE_ADMIN = "instance-admin"

    id = models.UUIDField(primary_key=True, default=new_id)
    project = models.ForeignKey("tenancy.Project", on_delete=models.RESTRICT, related_name="warehouses")
    name = models.CharField(max_length=128, help_text="Unique in the project, ignoring case.")
    name_key = models.CharField(max_length=2048, help_text="Normalised name, which is unique in the project.")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.ACTIVE)
    storage_profile: models.JSONField[dict[str, Any]] = models.JSONField(help_text="Type and address of the store.")
    location = models.TextField(help_text="Base location without a trailing slash.")
    location_key = models.TextField(help_text="Finds warehouses whose locations overlap.")
    delete_profile: models.JSONField[dict[str, Any]] = models.JSONField(
        help_text="Whether drops can be undone, and for how long."
    )
    allowed_format_versions: models.JSONField[list[int]] = models.JSONField(
        help_text="Iceberg format versions that tables may have."
    )
    default_format_version = models.SmallIntegerField(
        null=True, help_text="Format version of tables whose creator chooses none."
    )
    credential_type = models.CharField(max_length=32, null=True)  # noqa: DJ001 - null: it has no credential
    secret_id = models.UUIDField("secret ID", null=True, help_text="Id of the credential in the secret store.")
    enforced_signatures = models.CharField(  # noqa: DJ001 - null: the store was not probed
        max_length=32, null=True, help_text="What the store enforces of signed requests, as validation found."
    )
    managed_by = models.CharField(
        max_length=16,
        choices=ManagedBy.choices,
        default=ManagedBy.SELF_MANAGED,
        help_text="Who may change the warehouse.",
    )
    protected = models.BooleanField(default=False, help_text="The warehouse cannot be deleted.")
    version = models.BigIntegerField(default=1, help_text="Number of changes, for caches and ETags.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = WarehouseQuerySet.as_manager()

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


class SecretQuerySet(models.QuerySet["Secret"]):
    def encrypted_with(self, key_id: str | None) -> Self:
        """Return the secrets that a key has encrypted; None: those whose key is not recorded."""
        return self.filter(key_id__isnull=True) if key_id is None else self.filter(key_id=key_id)


class Secret(models.Model):
    """The encrypted credential of a warehouse. Never updated, except by a key rotation: a new secret is a new row.

    `key_id` identifies the encryption key (`storage.secrets.database`); null where an older version did not record it.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    ciphertext = models.BinaryField()
    key_id = models.CharField(  # noqa: DJ001 - null: not recorded
        "key ID", max_length=16, null=True, help_text="Digest that identifies the encryption key."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SecretQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["key_id", "id"], name="secret_by_key")]

    def __str__(self) -> str:
        return str(self.id)
