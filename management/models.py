from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db import models

NO_WAREHOUSE: Final = UUID(int=0)
"""The id in rows without a warehouse, so that one unique constraint and one upsert cover every row."""


class EndpointStatistic(models.Model):
    """The number of calls of an endpoint in one hour (UTC), by status code, project and warehouse.

    `endpoint` is `METHOD /route/{pattern}`. `hour` is the start of the hour; `created_at` and `updated_at` are the
    times of the first and the last call in it, the latter null after a single call. The history of a deleted
    warehouse is kept, so `warehouse_id` is not a foreign key.
    """

    project = models.ForeignKey("tenancy.Project", on_delete=models.CASCADE, related_name="+", db_index=False)
    warehouse_id = models.UUIDField(default=NO_WAREHOUSE)
    endpoint = models.CharField(max_length=255)
    status = models.PositiveSmallIntegerField()
    hour = models.DateTimeField()
    count = models.BigIntegerField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "hour", "warehouse_id", "endpoint", "status"], name="endpoint_statistic_once_an_hour"
            )
        ]
        indexes = [models.Index(fields=["hour"], name="endpoint_statistic_by_age")]

    def __str__(self) -> str:
        return f"{self.endpoint} {self.status}"
