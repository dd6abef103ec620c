from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class Tabular(models.Model):
    """A table, view or generic table: they share one name space, so they share one row type.

    `uuid` is the one that clients see (register can bring any, so it is unique in its warehouse only); `id` is ours.
    `metadata_location` is the pointer that a commit moves, empty for a generic table. `location` is the compared form:
    see `storage.profiles.location`. A row with `deleted_at` was dropped in a soft-delete warehouse: its name is free,
    its location and UUID are not, and until it expires it can be restored.
    """

    class Kind(models.TextChoices):
        TABLE = "table"
        VIEW = "view"
        GENERIC_TABLE = "generic-table"

    id = models.UUIDField(primary_key=True, default=new_id)
    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="tabulars")
    namespace = models.ForeignKey("catalog.Namespace", on_delete=models.RESTRICT, related_name="tabulars")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    uuid = models.UUIDField()
    name = models.CharField(max_length=255)
    name_key = models.TextField()
    location = models.TextField()
    metadata_location = models.TextField()
    protected = models.BooleanField(default=False)
    deleted_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
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
            # The last three: statistics, and what can be restored, which is in no index that the others need.
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
