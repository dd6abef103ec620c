from __future__ import annotations

from django.db import models


class LocationClaim(models.Model):
    """A folder beside `Tabular.location` that holds files of somebody, so nobody else may lie in, around or at it.

    Of a tabular: where it lay before a commit moved it, and where its metadata files go when that is outside of its
    location. Of a purge task (`task_id`): what a dropped tabular left behind, until its files are deleted.
    """

    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="+")
    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, null=True, related_name="location_claims")
    task_id = models.UUIDField(null=True)
    location = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["warehouse", "tabular", "location"], name="location_claim_once"),
            models.CheckConstraint(
                condition=models.Q(tabular__isnull=True) ^ models.Q(task_id__isnull=True), name="location_claim_of_one"
            ),
        ]
        indexes = [
            models.Index(
                fields=["warehouse", "location"], opclasses=["uuid_ops", "text_pattern_ops"], name="location_claim_at"
            ),
            models.Index(fields=["task_id"], name="location_claim_by_task"),
        ]

    def __str__(self) -> str:
        return self.location
