from __future__ import annotations

from django.db import models


class FormerLocation(models.Model):
    """Where a table lay before a commit moved it. Files of it are still there, so nobody else may lie there."""

    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, related_name="+")
    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="+")
    location = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["warehouse", "tabular", "location"], name="former_location_once")
        ]
        indexes = [
            models.Index(
                fields=["warehouse", "location"],
                opclasses=["uuid_ops", "text_pattern_ops"],
                name="former_location_at",
            )
        ]

    def __str__(self) -> str:
        return self.location
