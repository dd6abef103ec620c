"""Tables, views and generic tables, with their metadata, snapshots and reserved locations."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self
from uuid import UUID

from django.db import models

from icekeeper.kernel.ids import new_id
from tenancy.models.querysets import VisibleQuerySet


class TabularQuerySet(VisibleQuerySet["Tabular"]):
    def in_warehouse(self, warehouse_id: UUID) -> Self:
        return self.filter(warehouse_id=warehouse_id)

    def live(self) -> Self:
        """Return those that are not dropped."""
        return self.filter(deleted_at__isnull=True)

    def dropped(self) -> Self:
        """Return those that were dropped and can be restored."""
        return self.filter(deleted_at__isnull=False)

    def of_kind(self, *kinds: str) -> Self:
        return self.filter(kind__in=kinds)


class Tabular(models.Model):
    """A table, view or generic table: they share one name space, so they share one row type.

    `uuid` is the one that clients see. A registered table brings its own, so it is unique in its warehouse only; `id`
    is ours. `metadata_location` is the pointer that a commit moves, empty for a generic table. `location` is normalized
    (`storage.profiles.location`). A row with `deleted_at` was dropped in a soft-delete warehouse: its name is free, its
    location and UUID are not, and until it expires it can be restored.
    """

    class Kind(models.TextChoices):
        TABLE = "table"
        VIEW = "view"
        GENERIC_TABLE = "generic-table"

    id = models.UUIDField(primary_key=True, default=new_id)
    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="tabulars")
    namespace = models.ForeignKey("catalog.Namespace", on_delete=models.RESTRICT, related_name="tabulars")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    uuid = models.UUIDField("UUID", help_text="Id that clients see, unique in the warehouse.")
    name = models.CharField(max_length=255, help_text="Unique in the namespace, ignoring case.")
    name_key = models.TextField(help_text="Normalised name, which is unique in the namespace.")
    location = models.TextField(help_text="Base location without a trailing slash.")
    metadata_location = models.TextField(help_text="Current metadata file; empty for a generic table.")
    protected = models.BooleanField(default=False, help_text="The object can be dropped only with `force`.")
    deleted_at = models.DateTimeField(null=True, help_text="Time of the drop; until it expires, it can be undone.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = TabularQuerySet.as_manager()

    class Meta:
        verbose_name = "table or view"
        verbose_name_plural = "tables and views"
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "name_key"],
                condition=models.Q(deleted_at__isnull=True),
                name="tabular_name_once_per_namespace",
            ),
            models.UniqueConstraint(fields=["warehouse", "location"], name="tabular_location_once_per_warehouse"),
            models.UniqueConstraint(fields=["warehouse", "uuid"], name="tabular_uuid_once_per_warehouse"),
        ]
        indexes = [
            models.Index(fields=["namespace", "kind", "id"], name="tabular_by_listing_order"),
            # LIKE 'prefix%' uses an index on PostgreSQL only with this operator class.
            models.Index(
                fields=["warehouse", "location"], opclasses=["uuid_ops", "text_pattern_ops"], name="tabular_below"
            ),
            # The last three are for statistics and for dropped rows, which no other index contains.
            models.Index(
                fields=["warehouse", "kind"], condition=models.Q(deleted_at__isnull=True), name="tabular_by_kind"
            ),
            models.Index(
                fields=["warehouse", "id"], condition=models.Q(deleted_at__isnull=False), name="tabular_dropped"
            ),
            models.Index(
                fields=["namespace", "id"], condition=models.Q(deleted_at__isnull=False), name="tabular_dropped_in"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class GenericTable(models.Model):
    """The description of a `Tabular` in another format than Iceberg (Lance, Delta, CSV, ...); never updated.

    `schema` and `statistics` are JSON texts, so that every database keeps the order of keys; null when not given. The
    server does not interpret them.
    """

    tabular = models.OneToOneField(
        "catalog.Tabular", on_delete=models.CASCADE, primary_key=True, related_name="generic_table"
    )
    format = models.CharField(max_length=64, help_text="Such as lance, delta or csv.")
    doc = models.TextField("description", null=True)  # noqa: DJ001 - null is not the empty text
    properties: models.JSONField[dict[str, str]] = models.JSONField(default=dict)
    schema = models.TextField(null=True, help_text="JSON.")  # noqa: DJ001
    statistics = models.TextField(null=True, help_text="JSON.")  # noqa: DJ001

    class Meta:
        verbose_name = "generic table"

    def __str__(self) -> str:
        return str(self.tabular_id)


class TabularMetadata(models.Model):
    """The exact bytes of the current metadata file, so that a load needs no object store.

    A row of its own: the row of the table stays small, and a load that finds the bytes in memory reads only that one.
    `document` is null when the bytes exceed the inline limit: then they are in the object store only.
    """

    tabular = models.OneToOneField(
        "catalog.Tabular", on_delete=models.CASCADE, primary_key=True, related_name="current_metadata"
    )
    document = models.BinaryField(null=True, help_text="Metadata file; null if it exceeds the inline limit.")

    class Meta:
        verbose_name = verbose_name_plural = "table metadata"

    def __str__(self) -> str:
        return str(self.tabular_id)


class Snapshot(models.Model):
    """One snapshot of a table: a projection of its metadata for the console and statistics, written by each commit."""

    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, related_name="snapshots")
    snapshot_id = models.BigIntegerField("snapshot ID")
    parent_snapshot_id = models.BigIntegerField("parent snapshot ID", null=True)
    sequence_number = models.BigIntegerField(null=True)
    schema_id = models.BigIntegerField("schema ID", null=True)
    timestamp_ms = models.BigIntegerField("time", help_text="Milliseconds since the epoch.")
    summary: models.JSONField[dict[str, Any]] = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tabular", "snapshot_id"], name="snapshot_once_per_tabular")]

    def __str__(self) -> str:
        return str(self.snapshot_id)


class LocationClaimQuerySet(models.QuerySet["LocationClaim"]):
    def of_tabulars(self, ids: Collection[UUID]) -> Self:
        return self.filter(tabular_id__in=ids)

    def of_task(self, task_id: UUID) -> Self:
        return self.filter(task_id=task_id)


class LocationClaim(models.Model):
    """A location, other than `Tabular.location`, that is reserved for one owner: no other location may overlap it.

    A table reserves its former locations, and the folder of its metadata files if that is outside of its location. A
    purge task (`task_id`) reserves the locations of a dropped table until their files are deleted. A client that staged
    a table (`staged_by`, as `Actor.name`) has a reservation until the table is created, or until `expires_at`.
    """

    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="+")
    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, null=True, related_name="location_claims")
    task_id = models.UUIDField("task ID", null=True)
    staged_by = models.TextField(null=True, help_text="User who staged a table.")  # noqa: DJ001 - one owner is set
    expires_at = models.DateTimeField(null=True, help_text="End of the reservation of a staged table.")
    location = models.TextField()

    objects = LocationClaimQuerySet.as_manager()

    class Meta:
        verbose_name = "location reservation"
        constraints = [
            models.UniqueConstraint(fields=["warehouse", "tabular", "location"], name="location_claim_once"),
            models.CheckConstraint(
                condition=(
                    models.Q(tabular__isnull=False, task_id=None, staged_by=None, expires_at=None)
                    | models.Q(tabular=None, task_id__isnull=False, staged_by=None, expires_at=None)
                    | models.Q(tabular=None, task_id=None, staged_by__isnull=False, expires_at__isnull=False)
                ),
                name="location_claim_of_one",
            ),
        ]
        indexes = [
            models.Index(
                fields=["warehouse", "location"], opclasses=["uuid_ops", "text_pattern_ops"], name="location_claim_at"
            ),
            models.Index(fields=["task_id"], name="location_claim_by_task"),
            models.Index(
                fields=["expires_at"], condition=models.Q(expires_at__isnull=False), name="location_claim_by_end"
            ),
        ]

    def __str__(self) -> str:
        return self.location
