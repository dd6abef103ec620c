from __future__ import annotations

from django.db import models


class LocationClaim(models.Model):
    """A folder beside `Tabular.location` that holds files of somebody, so nobody else may lie in, around or at it.

    Of a tabular: where it lay before a commit moved it, and where its metadata files go when that is outside of its
    location. Of a purge task (`task_id`): what a dropped tabular left behind, until its files are deleted. Of whoever
    staged a table there (`staged_by`, as `Actor.name`): until that table is made, or to `expires_at`.
    """

    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="+")
    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, null=True, related_name="location_claims")
    task_id = models.UUIDField(null=True)
    staged_by = models.TextField(null=True)  # noqa: DJ001 - of the three owners one is there
    expires_at = models.DateTimeField(null=True)
    location = models.TextField()

    class Meta:
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
