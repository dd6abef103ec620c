"""Namespaces, tables, views and generic tables, idempotency records and statistics."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self
from uuid import UUID

from django.db import models

from catalog.change_rule_models import ChangeRule, ChangeRulesVersion
from catalog.hourly_models import LargeTable, SlowTable, WarehouseSize, WarehouseStatistic
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import LEVEL_SEPARATOR
from tenancy.models.querysets import VisibleQuerySet

__all__ = [
    "ChangeRule", "ChangeRulesVersion", "FileStatistics", "GenericTable", "IdempotencyRecord", "LargeTable",
    "LocationClaim", "MetricsDay", "MetricsReport",
    "Namespace", "SlowTable", "Snapshot", "TableTotals", "Tabular", "TabularMetadata", "WarehouseSize",
    "WarehouseStatistic",
]  # fmt: skip


class NamespaceQuerySet(VisibleQuerySet["Namespace"]):
    def in_warehouse(self, warehouse_id: UUID) -> Self:
        return self.filter(warehouse_id=warehouse_id)

    def in_subtree(self, path_key: str) -> Self:
        """Return the namespace with this `path_key` and those below it; to be called within a warehouse."""
        return self.filter(path_key=path_key) | self.filter(path_key__startswith=f"{path_key}{LEVEL_SEPARATOR}")


class Namespace(models.Model):
    """A folder of tables and views; nested. `path` joins the levels as spelled with U+001F, `path_key` their keys.

    `location`, normalized and immutable, is the folder of new tables without a chosen location; null in namespaces
    that are older than the field, whose tables are directly in the warehouse. It reserves nothing: locations of
    namespaces may be equal or nested, and a table may be in any of them.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="namespaces")
    parent = models.ForeignKey("self", on_delete=models.RESTRICT, null=True, related_name="children")
    path = models.TextField(help_text="Levels of the name, joined with the character U+001F.")
    path_key = models.TextField(help_text="Normalised path, which is unique in the warehouse.")
    properties: models.JSONField[dict[str, str]] = models.JSONField(default=dict)
    location = models.TextField(null=True, help_text="Folder of new tables, unless they choose another.")  # noqa: DJ001
    protected = models.BooleanField(default=False, help_text="The namespace can be dropped only with `force`.")
    version = models.BigIntegerField(default=1, help_text="Number of changes, for ETags.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = NamespaceQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["warehouse", "path_key"], name="namespace_once_per_warehouse")]
        indexes = [
            models.Index(fields=["warehouse", "parent", "id"], name="namespace_by_parent"),
            models.Index(fields=["warehouse", "parent", "path_key"], name="namespace_by_name"),
        ]

    def __str__(self) -> str:
        return ".".join(self.levels)

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(self.path.split(LEVEL_SEPARATOR))

    def as_json(self) -> dict[str, Any]:
        shown = shown_properties(self.properties, namespace_id=self.pk, location=self.location)
        return {"namespace": list(self.levels), "properties": shown}


def shown_properties(properties: dict[str, str], *, namespace_id: UUID, location: str | None) -> dict[str, str]:
    """Return the properties as clients see them: with `namespace_id`, and with `location`, which ends with a slash."""
    located = {} if location is None else {"location": f"{location}/"}
    return {**properties, **located, "namespace_id": str(namespace_id)}


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
    location and UUID are not, and until it expires it can be restored. Time, user and engine of the last commit are
    here because each commit writes this row; null for generic tables, and where no commit was recorded yet.
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
    committed_at = models.DateTimeField(null=True, help_text="Time of the last commit.")
    committed_by = models.CharField(  # noqa: DJ001 - null: not recorded
        max_length=255, null=True, help_text="User of the last commit."
    )
    engine = models.CharField(  # noqa: DJ001 - null: not recorded
        max_length=80, null=True, help_text="Engine of the last commit, as it names itself."
    )
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
            # For the search over all warehouses; as above.
            models.Index(fields=["location"], opclasses=["text_pattern_ops"], name="tabular_by_location"),
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


class TableTotals(models.Model):
    """What the current metadata of a table says in numbers (`catalog.iceberg.totals`): one small row a table.

    A commit writes it only if it changes one of them. Tables that were last changed by a version without this row have
    none until their next such commit, or until the queue `statistics` adds it. A number is null where the writer of the
    current snapshot did not count.
    """

    tabular = models.OneToOneField("catalog.Tabular", on_delete=models.CASCADE, primary_key=True, related_name="totals")
    records = models.BigIntegerField(null=True, help_text="Rows of the current snapshot.")
    files_size = models.BigIntegerField(null=True, help_text="Bytes of its data and delete files.")
    data_files = models.BigIntegerField(null=True)
    delete_files = models.BigIntegerField(null=True)
    position_deletes = models.BigIntegerField(null=True)
    equality_deletes = models.BigIntegerField(null=True)
    manifests = models.BigIntegerField(null=True)
    snapshot_count = models.IntegerField(null=True)
    ref_count = models.IntegerField("number of branches and tags", null=True)
    target_file_size = models.BigIntegerField(
        null=True, help_text="Bytes of a data file that writers aim at; null: their default."
    )

    class Meta:
        verbose_name = verbose_name_plural = "table totals"

    def __str__(self) -> str:
        return str(self.tabular_id)


class TabularColumns(models.Model):
    """The names of the current columns of a table or view (`catalog.iceberg.column_names`), for the search.

    A commit writes it only if it changes the current schema. Objects that were last changed by a version without this
    row have none until their next such commit, or until the queue `statistics` adds it.
    """

    # No constraint: servers of a version without this row drop tables, too. A row without a table is never found.
    tabular = models.OneToOneField(
        "catalog.Tabular", on_delete=models.CASCADE, primary_key=True, db_constraint=False, related_name="columns"
    )
    names = models.TextField(help_text="Dotted full names as spelled, each between two line breaks.")
    keys = models.TextField(help_text="Normalised names.")

    class Meta:
        verbose_name = verbose_name_plural = "column names"

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
    committed_by = models.CharField(  # noqa: DJ001 - null: not recorded
        max_length=255, null=True, help_text="User who committed it; null for snapshots of registered tables."
    )
    engine = models.CharField(max_length=80, null=True, help_text="As it names itself.")  # noqa: DJ001

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tabular", "snapshot_id"], name="snapshot_once_per_tabular")]

    def __str__(self) -> str:
        return str(self.snapshot_id)


class FileStatistics(models.Model):
    """What the manifests of one snapshot say about its files, as a worker read them.

    `document` is that of `catalog.iceberg.file_totals.FileSummary`, bounded in size; null with `error`, which says why
    the files could not be read. Of each table the last few snapshots that were read are kept.
    """

    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, related_name="file_statistics")
    snapshot_id = models.BigIntegerField("snapshot ID")
    document: models.JSONField[dict[str, Any] | None] = models.JSONField(null=True)
    error = models.TextField(default="", help_text="Why the files could not be read.")
    read_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = verbose_name_plural = "file statistics"
        constraints = [
            models.UniqueConstraint(fields=["tabular", "snapshot_id"], name="file_statistics_once_per_snapshot")
        ]

    def __str__(self) -> str:
        return str(self.snapshot_id)


class LocationClaimQuerySet(models.QuerySet["LocationClaim"]):
    def of_tabulars(self, ids: Collection[UUID]) -> Self:
        return self.filter(tabular_id__in=ids)

    def of_task(self, task_id: UUID) -> Self:
        return self.filter(task_id=task_id)

    def of_purges(self, warehouse_id: UUID) -> Self:
        return self.filter(warehouse_id=warehouse_id, task_id__isnull=False)


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


class IdempotencyRecord(models.Model):
    """The response to a request with an Idempotency-Key, inserted in the transaction that executes the request.

    `fingerprint` is the SHA-256 of caller and request, which detects another request with the same key. `response` is
    the serialized result (see `catalog.services.idempotency`): JSON text, as a JSON column would reorder its keys.
    """

    warehouse_id = models.UUIDField("warehouse ID")
    key = models.UUIDField(help_text="The Idempotency-Key header.")
    fingerprint = models.BinaryField(max_length=32, help_text="SHA-256 of caller and request.")
    status = models.SmallIntegerField(help_text="HTTP status of the response.")
    response = models.TextField(help_text="JSON.")
    created_at = models.DateTimeField()

    class Meta:
        verbose_name = "idempotency record"
        constraints = [models.UniqueConstraint(fields=["warehouse_id", "key"], name="idempotency_record_per_key")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_record_by_age")]

    def __str__(self) -> str:
        return f"{self.key}: {self.status}"


class MetricsReport(models.Model):
    """A scan or commit report of an engine, unchanged. Kept for some days, and for a limited number a day."""

    class Kind(models.TextChoices):
        SCAN = "scan-report"
        COMMIT = "commit-report"

    tabular = models.ForeignKey(
        "catalog.Tabular", on_delete=models.CASCADE, related_name="metrics_reports", db_index=False
    )
    kind = models.CharField(max_length=16, choices=Kind.choices)
    snapshot_id = models.BigIntegerField("snapshot ID")
    received_at = models.DateTimeField()
    document: models.JSONField[dict[str, Any]] = models.JSONField(help_text="The report as it was sent.")

    class Meta:
        verbose_name = "metrics report"
        indexes = [
            models.Index(fields=["tabular", "id"], name="metrics_report_by_tabular"),
            models.Index(fields=["received_at"], name="metrics_report_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of snapshot {self.snapshot_id}"


class MetricsDay(models.Model):
    """Sums of the metrics reports of one table on one UTC day: how it is read and written, and at what cost.

    Fields are the figures of `catalog.iceberg.metrics_reports`. `result_*` is what scans had to read after planning:
    `result_data_bytes / result_data_files` is the average size of the files that queries read, and `result_delete_files
    / result_data_files` the number of delete files that each query applies. A sum stops at 2^62 - 1.
    """

    tabular = models.ForeignKey(
        "catalog.Tabular", on_delete=models.CASCADE, related_name="metrics_days", db_index=False
    )
    day = models.DateField(help_text="UTC.")

    scans = models.BigIntegerField(default=0)
    planning_us = models.BigIntegerField("planning time", default=0, help_text="Microseconds.")
    result_data_files = models.BigIntegerField(default=0)
    result_delete_files = models.BigIntegerField(default=0)
    result_equality_delete_files = models.BigIntegerField(default=0)
    result_position_delete_files = models.BigIntegerField(default=0)
    result_deletion_vectors = models.BigIntegerField(default=0)
    result_data_bytes = models.BigIntegerField(default=0)
    result_delete_bytes = models.BigIntegerField(default=0)
    skipped_data_files = models.BigIntegerField(default=0)
    skipped_delete_files = models.BigIntegerField(default=0)
    total_data_manifests = models.BigIntegerField(default=0)
    scanned_data_manifests = models.BigIntegerField(default=0)
    skipped_data_manifests = models.BigIntegerField(default=0)
    total_delete_manifests = models.BigIntegerField(default=0)
    scanned_delete_manifests = models.BigIntegerField(default=0)
    skipped_delete_manifests = models.BigIntegerField(default=0)

    commits = models.BigIntegerField(default=0)
    commit_us = models.BigIntegerField("commit time", default=0, help_text="Microseconds.")
    attempts = models.BigIntegerField(default=0)
    added_data_files = models.BigIntegerField(default=0)
    removed_data_files = models.BigIntegerField(default=0)
    added_delete_files = models.BigIntegerField(default=0)
    removed_delete_files = models.BigIntegerField(default=0)
    added_records = models.BigIntegerField(default=0)
    removed_records = models.BigIntegerField(default=0)
    added_bytes = models.BigIntegerField(default=0)
    removed_bytes = models.BigIntegerField(default=0)
    manifests_created = models.BigIntegerField(default=0)
    manifests_replaced = models.BigIntegerField(default=0)

    class Meta:
        verbose_name = "daily metrics"
        verbose_name_plural = "daily metrics"
        constraints = [models.UniqueConstraint(fields=["tabular", "day"], name="metrics_day_once_per_tabular")]
        indexes = [models.Index(fields=["day"], name="metrics_day_by_age")]

    def __str__(self) -> str:
        return f"{self.tabular_id} on {self.day}"
