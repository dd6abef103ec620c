from __future__ import annotations

from django.db import models


class LocationClaim(models.Model):
    """A location, other than `Tabular.location`, that is reserved for one owner: no other location may overlap it.

    Claims of a tabular are its former locations, and the folder of its metadata files if that is outside of its
    location. Claims of a purge task (`task_id`) are the locations of a dropped tabular until its files are deleted.
    Claims of a client that staged a table (`staged_by`, as `Actor.name`) last until the table is created, or until
    `expires_at`.
    """

    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="+")
    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, null=True, related_name="location_claims")
    task_id = models.UUIDField(null=True)
    staged_by = models.TextField(null=True)  # noqa: DJ001 - exactly one of the three owners is set
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
